"""What is said of judges follows from the comparisons by the stated definitions."""

import random
from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.resources_servers.genrm.quality import Quality, pooled, preference, quality_of
from paddock.resources_servers.genrm.records import PairComparison


def of(first: int, second: int, better: int | None, *, judge: int = 0, missing: tuple[str, ...] = ()) -> PairComparison:
    """`better`: the member with the higher score; None: no preference."""
    score_1, score_2 = (3, 3) if better is None else (4, 2) if better == first else (2, 4)
    return PairComparison(
        response_i=first,
        response_j=second,
        judge_idx=judge,
        score_1=score_1,
        score_2=score_2,
        ranking=3.5,
        missing=missing,
    )


@pytest.mark.parametrize(
    ("score_1", "score_2", "ranking", "expected"),
    [(4, 3, 6, 1), (3, 4, 1, -1), (3, 3, 3, 1), (3, 3, 4, -1), (3, 3, 3.5, 0)],
)
def test_the_preference_of_a_comparison(score_1: float, score_2: float, ranking: float, expected: int) -> None:
    one = PairComparison(response_i=0, response_j=1, score_1=score_1, score_2=score_2, ranking=ranking)
    assert preference(one) == expected


def test_position_swap_is_by_judge() -> None:
    found = quality_of(
        [
            *(of(0, 1, 0), of(1, 0, 0)),
            *(of(1, 2, 1), of(2, 1, 2)),
            *(of(2, 3, None), of(3, 2, None)),
            *(of(3, 4, 3), of(4, 3, None)),
            *(of(0, 4, 0), of(4, 0, 4, judge=1)),
        ]
    )
    assert (found.swapped, found.swap_agreeing) == (4, 2)
    assert found.swap_consistency == 0.5
    assert quality_of([of(0, 1, 0)]).swap_consistency is None


def test_position_and_abstention() -> None:
    found = quality_of([of(0, 1, 0), of(1, 2, 1), of(2, 3, 3), of(3, 0, None, missing=("ranking",))])
    assert found.first_preference_rate == 2 / 3
    assert found.abstention_rate == 1 / 4
    assert found.incomplete_rate == 1 / 4
    assert quality_of([of(0, 1, None)]).first_preference_rate is None


def test_cycles_of_three() -> None:
    cycle = [of(0, 1, 0), of(1, 2, 1), of(2, 0, 2)]
    assert quality_of(cycle).cycle_rate == 1.0
    assert quality_of([*cycle[:2], of(2, 0, 0)]).cycle_rate == 0.0
    assert quality_of([*cycle[:2], of(2, 0, None)]).cycle_rate is None
    # A fourth, better than all of them: its three triangles are no cycles.
    assert quality_of([*cycle, *(of(member, 3, 3) for member in range(3))]).cycle_rate == 1 / 4
    # Two against one for 0 over 2: the pair's preference.
    assert quality_of([*cycle, of(2, 0, 0, judge=1), of(0, 2, 0, judge=2)]).cycle_rate == 0.0
    assert quality_of(cycle).rings == 0


def test_a_ring_that_goes_round_is_a_cycle() -> None:
    ring = [of(member, (member + 1) % 5, member) for member in range(5)]
    assert quality_of(ring).ring_cycle_rate == 1.0
    assert quality_of([of(one.response_i, one.response_j, one.response_j) for one in ring]).ring_cycle_rate == 1.0
    assert quality_of([*ring[:4], of(4, 0, 0)]).ring_cycle_rate == 0.0
    assert quality_of([*ring[:4], of(4, 0, None)]).ring_cycle_rate == 0.0
    assert quality_of([of(one.response_i, one.response_j, None) for one in ring]).ring_cycle_rate == 0.0
    assert quality_of(ring[:4]).ring_cycle_rate is None
    assert quality_of(ring).cycle_rate is None


def test_judges_of_one_pair_in_one_order() -> None:
    found = quality_of(
        [
            of(0, 1, 0),
            of(0, 1, 0, judge=1),
            of(0, 1, 1, judge=2),
            of(1, 0, 1, judge=1),
            of(1, 2, 2),
            of(1, 2, 2, judge=1),
        ]
    )
    assert (found.judge_pairs, found.judges_agreeing) == (4, 2)
    assert found.judge_agreement == 0.5


def test_nothing_has_no_shares() -> None:
    assert quality_of([]) == Quality()
    assert pooled([]) == {"judge_comparisons": 0.0}


def test_a_run_weighs_by_what_was_counted() -> None:
    all_pairs = quality_of([of(*pair, better=min(pair)) for pair in permutations(range(4), 2)])
    swapped = quality_of([of(0, 1, 0), of(1, 0, 1)])
    assert pooled([all_pairs, swapped]) == {
        "judge_comparisons": 14.0,
        "judge_swap_consistency": 6 / 7,
        "judge_first_preference_rate": (6 + 2) / 14,
        "judge_cycle_rate": 0.0,
        "judge_ring_cycle_rate": 0.0,
        "judge_abstention_rate": 0.0,
        "judge_incomplete_rate": 0.0,
    }


@given(st.randoms(use_true_random=False), st.permutations(range(5)))
def test_neither_order_nor_numbers_of_triangles_matter(chance: random.Random, numbers: list[int]) -> None:
    told = [of(*pair, better=chance.choice([*pair, None])) for pair in combinations(range(5), 2)]
    found = quality_of(told)
    assert quality_of(chance.sample(told, len(told))) == found
    renumbered = [
        one.model_copy(update={"response_i": numbers[one.response_i], "response_j": numbers[one.response_j]})
        for one in told
    ]
    other = quality_of(renumbered)
    assert (other.triangles, other.cycles, other.preferring) == (found.triangles, found.cycles, found.preferring)
