"""Samples of chosen rollouts as arrays, and as the rows of a batch.

Law     ids and masks are those that RL trains on (`paddock.tokens.export`): nothing is tokenised. A sample's first id
        is never trained on, for nothing predicts it.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from paddock.tokens.export import Mode, rollout_samples
from paddock.training.core.records import Batch, TrainRow
from paddock.types import Rollout


class SftSample(NamedTuple):
    """One sample: token ids, and which of them are trained on."""

    ids: np.ndarray
    """`[length]`, int32."""
    loss_mask: np.ndarray
    """`[length]`, bool."""

    @property
    def tokens(self) -> int:
        """How many tokens are trained on."""
        return int(self.loss_mask.sum())


def samples_of(rollout: Rollout, mode: Mode) -> list[SftSample]:
    """The rollout's samples; empty where its tokens are not proven."""
    made = []
    for entry in rollout_samples(rollout, mode):
        mask = np.array(entry.sample.loss_mask, dtype=bool)
        mask[:1] = False
        if mask.any():
            made.append(SftSample(np.array(entry.sample.ids, dtype=np.int32), mask))
    return made


def digest(samples: Sequence[SftSample]) -> str:
    """The same for the same ids and masks."""
    sha = hashlib.sha256()
    for sample in samples:
        for part in (np.array([len(sample.ids)]), sample.ids, sample.loss_mask):
            sha.update(part.tobytes())
    return sha.hexdigest()


def batch_of(samples: Sequence[SftSample], step: int) -> Batch:
    """The samples as the batch of a step, each token with the advantage 1."""
    return Batch(
        step=step, rows=[_row(nth, sample) for nth, sample in enumerate(samples)], masked=[], groups=[], dropped=[]
    )


def _row(nth: int, sample: SftSample) -> TrainRow:
    length = len(sample.ids)
    return TrainRow(
        group=nth,
        member=0,
        sample=0,
        ids=sample.ids,
        loss_mask=sample.loss_mask,
        generation_log_probs=np.zeros(length, dtype=np.float32),
        advantages=np.ones(length, dtype=np.float32),
        reward=1.0,
        oldest=None,
        newest=None,
    )
