"""Claims about comparing two ways of working where rows of one repository are alike."""

import random
from collections import defaultdict
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.collect.clusters import (
    clustered_interval95,
    clustered_variance,
    rows_needed,
    sign_flip_p,
    t_quantile,
)
from paddock.collect.comparison import Arm, ArmComparison, compare
from paddock.collect.statistics import RowScore

PAIRED = st.lists(st.tuples(st.integers(0, 8).map(str), st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=30)
Drawn = list[tuple[str, int, int]]


def clustered(rows: Drawn, order: list[int] | None = None) -> ArmComparison:
    """The comparison of rows of three rollouts each, as (repository, passed under the first, under the second)."""
    names = [str(row) for row in order or range(len(rows))]
    repositories = {name: rows[int(name)][0] for name in names}
    sides = (
        {name: RowScore(3, rows[int(name)][1], rows[int(name)][1]) for name in names},
        {name: RowScore(3, rows[int(name)][2], rows[int(name)][2]) for name in names},
    )
    found = compare(*(Arm(arm, "swe", scores, repositories) for arm, scores in zip("ab", sides, strict=True)))
    assert found is not None
    return found


def by_repository(*clusters: list[float]) -> dict[tuple[str, str], list[float]]:
    return {("repository", str(number)): values for number, values in enumerate(clusters)}


def test_an_example_by_hand() -> None:
    # Mean 0.25; sums of deviations 1.5, -0.5, -1: variance 3/2 * 3.5 / 6 of n = 6, t(2) = 4.302653.
    clusters = by_repository([1.0, 1.0], [0.0, 0.0], [0.0, -0.5])
    assert clustered_variance(clusters) == pytest.approx(3 / 2 * 3.5 / 6)
    error = (3 / 2 * 3.5) ** 0.5 / 6
    found = clustered_interval95(clusters)
    assert found is not None
    assert found == pytest.approx((max(-1, 0.25 - 4.302653 * error), min(1, 0.25 + 4.302653 * error)))


# statsmodels 0.15.0, `bse` and `conf_int` of OLS(values, ones).fit(cov_type="cluster", cov_kwds=groups, use_t=True).
@pytest.mark.parametrize(
    ("clusters", "error", "interval"),
    [
        (
            [[1, 0, 1, 1], [0, -1], [0.5], [0, 0, 0, 1, -1], [1, 1]],
            0.25372716237712256,
            (-0.38303096660911623, 1.0),
        ),
        (
            [[1, 1, 1, 1, 1, 0, 0, 1, 1, 1], [0], [-1], [0], [0.25], [0.5]],
            0.24147693701699777,
            (-0.1040695613543221, 1.0),
        ),
        ([[0.5, 0, 1], [0, 0, -0.5]], 0.33333333333333354, (-1.0, 1.0)),
    ],
)
def test_the_error_and_interval_are_those_of_statsmodels(
    clusters: list[list[float]], error: float, interval: tuple[float, float]
) -> None:
    named = by_repository(*clusters)
    variance = clustered_variance(named)
    assert variance is not None
    assert (variance / sum(map(len, clusters))) ** 0.5 == pytest.approx(error, rel=1e-12)
    assert clustered_interval95(named) == pytest.approx(interval, abs=1e-12)


# scipy 1.17.1: `scipy.stats.t.ppf(0.975, degrees)`.
@pytest.mark.parametrize(
    ("degrees", "quantile"),
    [(1, 12.706205), (2, 4.302653), (3, 3.182446), (4, 2.776445), (11, 2.200985), (30, 2.042272), (199, 1.971957)],
)
def test_the_quantiles_of_t(degrees: int, quantile: float) -> None:
    assert t_quantile(degrees) == pytest.approx(quantile, abs=1e-6)


def test_flips_of_six_repositories_that_agree_are_two_of_64_and_five_are_too_few() -> None:
    assert sign_flip_p(by_repository(*[[1.0, 0.5]] * 6)) == 2 / 64
    assert sign_flip_p(by_repository(*[[1.0, 0.5]] * 5)) is None


def test_drawn_flips_agree_with_all_of_them() -> None:
    # 13 of 20 equal sums on one side: the exact sign test.
    exact = 2 * sum(comb(20, k) for k in range(8)) / 2**20
    assert sign_flip_p(by_repository(*[[0.5, 0.5]] * 13, *[[-0.5, -0.5]] * 7)) == pytest.approx(exact, abs=0.02)


def test_rows_needed_at_a_fifth_of_rows_that_change_sides() -> None:
    # (1.959964 + 0.841621)^2 * (0.2 - d^2) / d^2 for d = 0.03 and 0.05, rounded up.
    assert rows_needed(0.2 - 0.03**2, 0.03) == 1737
    assert rows_needed(0.2 - 0.05**2, 0.05) == 621
    assert rows_needed(0.2, 0.0) is None


@given(PAIRED)
@settings(deadline=None, max_examples=50)
def test_swapping_the_arms_mirrors_everything(rows: Drawn) -> None:
    there, back = clustered(rows), clustered([(name, second, first) for name, first, second in rows])
    assert back.difference == pytest.approx(-there.difference)
    assert (back.p_value, back.rows_needed) == (there.p_value, there.rows_needed)
    assert (there.ci95 is None) == (back.ci95 is None)
    if there.ci95 is not None and back.ci95 is not None:
        assert back.ci95 == pytest.approx((-there.ci95.high, -there.ci95.low))


@given(PAIRED, st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=50)
def test_the_order_of_rows_changes_nothing(rows: Drawn, draw: random.Random) -> None:
    order = list(range(len(rows)))
    draw.shuffle(order)
    there, here = clustered(rows), clustered(rows, order)
    assert (here.p_value, here.n_repositories) == (there.p_value, there.n_repositories)
    assert here.difference == pytest.approx(there.difference)
    assert (here.ci95 is None) == (there.ci95 is None)
    if here.ci95 is not None and there.ci95 is not None:
        assert here.ci95 == pytest.approx(there.ci95)


def test_a_row_for_each_repository_is_the_comparison_of_independent_rows() -> None:
    rows = [(str(row), row % 4, row % 3) for row in range(20)]
    apart = clustered(rows)
    unknown = clustered([("", first, second) for _, first, second in rows])
    assert apart == unknown


@pytest.mark.slow
def test_false_alarms_stay_near_their_nominal_share_where_those_of_single_rows_do_not() -> None:
    """12 repositories of unlike size, each with an effect of its own that is 0 on average."""
    draw, rounds = random.Random(7), 400
    alarms: defaultdict[str, int] = defaultdict(int)
    for _ in range(rounds):
        clusters = []
        for size in (4, 4, 5, 6, 8, 10, 12, 16, 20, 25, 30, 40):
            effect = draw.gauss(0, 0.3)
            clusters.append([draw.gauss(effect, 1.0) for _ in range(size)])
        values = [value for cluster in clusters for value in cluster]
        by_row = clustered_variance({("row", str(row)): [value] for row, value in enumerate(values)})
        p = sign_flip_p(by_repository(*clusters))
        assert by_row is not None
        assert p is not None
        alarms["repositories"] += p <= 0.05
        alarms["rows"] += abs(sum(values)) / len(values) > 1.96 * (by_row / len(values)) ** 0.5
    assert alarms["repositories"] <= 0.08 * rounds
    assert alarms["rows"] >= 0.15 * rounds
