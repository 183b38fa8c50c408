"""Claims about the order of rows."""

from hypothesis import given
from hypothesis import strategies as st

from paddock.training.core.order import EpochRow, RowOrder


def order(n_rows: int = 5, seed: int = 1, epochs: int = 3, *, shuffle: bool = True) -> RowOrder:
    return RowOrder(n_rows, seed=seed, shuffle=shuffle, max_epochs=epochs)


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
