"""The order in which a run takes the rows of its dataset.

Law     each epoch has every row once, in an order that seed and epoch alone decide; a position in it is two numbers.
        No row is put back here: the ledger decides what becomes of one whose group was lost.
"""

import random
from typing import NamedTuple


class EpochRow(NamedTuple):
    """One row in one epoch: what a group is started for."""

    epoch: int
    row: int


class RowOrder:
    """The position of a run in its dataset, and the order of its rows."""

    def __init__(self, n_rows: int, *, seed: int, shuffle: bool, max_epochs: int) -> None:
        if n_rows < 1:
            raise ValueError("a dataset has at least one row")
        self.n_rows = n_rows
        self.epoch = 0
        self.position = 0
        """How many rows of this epoch were taken."""
        self._seed = seed
        self._shuffle = shuffle
        self._max_epochs = max_epochs
        self._rows = self._order()

    @property
    def at_end(self) -> bool:
        """Whether all epochs are over."""
        return self.epoch >= self._max_epochs

    def take(self) -> EpochRow | None:
        """Take the next row; None at the end of all epochs."""
        if self.at_end:
            return None
        row = EpochRow(self.epoch, self._rows[self.position])
        self.position += 1
        if self.position >= self.n_rows:
            self.move_to(self.epoch + 1, 0)
        return row

    def move_to(self, epoch: int, position: int) -> None:
        self.epoch, self.position = epoch, position
        self._rows = self._order()

    def _order(self) -> list[int]:
        rows = list(range(self.n_rows))
        if self._shuffle:
            random.Random(f"{self._seed}/{self.epoch}").shuffle(rows)
        return rows
