"""The rollouts of a run, as its loop calls them: rows are read and journals written here, rollouts made by a worker.

Law     the worker may be on another machine: it is given rows, and gives back what is journalled. A group is in the
        journals before the loop has it; of a cancelled one nothing is.
Rows    training rows are sampled as the config says, over what a row says itself; so are validation rows, with
        settings of their own.
Errors  those of the worker; InfraError when the disk refuses; ConfigError for rows that can't be read.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, Self

from paddock.collect import PlannedGroup
from paddock.collect.results import FailedAttempt
from paddock.config import Config
from paddock.server.vllm.weights.replicas import ReplicaInfo
from paddock.training.core.records import Group
from paddock.training.core.settings import GrpoSettings
from paddock.training.grpo.journals import Journals
from paddock.training.grpo.roles import GroupJob, ValidationResult
from paddock.training.grpo.rows import IndexedRows
from paddock.training.grpo.validation import validation_result
from paddock.training.grpo.worker import FinishedGroup, FinishedValidation
from paddock.types import JsonObject
from paddock.types.seeds import seed_from

SHOWN_FAILURES = 3


class RowSettings(NamedTuple):
    """The rows of a run, and where it journals."""

    run_id: str
    folder: Path
    """The folder of the run, in which journals are written."""
    train_rows: Path
    validation_rows: Path | None
    grpo: GrpoSettings
    held_out: Sequence[int] | None = None
    """Which rows of `validation_rows` are validated on, by index; None: all."""
    sampling: JsonObject = {}
    """Sampling parameters that are set on the requests of training rows."""
    validation_sampling: JsonObject = {}
    """The same for validation rows."""
    seeded: bool = False
    """Whether each group has a seed, of which its members' are made."""


class RunRows:
    """The rows of a run, as groups that are ready to run."""

    def __init__(self, settings: RowSettings, train: IndexedRows, validation: IndexedRows | None) -> None:
        self._settings = settings
        self._train = train
        self._validation = validation

    @classmethod
    def read(cls, config: Config, settings: RowSettings) -> Self:
        train = IndexedRows(config, settings.train_rows, settings.sampling)
        if settings.validation_rows is None:
            return cls(settings, train, None)
        held_out = IndexedRows(config, settings.validation_rows, settings.validation_sampling)
        return cls(settings, train, held_out)

    def group(self, work: GroupJob) -> PlannedGroup:
        size = self._settings.grpo.num_generations_per_prompt
        run_id, sampling = self._settings.run_id, self._seed("train", work.id)
        return self._train.group(work.row, size=size, epoch=work.epoch, run_id=run_id, sampling=sampling)

    def validation(self, step: int) -> list[PlannedGroup]:
        """All groups of a validation; none where there is no validation."""
        if self._validation is None:
            return []
        grpo, run_id = self._settings.grpo, f"{self._settings.run_id}-validation"
        held_out = self._settings.held_out
        indices = (range(len(self._validation)) if held_out is None else held_out)[: grpo.max_val_samples]
        size = grpo.val_num_generations_per_prompt
        seeds = (self._seed("validation", step, index) for index in indices)
        return [
            self._validation.group(index, size=size, epoch=step, run_id=run_id, sampling=sampling)
            for index, sampling in zip(indices, seeds, strict=True)
        ]

    def _seed(self, *parts: int | str) -> dict[str, int]:
        return {"seed": seed_from(self._settings.grpo.seed, *parts)} if self._settings.seeded else {}


class GroupRunner(Protocol):
    """Makes rollouts: a rollout worker, here or in another process."""

    async def run_group(self, work: GroupJob, row: PlannedGroup, version: int) -> FinishedGroup: ...

    async def validate(self, rows: Sequence[PlannedGroup], step: int) -> FinishedValidation: ...

    async def stop(self) -> None: ...


class EngineSource(Protocol):
    """Knows the engines: an `EngineHost`, here or in another process."""

    async def replicas(self) -> list[ReplicaInfo]: ...

    async def stop(self) -> None: ...


class Sampler(NamedTuple):
    """A rollout worker, and the engines that it asks."""

    worker: GroupRunner
    engines: EngineSource | None = None
    """None: none that takes weights, or those of another sampler."""


class RunRollouts:
    """The role `roles.Rollouts`, over one sampler or several: a group runs at the one that runs the fewest."""

    def __init__(self, samplers: Sequence[Sampler], rows: RunRows, folder: Path) -> None:
        """`folder`: for the journals."""
        self._samplers = samplers
        self._rows = rows
        self._journals = Journals(folder)
        self._running = [0] * len(samplers)
        self.last_failures: deque[FailedAttempt] = deque(maxlen=SHOWN_FAILURES)
        """The latest attempts of groups that gave no verdict, the latest last."""

    @property
    def n_running(self) -> list[int]:
        """How many groups run at each worker."""
        return list(self._running)

    async def run_group(self, work: GroupJob, version: int) -> Group:
        row = self._rows.group(work)
        nth = self._running.index(min(self._running))
        self._running[nth] += 1
        try:
            finished = await self._samplers[nth].worker.run_group(work, row, version)
        finally:
            self._running[nth] -= 1
        failures = finished.lines.failures
        self.last_failures.extend(one.model_copy(update={"group_id": work.id}) for one in failures)
        await self._journals.group(finished.group, finished.lines)
        return finished.group

    async def validate(self, step: int) -> ValidationResult:
        rows, count = self._rows.validation(step), len(self._samplers)
        shares = (sampler.worker.validate(rows[nth::count], step) for nth, sampler in enumerate(self._samplers))
        finished = await asyncio.gather(*shares)
        for share in finished:
            await self._journals.validation(share.lines)
        return validation_result([prompt for share in finished for prompt in share.prompts])

    async def replicas(self) -> list[ReplicaInfo]:
        sources = (sampler.engines for sampler in self._samplers if sampler.engines is not None)
        listed = await asyncio.gather(*(source.replicas() for source in sources))
        return [replica for replicas in listed for replica in replicas]

    async def checkpoint(self, folder: Path) -> None:
        await self._journals.checkpoint(folder)

    async def restore(self, folder: Path) -> None:
        await self._journals.restore(folder)

    async def stop(self) -> None:
        for sampler in self._samplers:
            await sampler.worker.stop()
            if sampler.engines is not None:
                await sampler.engines.stop()
        await self._journals.close()
