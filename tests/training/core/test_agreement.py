"""Claims about the comparison of trainer and engine: tokens of the current weights apart, and nothing hides."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paddock.training.core.agreement import Agreement, Agreements, agreement_of, agreements, disagreeing_rows
from paddock.training.core.records import TrainRow
from paddock.training.core.testing import batch, group, member, sample


def row() -> TrainRow:
    """Engine's log-probs -0.25 at 1, 2 (version 0) and at 4, 5 (version 1)."""
    two = sample([("a", 1, 3, "0"), ("b", 4, 6, "1")])
    return batch(group(member(0, samples=[two]), member(1, 0.0))).rows[0]


TRAINER = [-0.35, -0.25, -0.25, -0.24]


def test_tokens_of_the_current_weights_are_apart() -> None:
    found = agreements(row(), TRAINER, 1)
    assert (found.all.tokens, found.current.tokens) == (4, 2)
    assert found.all.mean_abs == pytest.approx(0.11 / 4)
    assert found.all.max_abs == pytest.approx(0.1)
    assert found.current.mean_abs == pytest.approx(0.005)
    assert found.current.max_abs == pytest.approx(0.01)
    assert found.current.k3 == pytest.approx((math.exp(0.01) - 1.01) / 2)
    assert found.current.mult == pytest.approx((1 + math.exp(0.01)) / 2)
    assert agreements(row(), TRAINER, 2).current.tokens == 0


def test_metrics_are_only_of_what_there_is() -> None:
    found = agreements(row(), TRAINER, 5).metrics()
    assert found["train/logprob_error/all/max_abs"] == pytest.approx(0.1)
    assert not [name for name in found if "current" in name]
    assert Agreements().metrics() == {}


def test_parts_add_up() -> None:
    differences = [0.1, -0.2, 0.0, 0.3, -0.05]
    whole = agreement_of(differences)
    parts = agreement_of(differences[:2]) + agreement_of(differences[2:]) + Agreement()
    assert (parts.tokens, parts.max_abs) == (5, 0.3)
    assert parts.mean_abs == pytest.approx(whole.mean_abs)
    assert parts.k3 == pytest.approx(whole.k3)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=5), st.integers(0, 5))
@example([1e308, 1e308, -1e308], 0)
@example([math.inf, -math.inf], 0)
def test_what_is_no_number_does_not_hide(values: list[float], split: int) -> None:
    found = agreement_of(values[:split]) + agreement_of(values[split:])
    assert found.tokens == len(values)
    if any(math.isnan(value) for value in values):
        assert math.isnan(found.max_abs)
    elif values:
        assert found.max_abs == max(map(abs, values))


def test_rows_that_disagree_too_much_are_named() -> None:
    close = [-0.25, -0.25, -0.25, -0.25]
    far = [-0.25, -0.25, -0.25, -0.25 - math.log(5.1)]
    unknown = [math.nan, -0.25, -0.25, -0.25]
    rows = [row()] * 4
    assert disagreeing_rows(rows, [close, far, unknown, [-9999.0] * 4], 2.0) == [1, 2, 3]
    assert disagreeing_rows(rows, [close, far, unknown, far], None) == []
    far[3] = -0.25 - math.log(4.9)
    assert disagreeing_rows([row()], [far], 2.0) == []


def test_log_probs_that_are_not_the_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="5 log-probs for 4 trained tokens"):
        agreements(row(), [0.0] * 5, 0)
