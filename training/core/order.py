"""The order in which a run takes the rows of its dataset, from one pool or from several by their weights.

Law     a pool's rows come round after round, each once a round, in an order that seed, pool and round alone decide.
        After any number of rows, each pool has given its share by weight to within one row for each other pool. A
        position is two numbers. No row is put back here: the ledger decides what becomes of one whose group was lost.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple


class RowPool(NamedTuple):
    """Rows of a dataset that are drawn from together, such as those of one agent."""

    rows: Sequence[int]
    """Indices in the dataset, at least one."""
    weight: float = 1.0
    """Its part of the rows that are taken is its weight over the sum of all; more than 0."""
    name: str = ""
    """Tells its orders from those of other pools."""


def all_rows(n_rows: int) -> tuple[RowPool]:
    """One pool of all rows of a dataset of so many."""
    return (RowPool(range(n_rows)),)


class EpochRow(NamedTuple):
    """One row in one epoch: what a group is started for."""

    epoch: int
    """Which round of its pool this is, from 0."""
    row: int


class RowOrder:
    """The position of a run in its dataset, and the order of its rows."""

    def __init__(self, pools: Sequence[RowPool], *, seed: int, shuffle: bool, max_epochs: int) -> None:
        """An epoch is over when as many rows were taken as there are. ValueError for a pool without rows or weight."""
        if not pools or any(not pool.rows or pool.weight <= 0 for pool in pools):
            raise ValueError("each pool has at least one row and a weight of more than 0, and there is at least one")
        self.n_rows = sum(len(pool.rows) for pool in pools)
        self.epoch = 0
        self.position = 0
        """How many rows of this epoch were taken."""
        total = sum(pool.weight for pool in pools)
        self._shares = [pool.weight / total for pool in pools]
        self._pools = pools
        self._seed = seed
        self._shuffle = shuffle
        self._max_epochs = max_epochs
        self._taken = [0] * len(pools)
        self._rounds = [self._round(pool, 0) for pool in pools]

    @property
    def at_end(self) -> bool:
        """Whether all epochs are over."""
        return self.epoch >= self._max_epochs

    def take(self) -> EpochRow | None:
        """Take the next row; None at the end of all epochs."""
        if self.at_end:
            return None
        nth = self._next_pool()
        round_, place = divmod(self._taken[nth], len(self._pools[nth].rows))
        if place == 0:
            self._rounds[nth] = self._round(self._pools[nth], round_)
        row = EpochRow(round_, self._rounds[nth][place])
        self._taken[nth] += 1
        self._advance()
        return row

    def move_to(self, epoch: int, position: int) -> None:
        self.epoch = self.position = 0
        self._taken = [0] * len(self._pools)
        for _ in range(epoch * self.n_rows + position):
            self._taken[self._next_pool()] += 1
            self._advance()
        for nth, pool in enumerate(self._pools):
            self._rounds[nth] = self._round(pool, self._taken[nth] // len(pool.rows))

    def _advance(self) -> None:
        self.position += 1
        if self.position == self.n_rows:
            self.epoch, self.position = self.epoch + 1, 0

    def _next_pool(self) -> int:
        """The pool that is furthest behind its share, the first of those that are so equally."""
        n = self.epoch * self.n_rows + self.position + 1
        behind = [share * n - taken for share, taken in zip(self._shares, self._taken, strict=True)]
        return behind.index(max(behind))

    def _round(self, pool: RowPool, nth: int) -> list[int]:
        rows = list(pool.rows)
        if self._shuffle:
            random.Random("/".join([str(self._seed), *filter(None, [pool.name]), str(nth)])).shuffle(rows)
        return rows
