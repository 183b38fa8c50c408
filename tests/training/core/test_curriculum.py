"""Claims about rows that come by their pass rates: in their proportion, each in turn, and the same after a restart."""

from collections import Counter
from collections.abc import Mapping
from math import ceil
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from paddock.training.core.curriculum import ROUNDING, Curriculum
from paddock.training.core.ledger import Ledger
from paddock.training.core.order import EpochRow, RowOrder, RowPool, all_rows
from paddock.training.core.records import Member
from paddock.training.core.settings import AsyncGrpoSettings, CurriculumSettings, GrpoSettings
from paddock.training.core.testing import group, member
from paddock.types import Outcome

WEIGHTS = st.floats(0.05, 1.0) | st.sampled_from([0.1, 0.25, 1 / 3, 0.5, 1.0])
RATES = st.sampled_from([0.0, 0.3, 1.0])
EASY, HARD = 1.0, 0.0


def order(
    rates: Mapping[int, float], pools: list[RowPool] | None = None, *, n_rows: int = 12, seed: int = 7, **known: Any
) -> RowOrder:
    curriculum = Curriculum(CurriculumSettings(**known), seed=seed, rates=rates)
    return RowOrder(pools or all_rows(n_rows), seed=seed, shuffle=True, max_epochs=10_000, curriculum=curriculum)


def take(of: RowOrder, count: int) -> list[EpochRow]:
    return [row for row in (of.take() for _ in range(count)) if row is not None]


@given(st.dictionaries(st.integers(0, 11), RATES), st.integers(0, 9))
def test_with_weights_of_one_the_order_is_as_without(rates: dict[int, float], seed: int) -> None:
    plain = RowOrder(all_rows(12), seed=seed, shuffle=True, max_epochs=10_000)
    assert take(order(rates, seed=seed), 60) == take(plain, 60)


@given(st.lists(RATES | st.none(), min_size=2, max_size=12), WEIGHTS, WEIGHTS, st.integers(0, 99))
def test_each_row_comes_in_its_share_of_any_rounds_in_a_row(
    rates: list[float | None], easy: float, hard: float, seed: int
) -> None:
    given_rates = {row: rate for row, rate in enumerate(rates) if rate is not None}
    of = order(given_rates, n_rows=len(rates), seed=seed, easy_weight=easy, hard_weight=hard)
    taken = take(of, 300)
    n_rounds = taken[-1].epoch  # the last one may not be whole
    assert len(set(taken)) == len(taken) == 300, "none twice in a round"
    for row, rate in enumerate(rates):
        weight = easy if rate == EASY else hard if rate == HARD else 1.0
        rounds = [each.epoch for each in taken if each.row == row and each.epoch < n_rounds]
        gaps = [later - sooner for sooner, later in zip([-1, *rounds], [*rounds, n_rounds], strict=True)]
        assert max(gaps) <= ceil(1 / weight - 1e-6), "no row is away for longer"
        starts = range(0, n_rounds, 7)
        for start in starts:
            own, length = sum(round_ >= start for round_ in rounds), n_rounds - start
            assert abs(own - weight * length) < 1 + 2 * ROUNDING * length


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_rows_that_come_seldom_do_not_come_together(seed: int) -> None:
    taken = take(order(dict.fromkeys(range(100), EASY), n_rows=100, seed=seed, easy_weight=0.1), 1000)
    sizes = Counter(each.epoch for each in taken[:-100])
    assert max(sizes.values()) < 30, "of a hundred rows about ten come in a round"


@given(
    st.lists(st.tuples(st.integers(1, 6), st.floats(0.1, 10)), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 17), RATES), max_size=40),
    WEIGHTS | st.just(0.0),
    st.integers(0, 40),
)
def test_stored_at_any_point_it_goes_on_as_it_would_have(
    sizes: list[tuple[int, float]], measured: list[tuple[int, float]], easy: float, at: int
) -> None:
    n_rows, pools = 0, []
    for nth, (size, weight) in enumerate(sizes):
        pools.append(RowPool(range(n_rows, n_rows + size), weight, f"pool{nth}"))
        n_rows += size

    def run(of: RowOrder, rates: list[tuple[int, float]]) -> list[EpochRow | None]:
        taken = []
        for row, rate in rates:
            taken.append(of.take())
            if of.curriculum is not None and row < n_rows:
                of.curriculum.measure(row, rate)
        return [*taken, *(of.take() for _ in range(20))]

    first, again = (order({}, pools, easy_weight=easy, hard_weight=0.4) for _ in range(2))
    run(first, measured[:at])
    stored = orjson.loads(orjson.dumps([first.epoch, first.position, first.to_wire()]))
    again.move_to(*stored[:2])
    again.restore(stored[2])
    assert again.metrics() == first.metrics()
    assert run(again, measured[at:]) == run(first, measured[at:])
    assert again.to_wire() == first.to_wire()


