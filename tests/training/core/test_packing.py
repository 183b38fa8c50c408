"""Claims about packing: every row once, nothing over its capacity, and rows laid out one after the other."""

from collections.abc import Iterable
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.training.core.packing import pack_rows, packs, shares
from paddock.training.core.testing import batch, group, member, sample

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


def test_rows_lie_one_after_the_other() -> None:
    two = sample([("a", 1, 2, "0"), ("b", 3, 4, "1")], length=4)
    rows = batch(group(member(0, 1.0, samples=[two]), member(1, 0.0, samples=[sample(length=5)]))).rows
    found = pack_rows(rows)
    assert found.ids == [0, 1, 2, 3, 0, 1, 2, 3, 4]
    assert found.positions == found.ids
    assert found.lengths == [4, 5]
    assert found.trained == [1, 3, 6, 7]
    assert found.rows == [0, 0, 1, 1]
    assert found.engine_log_probs == [-0.25] * 4
    assert found.advantages == [1.0, 1.0, -1.0, -1.0]
    assert pack_rows([]).ids == []


def test_a_first_token_cannot_be_trained_on() -> None:
    (row, _) = batch(group(member(0), member(1, 0.0))).rows
    with pytest.raises(ValueError, match="first token"):
        pack_rows([row._replace(loss_mask=[1, 0, 1, 1, 0, 0])])
