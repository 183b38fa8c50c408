"""Bradley-Terry strengths: the likeliest ones, always finite, whatever the numbering and the order."""

import math
import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.resources_servers.genrm.records import PairComparison
from paddock.resources_servers.genrm.scoring.bradley_terry import (
    PRIOR_PRECISION,
    fit_strengths,
    scores,
    share_of_first,
    sigmoid,
)

SIZE = 7
PAIRS = st.tuples(st.integers(0, SIZE - 1), st.integers(0, SIZE - 1)).filter(lambda pair: pair[0] != pair[1])
GAMES = st.lists(st.tuples(PAIRS, st.sampled_from([1, 2, 3, 3.5, 4, 5, 6])), max_size=40)


def of(first: int, second: int, ranking: float, **changed: object) -> PairComparison:
    fields = {"response_i": first, "response_j": second, "score_1": 3, "score_2": 3, "ranking": ranking}
    return PairComparison.model_validate(fields | changed)


@pytest.mark.parametrize(("ranking", "share"), [(1, 1), (2, 0.8), (3.5, 0.5), (5, 0.2), (6, 0)])
def test_a_ranking_is_a_share_of_a_win(ranking: float, share: float) -> None:
    assert share_of_first(of(0, 1, ranking, score_1=1, score_2=5)) == pytest.approx(share)


def test_scores_stand_in_for_a_missing_ranking() -> None:
    assert share_of_first(of(0, 1, 3.5, score_1=5, score_2=1, missing=("ranking",))) == 1.0
    assert share_of_first(of(0, 1, 3.5, score_1=2, score_2=4, missing=("ranking",))) == 0.5 - 2 / 8
    assert share_of_first(of(0, 1, 3.5, missing=("ranking", "score_2"))) == 0.5


def test_two_members_are_where_the_slope_is_zero() -> None:
    # s and -s: PRIOR_PRECISION s = share - sigmoid(2 s), by bisection.
    low, high = 0.0, 10.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if 0.8 - sigmoid(2 * middle) > PRIOR_PRECISION * middle else (low, middle)
    assert fit_strengths([0, 1], [of(0, 1, 2)]).strengths == pytest.approx([low, -low], abs=1e-9)
    assert scores([0, 1], [of(0, 1, 2)]) == pytest.approx({0: 1 + 4 * sigmoid(low), 1: 1 + 4 * sigmoid(-low)})


@given(GAMES)
def test_finite_likeliest_and_of_mean_zero(games: list[tuple[tuple[int, int], float]]) -> None:
    fit = fit_strengths(range(SIZE), [of(*pair, ranking) for pair, ranking in games])
    assert math.fsum(fit.strengths) == pytest.approx(0, abs=1e-9)
    slope = [PRIOR_PRECISION * s for s in fit.strengths]
    for (first, second), ranking in games:
        excess = sigmoid(fit.strengths[first] - fit.strengths[second]) - (6 - ranking) / 5
        slope[first] += excess
        slope[second] -= excess
    assert slope == pytest.approx([0] * SIZE, abs=1e-8)
    covariance = fit.covariance()
    for a, b in combinations(range(SIZE), 2):
        assert covariance[a][b] == pytest.approx(covariance[b][a])
        assert 0 < covariance[a][a] + covariance[b][b] - 2 * covariance[a][b] <= 2 / PRIOR_PRECISION + 1e-9


@pytest.mark.slow
@given(GAMES, st.permutations(range(SIZE)), st.randoms(use_true_random=False))
def test_the_same_under_other_numbers_and_orders(
    games: list[tuple[tuple[int, int], float]], numbers: list[int], chance: random.Random
) -> None:
    told = [of(*pair, ranking) for pair, ranking in games]
    found = scores(range(SIZE), told)
    assert scores(range(SIZE), chance.sample(told, len(told))) == found
    renumbered = [of(numbers[first], numbers[second], ranking) for (first, second), ranking in games]
    other = scores(range(SIZE), renumbered)
    assert [other[numbers[member]] for member in range(SIZE)] == pytest.approx(
        [found[m] for m in range(SIZE)], abs=1e-9
    )
    turned = [of(second, first, 7 - ranking) for (first, second), ranking in games]
    assert scores(range(SIZE), turned) == pytest.approx(found, abs=1e-9)


def test_winners_of_everything_stay_within_the_scale_in_order() -> None:
    comparisons = [of(i, j, 1) for i, j in combinations(range(16), 2) for _ in range(20)]
    found = scores(range(16), comparisons)
    ordered = [found[member] for member in range(16)]
    assert ordered == sorted(ordered, reverse=True)
    assert 1 < ordered[-1] < ordered[0] < 5
    assert len(set(ordered)) == 16


def test_who_was_not_compared_is_average() -> None:
    assert scores([0, 1, 2], [of(0, 1, 1)])[2] == pytest.approx(3.0)
    assert scores([0], [of(0, 1, 1)])[0] > 3.0
