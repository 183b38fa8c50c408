"""Pairings are the best there are."""

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.resources_servers.pivot.assignment import best_assignment, maximum_matching


def test_an_earlier_pairing_is_undone_where_that_frees_a_place() -> None:
    assert maximum_matching([[0, 1], [0]]) == {0: 1, 1: 0}
    assert maximum_matching([[0, 1], [0, 2], [0], [1]]) == {0: 2, 1: 3, 2: 1}


def test_calls_without_a_candidate_stay_alone() -> None:
    assert maximum_matching([[], [0], [0]]) == {0: 1}
    assert maximum_matching([]) == {}


def test_a_chain_of_thousands_of_calls_is_paired() -> None:
    count = 3_000
    candidates = [[index, index + 1] for index in range(count - 1)] + [[0, 1]]
    assert len(maximum_matching(candidates)) == count


@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 4).flatmap(
        lambda columns: st.lists(
            st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0]), min_size=columns, max_size=columns),
            min_size=1,
            max_size=4,
        )
    )
)
def test_no_other_assignment_has_a_greater_sum(scores: list[list[float]]) -> None:
    rows, columns = len(scores), len(scores[0])
    partners = best_assignment(scores)
    used = [partner for partner in partners if partner is not None]
    assert len(used) == len(set(used)) == min(rows, columns)
    total = sum(scores[row][partner] for row, partner in enumerate(partners) if partner is not None)
    slots = [*range(columns), *[None] * rows]
    best = max(
        sum(scores[row][slot] for row, slot in enumerate(choice) if slot is not None)
        for choice in permutations(slots, rows)
    )
    assert abs(total - best) < 1e-9


def test_an_empty_table_pairs_nothing() -> None:
    assert best_assignment([]) == []
    assert best_assignment([[], []]) == [None, None]
