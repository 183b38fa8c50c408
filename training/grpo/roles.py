"""The roles of a run, as the loop calls them: the rollout worker and the policy.

Versions weights are numbered by the optimiser steps they have had: step `s` trains weights `s`, which become `s + 1`.
Law     a call either ends or is cancelled; a failed rollout is a member without a reward, never an exception. A role
        raises a PaddockError only for what a run can't go on without.
Process in a run each role is a Ray actor (`processes`); in tests a class in this process.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from paddock.server.vllm.weights.replicas import ReplicaInfo, SendResult
from paddock.training.core.records import Batch, Group


class GroupJob(NamedTuple):
    """A group to run."""

    id: int
    """Number of the group in its run, from 0."""
    row: int
    """Index in the dataset."""
    epoch: int


class ValidationResult(NamedTuple):
    """The result of a validation; `metrics` are empty where no rollout had a verdict."""

    metrics: Mapping[str, float]
    """`accuracy` (mean reward), `pass_k` where there are several per prompt, counts by outcome as shares."""
    n_rollouts: int
    n_verdicts: int


class TrainResult(NamedTuple):
    """The result of one training step."""

    metrics: Mapping[str, float]
    masked_rows: tuple[int, ...] = ()
    """Indices of the rows of the batch that were left out because trainer and engine disagree about them."""


class TokenNll(NamedTuple):
    """How well a policy predicts tokens."""

    total: float
    """Sum of their negative log-probs, in nats."""
    tokens: int


class Rollouts(Protocol):
    """Runs groups through the agents and servers of `paddock eval`."""

    async def run_group(self, work: GroupJob, version: int) -> Group:
        """The group, once all its members have ended. `version`: that of the newest weights that were sent."""
        ...

    async def validate(self, step: int) -> ValidationResult: ...

    async def replicas(self) -> list[ReplicaInfo]:
        """The engines that are healthy now."""
        ...

    async def checkpoint(self, folder: Path) -> None:
        """Store what a resumed run needs; all that was recorded before is on the disk then."""
        ...

    async def restore(self, folder: Path) -> None: ...

    async def stop(self) -> None: ...


class Policy(Protocol):
    """Holds the weights and the optimiser. In a run: `policy` on torch."""

    async def train(self, batch: Batch) -> TrainResult:
        """Train on one batch, with one optimiser step per `train_global_batch_size` rows."""
        ...

    async def send(self, version: int, replicas: list[ReplicaInfo], *, clear_cache: bool) -> SendResult:
        """Send the weights to every engine. Each pauses meanwhile, keeping its requests, and always resumes
        afterwards."""
        ...

    async def save(self, folder: Path, *, background: bool = False) -> None:
        """Store weights, optimiser, scheduler and random states. `background`: return once they are copied."""
        ...

    async def finish_save(self) -> None:
        """Wait until what was saved in the background is on the disk. InfraError when the disk refuses."""
        ...

    async def load(self, folder: Path) -> None: ...

    async def export(self, folder: Path) -> None:
        """Write the weights in the format of Hugging Face."""
        ...

    async def stop(self) -> None: ...


class ScoringPolicy(Policy, Protocol):
    """A policy that also says how well it predicts given tokens: fine-tuning measures its held-out loss so."""

    async def token_nll(self, batch: Batch) -> TokenNll:
        """Of the trained tokens of a batch; nothing is learned."""
        ...
