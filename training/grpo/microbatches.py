"""Rows of a batch as tensors: split into optimiser steps and over processes, padded into micro-batches.

Shapes  `ids` [rows, length], padded on the right with 0. The other tensors are flat, one entry per trained token:
        entry i is about `ids[row[i], at[i]]`, which is predicted at the position before.
Padding is never seen: it is on the right, and attention is causal, so that no trained token attends to what comes after
        it. A mask would say the same, and cost the fast kernels.
Law     every process has the same number of micro-batches, whatever its rows (with FSDP all compute together); one
        that has no row left gets a row without a trained token. Rows of like length are together.
Errors  BugError for a row that is longer than the policy was made for, or trained on at its first id.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from paddock.errors import BugError
from paddock.training.core.packing import packs, padded_packs, shares
from paddock.training.core.records import TrainRow


class MicroBatch(NamedTuple):
    """Some rows of a batch as tensors; shapes are given above."""

    rows: list[int]
    """Indices in the batch; empty where the micro-batch has nothing to train on."""
    ids: torch.Tensor
    row: torch.Tensor
    at: torch.Tensor
    engine_log_probs: torch.Tensor
    advantages: torch.Tensor
    positive: torch.Tensor
    """1.0 where the token's row has a reward above 0."""
    lengths: list[int]
    """The lengths of the rows of `ids` in tokens, without padding."""

    def flat(self, values: Mapping[int, torch.Tensor]) -> torch.Tensor:
        """`[tokens]`: of `values`, by row of the batch `[tokens of the row]`, those of this micro-batch."""
        own = [values[nth] for nth in self.rows]
        return torch.cat(own).to(self.ids.device) if own else self.engine_log_probs

    def of_rows(self, values: Mapping[int, int]) -> torch.Tensor:
        """`[rows]`: of `values`, by row of the batch, those of this micro-batch."""
        return self.engine_log_probs.new_tensor([float(values[nth]) for nth in self.rows])

    def by_row(self, values: torch.Tensor) -> dict[int, torch.Tensor]:
        """The inverse of `flat`: `values` `[tokens]` by row of the batch, on the CPU."""
        counts = torch.bincount(self.row, minlength=len(self.rows)).tolist() if self.rows else []
        return dict(zip(self.rows, values.detach().to("cpu").split(counts), strict=True)) if self.rows else {}


def step_parts(indices: Sequence[int], n_steps: int) -> list[list[int]]:
    """The row indices of each optimiser step, in order, in parts of like size; none is empty."""
    bounds = [len(indices) * nth // n_steps for nth in range(n_steps + 1)]
    return [list(indices[start:end]) for start, end in pairwise(bounds) if end > start]


class RankShare(NamedTuple):
    """The process whose rows they are."""

    rank: int
    world_size: int
    device: torch.device


def micro_batches(
    rows: Sequence[TrainRow], indices: Sequence[int], share: RankShare, *, size: int, capacity: int | None, packed: bool
) -> Iterator[MicroBatch]:
    """This process's part of `indices`, the longest rows first: what does not fit in memory shows at once. A
    micro-batch has `size` rows, or with a `capacity` as many as fit into so many tokens, at least one; `packed`: they
    need no padding there."""
    dealt = shares([len(rows[nth].ids) for nth in indices], share.world_size)
    parts = [_parts([len(rows[indices[nth]].ids) for nth in part], size, capacity, packed=packed) for part in dealt]
    own = parts[share.rank]
    for at in range(max(map(len, parts))):
        chosen = own[at] if at < len(own) else []
        yield _micro_batch(rows, [indices[dealt[share.rank][nth]] for nth in chosen], share.device)


def _parts(lengths: Sequence[int], size: int, capacity: int | None, *, packed: bool) -> list[list[int]]:
    """Which rows of one process go together; `lengths` fall."""
    if capacity is None:
        return [list(range(start, min(start + size, len(lengths)))) for start in range(0, len(lengths), size)]
    return packs(lengths, capacity) if packed else padded_packs(lengths, capacity)


def require_trainable(rows: Sequence[TrainRow], max_length: int) -> None:
    for row in rows:
        if len(row.ids) > max_length:
            raise BugError(f"a row of {len(row.ids)} tokens came to a policy for {max_length}: it had to be masked")
        if not len(row.ids) or row.loss_mask[0]:
            raise BugError("a row is trained on at its first id, which nothing predicts")


def _micro_batch(rows: Sequence[TrainRow], own: list[int], device: torch.device) -> MicroBatch:
    chosen = [rows[nth] for nth in own]
    lengths = [len(row.ids) for row in chosen] or [2]
    ids = np.zeros((len(lengths), max(lengths)), np.int64)
    for padded, row in zip(ids, chosen, strict=False):
        padded[: len(row.ids)] = row.ids
    at = [np.flatnonzero(row.loss_mask) for row in chosen]

    def tensor(values: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(values).to(device)

    def flat(parts: Sequence[NDArray[Any]], dtype: type) -> torch.Tensor:
        return tensor(np.concatenate([np.empty(0, dtype), *parts], dtype=dtype))

    return MicroBatch(
        rows=own,
        ids=tensor(ids),
        row=tensor(np.repeat(np.arange(len(chosen)), np.fromiter(map(len, at), np.int64))),
        at=flat(at, np.int64),
        engine_log_probs=flat([row.generation_log_probs[own] for row, own in zip(chosen, at, strict=True)], np.float32),
        advantages=flat([row.advantages[own] for row, own in zip(chosen, at, strict=True)], np.float32),
        positive=flat([np.full(len(own), row.reward > 0) for row, own in zip(chosen, at, strict=True)], np.float32),
        lengths=lengths,
    )
