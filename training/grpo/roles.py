"""Who does what in a run: the rollout worker, the policy, and where weights go. The loop knows these alone.

Versions weights are numbered by the optimiser steps they have had: step `s` trains weights `s`, which become `s + 1`.
Law     a call either ends or is cancelled; a failed rollout is a member without a reward, never an exception. What
        raises is what a run can't go on without: PaddockError of the owner.
Place   in a run each is a Ray actor (`processes`); in tests a class in this process.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from paddock.training.core.records import Batch, Group


class Work(NamedTuple):
    """A group to run."""

    id: int
    """Counts the groups of a run, from 0."""
    row: int
    """Index in the dataset."""
    epoch: int


class Validated(NamedTuple):
    """What a validation found; empty `metrics`: no rollout had a verdict."""

    metrics: Mapping[str, float]
    """`accuracy` (mean reward), `pass_k` where there are several per prompt, counts by outcome as shares."""
    n_rollouts: int
    n_verdicts: int


class Replica(NamedTuple):
    """One engine that samples, as the model server says."""

    name: str
    url: str
    started: int
    """Counts its starts: one that was started anew has none of the weights that were sent to it before."""


class Trained(NamedTuple):
    """One optimiser step."""

    metrics: Mapping[str, float]
    masked_rows: tuple[int, ...] = ()
    """Indices of the batch's rows that were left out because trainer and engine disagree about them."""


class Sent(NamedTuple):
    """One sending of weights, to all engines."""

    version: int
    replicas: tuple[str, ...]
    """That have them now."""
    pause_s: float
    """All of them together; so the two below."""
    send_s: float
    resume_s: float
    failed: Mapping[str, str] = {}
    """Names of those that have not, and why: dead, refusing, or broken meanwhile."""


class Rollouts(Protocol):
    """Runs groups through the agents and servers of `paddock eval`."""

    async def run_group(self, work: Work, version: int) -> Group:
        """Every member ended; `version`: of the newest weights that were sent."""
        ...

    async def validate(self, step: int) -> Validated: ...

    async def replicas(self) -> list[Replica]:
        """The engines that are well now."""
        ...

    async def checkpoint(self, folder: Path) -> None:
        """Store what is needed to go on; everything that was told before is on the disk."""
        ...

    async def restore(self, folder: Path) -> None: ...

    async def stop(self) -> None: ...


class Policy(Protocol):
    """Holds the weights and the optimiser. In a run: `policy` on torch."""

    async def train(self, batch: Batch) -> Trained:
        """One batch, one optimiser step per `train_global_batch_size` rows."""
        ...

    async def send(self, version: int, replicas: list[Replica], *, clear_cache: bool) -> Sent:
        """Weights to every engine, which pauses meanwhile (keeping what it is at) and always goes on afterwards."""
        ...

    async def save(self, folder: Path) -> None:
        """Weights, optimiser, scheduler, random states."""
        ...

    async def load(self, folder: Path) -> None: ...

    async def export(self, folder: Path) -> None:
        """The weights in the form of Hugging Face."""
        ...

    async def stop(self) -> None: ...