@given(st.lists(st.tuples(st.integers(1, 9), st.floats(0.1, 10)), min_size=2, max_size=4), WEIGHTS)
def test_environments_have_their_shares_whatever_the_pools(sizes: list[tuple[int, float]], easy: float) -> None:
    n_rows, pools = 0, []
    for nth, (size, weight) in enumerate(sizes):
        pools.append(RowPool(range(n_rows, n_rows + size), weight, f"pool{nth}"))
        n_rows += size
    of = order({row: EASY for row in range(n_rows) if row % 2}, pools, easy_weight=easy)
    taken = take(of, 100)
    for pool in pools:
        share = pool.weight / sum(weight for _, weight in sizes)
        assert abs(sum(each.row in pool.rows for each in taken) - 100 * share) < len(pools)


def test_what_is_left_out_comes_back_once_it_is_measured_otherwise() -> None:
    pools = [RowPool(range(2), 3.0, "a"), RowPool(range(2, 4), 1.0, "b")]
    of = order({0: EASY, 1: EASY, 2: EASY}, pools, easy_weight=0.0)
    assert {each.row for each in take(of, 8)} == {3}, "another environment has the turns of one that has no row"
    assert of.curriculum is not None
    of.curriculum.measure(3, EASY)
    assert (of.take(), of.has_rows, of.at_end) == (None, False, False)
    of.curriculum.measure(0, 0.5)
    assert {each.row for each in take(of, 4)} == {0}


def run_one(ledger: Ledger, *rewards: float | None, outcome: Outcome = "infra") -> int:
    """Start a group and end it; its row."""
    started = ledger.begin()
    assert started is not None
    members: list[Member] = [
        member(nth, reward) if reward is not None else member(nth, None, outcome=outcome)
        for nth, reward in enumerate(rewards)
    ]
    ended = group(*members, group_id=started.id)._replace(row=started.row, epoch=started.epoch)
    if sum(reward is not None for reward in rewards) < 2:
        ledger.drop(ended)
    elif len(set(rewards)) == 1 and ledger.may_skip:
        ledger.skip(ended)
    else:
        ledger.end(ended)
    return started.row


def ledger_of(n_rows: int = 4) -> Ledger:
    grpo = GrpoSettings(
        num_prompts_per_step=32,
        use_dynamic_sampling=True,
        async_grpo=AsyncGrpoSettings(max_trajectory_age_steps=4),
    )
    return Ledger(grpo, order({}, n_rows=n_rows, easy_weight=0.0, hard_weight=0.0))


def test_groups_measure_their_rows_trained_on_or_not_and_failures_do_not() -> None:
    ledger = ledger_of()
    curriculum = ledger.order.curriculum
    assert curriculum is not None
    easy, hard = run_one(ledger, 1.0, 1.0, None), run_one(ledger, 0.0, 0.0)
    assert (ledger.lost["no_advantage"], curriculum.difficulty(easy), curriculum.difficulty(hard)) == (
        1,
        "easy",
        "hard",
    )
    normal = run_one(ledger, 1.0, 0.0, None)
    assert curriculum.difficulty(normal) == "normal"
    failed = run_one(ledger, 0.0, None, None)
    assert curriculum.metrics(4)["curriculum/unmeasured"] == 1.0, "too few members measure nothing"
    assert run_one(ledger, 1.0, 1.0) == failed, "its row is run again at once"
    assert curriculum.difficulty(failed) == "easy"


def test_a_lost_row_is_run_again_whatever_its_pool() -> None:
    ledger = ledger_of(n_rows=2)
    assert ledger.order.curriculum is not None
    first = run_one(ledger, None, None)
    ledger.order.curriculum.measure(first, EASY)
    assert run_one(ledger, None, None) == first
    assert {run_one(ledger, 1.0, 0.0) for _ in range(4)} == {1 - first}


def test_a_run_ends_where_the_curriculum_leaves_nothing_and_no_group_may_bring_a_row_back() -> None:
    ledger = ledger_of(n_rows=1)
    running = ledger.begin()
    assert running is not None and ledger.order.curriculum is not None
    ledger.order.curriculum.measure(0, EASY)
    assert ledger.begin() is None
    assert not ledger.starved, "the group that runs may measure otherwise"
    ledger.end(group(member(0), member(1), group_id=running.id))
    assert ledger.starved


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"easy_threshold": 0.5, "hard_threshold": 0.5, "easy_weight": 0.1}, "hard_threshold .0.5. has to be below"),
        ({"easy_weight": 1e-4}, "take 0.001 or more"),
        ({"pass_rates": "runs/eval"}, "pass_rates change nothing"),
    ],
)
def test_settings_without_meaning_are_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        CurriculumSettings(**wrong)
