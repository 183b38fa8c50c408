"""The rollout worker: groups and validations, run through the agents and servers of `paddock eval`.

Law     a member's attempts, retries and outcomes are those of a collection; a member that failed for no fault of the
        policy is run anew up to `max_rerolls` times, and is then missing. A group ends when all its members have.
        Cancelling a group cancels its members; nothing of it is written.
Rows    training rows are sampled as the config says, over what a row says itself; so are validation rows, with
        settings of their own.
Errors  InfraError when servers were given up, the disk refuses, or the model server is out of reach.
"""

import asyncio
import time
from collections.abc import Awaitable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

from paddock.collect import EvalSettings, PlannedGroup
from paddock.collect.attempts import Attempts, FinishedMember
from paddock.config import Config, validate
from paddock.errors import BugError
from paddock.training.core.flaws import FlawRules
from paddock.training.core.groups import missing_members, with_rerolls
from paddock.training.core.members import member_of
from paddock.training.core.records import Group, Member
from paddock.training.core.settings import GroupSettings, GrpoSettings
from paddock.training.grpo.environment import ServerEnvironment, open_environment
from paddock.training.grpo.journals import GroupLines, Journals
from paddock.training.grpo.roles import GroupJob, ReplicaInfo, ValidationResult
from paddock.training.grpo.rows import IndexedRows
from paddock.training.grpo.validation import require_weights, validation_result
from paddock.types import JsonObject


class WorkerSettings(NamedTuple):
    """The settings of a worker beside the config of its servers."""

    run_id: str
    folder: Path
    """The folder of the run, in which journals are written."""
    train_rows: Path
    validation_rows: Path | None
    grpo: GrpoSettings
    groups: GroupSettings
    flaws: FlawRules = FlawRules()
    sampling: JsonObject = {}
    """Sampling parameters that are set on the requests of training rows."""
    validation_sampling: JsonObject = {}
    """The same for validation rows."""
    model_server: str = "policy_model"
    """The instance whose engines are trained."""


class RolloutWorker:
    """The role `roles.Rollouts`. `start` has to be called first."""

    def __init__(self, config: Config, settings: WorkerSettings) -> None:
        evaluation = validate(EvalSettings, config.top("eval"), "eval")
        self.config = config
        self.settings = settings
        self._attempts = evaluation
        self._rows = IndexedRows(config, evaluation, settings.train_rows, settings.sampling)
        self._validation = (
            IndexedRows(config, evaluation, settings.validation_rows, settings.validation_sampling)
            if settings.validation_rows is not None
            else None
        )
        self._journals = Journals(settings.folder)
        self._stack = AsyncExitStack()
        self._environment: ServerEnvironment | None = None

    @property
    def n_rows(self) -> int:
        return len(self._rows)

    async def start(self) -> None:
        self._environment = await self._stack.enter_async_context(
            open_environment(self.config, self.settings.model_server)
        )

    async def run_group(self, work: GroupJob, version: int) -> Group:
        size = self.settings.grpo.num_generations_per_prompt
        row = self._rows.group(work.row, size=size, epoch=work.epoch, run_id=self.settings.run_id)
        lines = GroupLines()
        attempts = self._attempts_into(lines)
        group = Group(id=work.id, row=work.row, epoch=work.epoch, members=(), size=size, version=version)
        for reroll in range(1 + self.settings.groups.max_rerolls):
            numbers = missing_members(group)
            if not numbers:
                break
            failed_before = reroll * self._attempts.max_attempts
            members = await _all_of(self._member(attempts, row, nth, failed_before) for nth in numbers)
            self._running.require_running()
            group = with_rerolls(group, members)
        await self._journals.group(group, lines)
        return group

    async def validate(self, step: int) -> ValidationResult:
        grpo = self.settings.grpo
        if self._validation is None:
            return ValidationResult({}, 0, 0)
        size = grpo.val_num_generations_per_prompt
        run_id = f"{self.settings.run_id}-validation"
        lines = GroupLines()
        attempts = self._attempts_into(lines)

        async def run_one(row: PlannedGroup, nth: int) -> Member:
            async with room:
                return require_weights(await self._member(attempts, row, nth, 0), step)

        count = min(len(self._validation), grpo.max_val_samples or len(self._validation))
        # Members of a group may wait for each other's verdicts: a whole one always finds room.
        room = asyncio.Semaphore(max(grpo.val_batch_size or count * size, size))
        rows = [self._validation.group(index, size=size, epoch=step, run_id=run_id) for index in range(count)]
        members = await _all_of(run_one(row, nth) for row in rows for nth in range(size))
        self._running.require_running()
        await self._journals.validation(lines)
        return validation_result([members[start : start + size] for start in range(0, len(members), size)])

    async def replicas(self) -> list[ReplicaInfo]:
        return await self._running.replicas()

    async def checkpoint(self, folder: Path) -> None:
        await self._journals.checkpoint(folder)

    async def restore(self, folder: Path) -> None:
        await self._journals.restore(folder)

    async def stop(self) -> None:
        await self._stack.aclose()
        await self._journals.close()

    @property
    def _running(self) -> ServerEnvironment:
        if self._environment is None:
            raise BugError("the worker was not started", kind="not_started")
        return self._environment

    def _attempts_into(self, lines: GroupLines) -> Attempts:
        return Attempts(self._running.peers, lines, self._attempts)

    async def _member(self, attempts: Attempts, row: PlannedGroup, nth: int, failed_before: int) -> Member:
        started = time.monotonic()
        attempt_result = await attempts.run_member(row, nth, failed_before)
        return self._as_member(attempt_result, nth)._replace(total_s=time.monotonic() - started)

    def _as_member(self, attempt_result: FinishedMember, nth: int) -> Member:
        if attempt_result.rollout is None:
            return Member(nth=nth, outcome=attempt_result.result.outcome, reward=None)
        return member_of(attempt_result.rollout, self.settings.groups, self.settings.flaws)


async def _all_of(members: Iterable[Awaitable[Member]]) -> list[Member]:
    """All members, in order; when one raises or this is cancelled, the others are cancelled and waited for."""

    async def run(member: Awaitable[Member]) -> Member:
        return await member

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run(member)) for member in members]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]
