"""Claims about the order of rows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.training.core.order import EpochRow, RowOrder, RowPool, all_rows


def order(n_rows: int = 5, seed: int = 1, epochs: int = 3, *, shuffle: bool = True) -> RowOrder:
    return RowOrder(all_rows(n_rows), seed=seed, shuffle=shuffle, max_epochs=epochs)


def rest(of: RowOrder) -> list[EpochRow]:
    taken = []
    while (each := of.take()) is not None:
        taken.append(each)
    return taken


@given(st.integers(1, 20), st.integers(0, 9), st.integers(1, 3), st.booleans())
def test_each_epoch_has_each_row_once(n_rows: int, seed: int, epochs: int, shuffle: bool) -> None:
    taken = rest(order(n_rows, seed, epochs, shuffle=shuffle))
    assert sorted(taken) == [EpochRow(epoch, row) for epoch in range(epochs) for row in range(n_rows)]
    assert [each.epoch for each in taken] == sorted(each.epoch for each in taken)
    assert shuffle or taken == sorted(taken)


@given(st.integers(1, 20), st.data())
def test_a_position_is_enough_to_go_on(n_rows: int, data: st.DataObject) -> None:
    first, again = order(n_rows), order(n_rows)
    for _ in range(data.draw(st.integers(0, 3 * n_rows))):
        first.take()
    again.move_to(first.epoch, first.position)
    assert again.at_end == first.at_end
    assert rest(again) == rest(first)


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = [[each.row for each in rest(order(50, seed, 2))] for seed in (1, 2)]
    halves = [half for rows in orders for half in (rows[:50], rows[50:])]
    assert len({tuple(half) for half in halves}) == 4
    assert rest(order(50, 1)) == rest(order(50, 1))


def test_the_end_stays_the_end() -> None:
    done = order(1, epochs=1)
    assert not done.at_end
    assert done.take() == EpochRow(0, 0)
    assert done.at_end
    assert done.take() is None


WEIGHTS = st.lists(st.tuples(st.integers(1, 9), st.floats(0.01, 100)), min_size=1, max_size=5)


def pools(sizes: list[tuple[int, float]]) -> list[RowPool]:
    starts = [sum(size for size, _ in sizes[:nth]) for nth in range(len(sizes))]
    pairs = enumerate(zip(starts, sizes, strict=True))
    return [RowPool(range(start, start + size), weight, f"pool{nth}") for nth, (start, (size, weight)) in pairs]


@given(WEIGHTS, st.integers(1, 200))
def test_pools_give_their_share_at_any_time(sizes: list[tuple[int, float]], n_taken: int) -> None:
    mixed, total = pools(sizes), sum(weight for _, weight in sizes)
    order = RowOrder(mixed, seed=3, shuffle=True, max_epochs=1000)
    taken = [each for each in (order.take() for _ in range(n_taken)) if each is not None]
    assert len(taken) == n_taken
    for pool in mixed:
        own = [each for each in taken if each.row in pool.rows]
        assert abs(len(own) - n_taken * pool.weight / total) < len(mixed)
        rounds = [[each.row for each in own if each.epoch == epoch] for epoch in range(len(own) // len(pool.rows))]
        assert all(sorted(round_) == list(pool.rows) for round_ in rounds)
        assert [each.epoch for each in own] == sorted(each.epoch for each in own)


@given(WEIGHTS, st.integers(0, 60), st.booleans())
def test_a_position_is_enough_to_go_on_with_pools(sizes: list[tuple[int, float]], n_taken: int, shuffle: bool) -> None:
    first, again = (RowOrder(pools(sizes), seed=3, shuffle=shuffle, max_epochs=20) for _ in range(2))
    for _ in range(n_taken):
        first.take()
    again.move_to(first.epoch, first.position)
    assert rest(again) == rest(first)


@pytest.mark.parametrize("wrong", [[], [RowPool([], 1.0)], [RowPool([1], 0.0)]], ids=["none", "no rows", "no weight"])
def test_a_pool_has_rows_and_a_weight(wrong: list[RowPool]) -> None:
    with pytest.raises(ValueError, match="at least one row"):
        RowOrder(wrong, seed=0, shuffle=True, max_epochs=1)
