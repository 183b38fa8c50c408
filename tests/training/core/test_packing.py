"""Claims about packing: every row once, and nothing over its capacity."""

from collections.abc import Iterable
from itertools import chain, pairwise

from hypothesis import given
from hypothesis import strategies as st

from paddock.training.core.packing import packs, padded_packs, shares

LENGTHS = st.lists(st.integers(1, 60), max_size=20)


def every(parts: Iterable[list[int]], n: int) -> bool:
    return sorted(chain.from_iterable(parts)) == list(range(n))


@given(LENGTHS, st.integers(1, 60), st.none() | st.integers(1, 4))
def test_each_row_is_in_one_pack_that_holds_it(lengths: list[int], capacity: int, max_rows: int | None) -> None:
    found = packs(lengths, capacity, max_rows)
    assert every(found, len(lengths))
    for pack in found:
        assert sum(lengths[nth] for nth in pack) <= capacity or len(pack) == 1
        assert max_rows is None or len(pack) <= max_rows


@given(LENGTHS, st.integers(60, 90))
def test_no_two_packs_would_fit_in_one(lengths: list[int], capacity: int) -> None:
    loads = sorted(sum(lengths[nth] for nth in pack) for pack in packs(lengths, capacity))
    assert len(loads) < 2 or loads[0] + loads[1] > capacity


def test_packs_by_hand() -> None:
    assert packs([3, 7, 5, 5], 10) == [[1, 0], [2, 3]]
    assert packs([3, 7, 5, 5], 10, max_rows=1) == [[1], [2], [3], [0]]
    assert packs([], 10) == []


@given(LENGTHS, st.integers(1, 5))
def test_shares_differ_by_one_row_at_most(lengths: list[int], parts: int) -> None:
    found = shares(lengths, parts)
    assert len(found) == parts
    assert every(found, len(lengths))
    loads = [sum(lengths[nth] for nth in part) for part in found]
    assert max(loads) - min(loads) <= max(lengths, default=0)


@given(st.lists(st.integers(1, 60), max_size=40), st.integers(1, 120))
def test_padded_packs_fit_with_their_padding(lengths: list[int], capacity: int) -> None:
    found = padded_packs(lengths, capacity)
    assert sorted(nth for pack in found for nth in pack) == list(range(len(lengths)))
    for pack in found:
        assert len(pack) == 1 or len(pack) * max(lengths[nth] for nth in pack) <= capacity
    for pack, following in pairwise(found):
        assert (len(pack) + 1) * lengths[pack[0]] > capacity, "one more would not have fitted"
        assert min(lengths[nth] for nth in pack) >= max(lengths[nth] for nth in following)
