"""Claims about comparing two ways of working on the same rows."""

import random
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.collect.comparison import Arm, ArmComparison, compare, compare_all, sign_test
from paddock.collect.statistics import RowScore


def score(*rewards: float) -> RowScore:
    found = RowScore()
    for reward in rewards:
        found = found.plus(reward)
    return found


def arm(name: str, rows: dict[str, list[float]], environment: str | None = "swe") -> Arm:
    return Arm(name, environment, {row: score(*rewards) for row, rewards in rows.items()})


def table(both: int, first: int, second: int, neither: int) -> ArmComparison:
    """The comparison of rows with one rollout each, counted by who passed them."""
    pairs = [(1.0, 1.0)] * both + [(1.0, 0.0)] * first + [(0.0, 1.0)] * second + [(0.0, 0.0)] * neither
    ours = {str(row): [pair[0]] for row, pair in enumerate(pairs)}
    theirs = {str(row): [pair[1]] for row, pair in enumerate(pairs)}
    found = compare(arm("a", ours), arm("b", theirs))
    assert found is not None
    return found


REWARDS = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=4)
PAIRED = st.dictionaries(st.integers(0, 30).map(str), st.tuples(REWARDS, REWARDS), min_size=2, max_size=25)


def both_arms(drawn: dict[str, tuple[list[float], list[float]]]) -> tuple[Arm, Arm]:
    return arm("a", {row: pair[0] for row, pair in drawn.items()}), arm("b", {k: v[1] for k, v in drawn.items()})


@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [((36, 12, 2, 0), 0.0569, 0.3404), ((20, 12, 2, 16), 0.0562, 0.3292), ((50, 0, 0, 0), -0.0713, 0.0713)],
)
def test_the_interval_of_single_rollouts_is_newcombes_method_10(
    counts: tuple[int, int, int, int], low: float, high: float
) -> None:
    found = table(*counts)
    assert found.ci95 is not None
    assert found.ci95 == pytest.approx((low, high), abs=5e-5)


def test_mcnemars_test_counts_only_the_rows_that_differ() -> None:
    # Of 14 rows that differ 12 are on one side: 2 * (C(14,0) + C(14,1) + C(14,2)) / 2^14.
    assert table(36, 12, 2, 0).p_value == pytest.approx(2 * (1 + 14 + 91) / 2**14)
    assert table(36, 12, 2, 0).p_value == pytest.approx(table(0, 12, 2, 900).p_value)
    assert table(5, 0, 0, 5).p_value == 1.0


@given(st.integers(0, 60), st.integers(0, 60))
@settings(deadline=None)
def test_the_sign_test_is_the_exact_binomial_one(better: int, worse: int) -> None:
    n = better + worse
    exact = min(1.0, 2 * sum(comb(n, k) for k in range(min(better, worse) + 1)) / 2**n)
    assert sign_test(better, worse) == pytest.approx(exact)
    assert sign_test(better, worse) == sign_test(worse, better)


def test_the_sign_test_is_right_for_many_rows() -> None:
    assert sign_test(20_500, 19_500) == pytest.approx(5.9e-7, rel=0.05)


@given(PAIRED)
@settings(deadline=None)
def test_the_interval_holds_the_difference_and_swapping_the_arms_mirrors_it(
    drawn: dict[str, tuple[list[float], list[float]]],
) -> None:
    first, second = both_arms(drawn)
    there, back = compare(first, second), compare(second, first)
    assert there is not None
    assert back is not None
    assert there.ci95 is not None
    assert back.ci95 is not None
    assert -1 <= there.ci95.low <= there.difference + 1e-9
    assert there.difference - 1e-9 <= there.ci95.high <= 1
    assert back.difference == pytest.approx(-there.difference)
    assert back.ci95 == pytest.approx((-there.ci95.high, -there.ci95.low))
    assert (back.n_first_better, back.p_value) == (there.n_second_better, there.p_value)


@given(PAIRED)
@settings(deadline=None)
def test_an_arm_against_itself_differs_in_nothing(drawn: dict[str, tuple[list[float], list[float]]]) -> None:
    first, _ = both_arms(drawn)
    found = compare(first, first._replace(name="again"))
    assert found is not None
    assert (found.difference, found.p_value, found.n_first_better) == (0.0, 1.0, 0)
    assert found.ci95 is not None
    assert found.ci95.low < 0 < found.ci95.high


@given(PAIRED, st.dictionaries(st.integers(100, 130).map(str), REWARDS, max_size=10))
@settings(deadline=None)
def test_rows_under_one_arm_only_change_nothing(
    drawn: dict[str, tuple[list[float], list[float]]], more: dict[str, list[float]]
) -> None:
    first, second = both_arms(drawn)
    wider = first._replace(rows={**first.rows, **arm("", more).rows, "empty": RowScore()})
    assert compare(wider, second) == compare(first, second)


def test_rows_that_move_together_narrow_the_interval() -> None:
    together, apart = table(25, 5, 0, 20), table(10, 20, 15, 5)
    assert together.difference == apart.difference == pytest.approx(0.1)
    assert together.ci95 is not None
    assert apart.ci95 is not None
    assert together.ci95.high - together.ci95.low < 0.6 * (apart.ci95.high - apart.ci95.low)


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    """Rows of unlike difficulty, two members each, a true difference of 0.1 on average."""
    draw, covered, rounds = random.Random(5), 0, 400
    for _ in range(rounds):
        rows: dict[str, tuple[list[float], list[float]]] = {}
        for row in range(60):
            hard = draw.uniform(0.1, 0.9)
            sides = [[float(draw.random() < hard + shift) for _ in range(2)] for shift in (0.05, -0.05)]
            rows[str(row)] = (sides[0], sides[1])
        found = compare(*both_arms(rows))
        assert found is not None
        assert found.ci95 is not None
        covered += found.ci95.low <= 0.1 <= found.ci95.high
    assert 0.925 <= covered / rounds <= 0.99


def test_one_common_row_has_no_interval_and_none_no_comparison() -> None:
    one = compare(arm("a", {"x": [1.0]}), arm("b", {"x": [0.0], "y": [1.0]}))
    assert one is not None
    assert (one.n_rows, one.ci95, one.difference) == (1, None, 1.0)
    assert compare(arm("a", {"x": [1.0]}), arm("b", {"y": [1.0]})) is None


def test_every_pair_of_one_environment_is_compared_once() -> None:
    arms = [arm(name, {"x": [1.0]}) for name in "abc"] + [arm("other", {"x": [1.0]}, "pivot")]
    assert [(one.first, one.second) for one in compare_all(arms)] == [("a", "b"), ("a", "c"), ("b", "c")]
