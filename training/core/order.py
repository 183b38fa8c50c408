"""The order in which a run takes the rows of its dataset, from one pool or from several by their weights.

Law     a pool's rows come round after round, each once a round, in an order that seed, pool and round alone decide;
        those that a curriculum passes over come in a later round. After any number of rows, each pool has given its
        share by weight to within one row for each other pool, as long as each has a row to give. A position is two
        numbers; with a curriculum, what `to_wire` has. No row is put back here: the ledger decides what becomes of one
        whose group was lost.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

from paddock.training.core.curriculum import Curriculum
from paddock.types import JsonObject


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

    def __init__(
        self,
        pools: Sequence[RowPool],
        *,
        seed: int,
        shuffle: bool,
        max_epochs: int,
        curriculum: Curriculum | None = None,
    ) -> None:
        """An epoch is over when as many rows were taken as there are. `curriculum` None: each row comes in each round
        of its pool. ValueError for a pool without rows or weight."""
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
        self.curriculum = curriculum
        self._taken = [0] * len(pools)
        self._passed = [0] * len(pools)
        """How many rows of each pool the curriculum passed over."""
        self._rounds = [self._round(pool, 0) for pool in pools]

    @property
    def at_end(self) -> bool:
        """Whether all epochs are over."""
        return self.epoch >= self._max_epochs

    @property
    def has_rows(self) -> bool:
        """Whether the curriculum leaves a row that may come."""
        return any(self._may_give(pool) for pool in self._pools)

    def take(self) -> EpochRow | None:
        """Take the next row; None at the end of all epochs, and while the curriculum leaves none."""
        if self.at_end or not self.has_rows:
            return None
        nth = self._next_pool()
        row = self._look(nth)
        while self.curriculum is not None and not self.curriculum.comes(row.row):
            self._passed[nth] += 1
            row = self._look(nth)
        self._taken[nth] += 1
        self._advance()
        return row

    def move_to(self, epoch: int, position: int) -> None:
        self.epoch = self.position = 0
        self._taken = [0] * len(self._pools)
        for _ in range(epoch * self.n_rows + position):
            self._taken[self._next_pool()] += 1
            self._advance()
        self._open_rounds()

    def to_wire(self) -> JsonObject:
        """What a curriculum makes of the position; empty: there is none, and `move_to` is enough."""
        if self.curriculum is None:
            return {}
        return {"taken": list(self._taken), "passed": list(self._passed), "curriculum": self.curriculum.to_wire()}

    def restore(self, wire: JsonObject) -> None:
        """Go on where the order did of which this is `to_wire`; `move_to` has been called."""
        if self.curriculum is not None and wire:
            self._taken, self._passed = list(wire["taken"]), list(wire["passed"])
            self.curriculum.restore(wire["curriculum"])
            self._open_rounds()

    def metrics(self) -> dict[str, float]:
        """Of the curriculum; empty: there is none."""
        return self.curriculum.metrics(self.n_rows) if self.curriculum is not None else {}

    def _look(self, nth: int) -> EpochRow:
        """The row of a pool that is next in its round."""
        round_, place = divmod(self._taken[nth] + self._passed[nth], len(self._pools[nth].rows))
        if place == 0:
            self._rounds[nth] = self._round(self._pools[nth], round_)
        return EpochRow(round_, self._rounds[nth][place])

    def _open_rounds(self) -> None:
        for nth, pool in enumerate(self._pools):
            self._rounds[nth] = self._round(pool, (self._taken[nth] + self._passed[nth]) // len(pool.rows))

    def _may_give(self, pool: RowPool) -> bool:
        return self.curriculum is None or any(map(self.curriculum.may_come, pool.rows))

    def _advance(self) -> None:
        self.position += 1
        if self.position == self.n_rows:
            self.epoch, self.position = self.epoch + 1, 0

    def _next_pool(self) -> int:
        """The pool that is furthest behind its share, of those that have a row to give; the first of those that are so
        equally."""
        n = self.epoch * self.n_rows + self.position + 1
        behind = [
            share * n - taken if self._may_give(pool) else float("-inf")
            for pool, share, taken in zip(self._pools, self._shares, self._taken, strict=True)
        ]
        return behind.index(max(behind))

    def _round(self, pool: RowPool, nth: int) -> list[int]:
        rows = list(pool.rows)
        if self._shuffle:
            random.Random("/".join([str(self._seed), *filter(None, [pool.name]), str(nth)])).shuffle(rows)
        return rows
