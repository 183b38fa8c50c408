"""The time until the next look."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.sandbox.watchdog import WatchdogSettings, next_period
from paddock.sandbox.watchdog.period import Growth

amounts = st.floats(0, 1e12)
limits = st.floats(1, 1e12)
rests = st.floats(0.01, 60)


@given(rest=rests, used=amounts, limit=limits, growth=amounts)
def test_it_lies_between_a_twentieth_of_rest_and_rest(rest: float, used: float, limit: float, growth: float) -> None:
    assert rest * 0.05 <= next_period(rest, used=used, limit=limit, growth_per_s=growth) <= rest


@given(rest=rests, one=amounts, two=amounts, limit=limits, growth=amounts)
def test_it_never_grows_with_use(rest: float, one: float, two: float, limit: float, growth: float) -> None:
    less, more = sorted((one, two))
    periods = [next_period(rest, used=used, limit=limit, growth_per_s=growth) for used in (less, more)]
    assert periods[0] >= periods[1]


@given(rest=rests, used=amounts, limit=limits, one=amounts, two=amounts)
def test_it_never_grows_with_growth(rest: float, used: float, limit: float, one: float, two: float) -> None:
    slow, fast = sorted((one, two))
    assert next_period(rest, used=used, limit=limit, growth_per_s=slow) >= next_period(
        rest, used=used, limit=limit, growth_per_s=fast
    )


@given(used=st.floats(0, 100), growth=st.floats(0.1, 1000))
def test_a_steady_growth_never_passes_the_limit_unseen_by_more_than_one_finest_period(
    used: float, growth: float
) -> None:
    period = next_period(1.0, used=used, limit=100.0, growth_per_s=growth)
    assert period == pytest.approx(0.05) or used + growth * period < 100.0


def test_half_used_and_still_it_rests() -> None:
    assert next_period(1.0, used=50, limit=100) == 1.0


def test_at_the_limit_and_over_it_is_the_finest() -> None:
    assert next_period(1.0, used=100, limit=100) == next_period(1.0, used=500, limit=100) == 0.05


def test_without_a_limit_it_rests() -> None:
    assert next_period(3.0, used=1e15, limit=None, growth_per_s=1e15) == 3.0


def test_growth_is_remembered_through_a_pause_and_forgotten_by_halves() -> None:
    growth = Growth()
    assert [growth.read(used, now) for now, used in enumerate([0, 8, 8, 8, 4])] == [0, 8, 4, 2, 1]


@given(limit=st.integers(16, 1 << 20))
def test_the_watchdog_acts_below_the_limit_but_not_by_much(limit: int) -> None:
    threshold = WatchdogSettings().memory_threshold(limit << 20)
    assert 0.95 * limit * 2**20 - 1 <= threshold < limit << 20
    assert (limit << 20) - threshold <= 64 << 20
