"""The rollout worker: groups and validations, run through the agents and servers of `paddock eval`.

Law     a member's attempts, retries and outcomes are those of a collection; a member that failed for no fault of the
        policy is run anew up to `max_rerolls` times, and is then missing. A group ends when all its members have.
        Cancelling a group cancels its members; nothing of it is written down.
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

from paddock.collect import EvalSettings
from paddock.collect import Group as RowGroup
from paddock.collect.attempts import Attempts, Ended
from paddock.config import Config, validate
from paddock.errors import BugError
from paddock.training.core.flaws import FlawRules
from paddock.training.core.groups import missing_members, with_rerolls
from paddock.training.core.members import member_of
from paddock.training.core.records import Group, Member
from paddock.training.core.settings import GroupSettings, GrpoSettings
from paddock.training.grpo.environment import Environment, open_environment
from paddock.training.grpo.journals import Gathered, Journals
from paddock.training.grpo.roles import Replica, Validated, Work
from paddock.training.grpo.rows import Rows
from paddock.training.grpo.validation import judged_of, validated
from paddock.types import JsonObject


class WorkerSettings(NamedTuple):
    """What a worker is told beside the config of its servers."""

    run_id: str
    folder: Path
    """Of the run: journals are written there."""
    train_rows: Path
    validation_rows: Path | None
    grpo: GrpoSettings
    groups: GroupSettings
    flaws: FlawRules = FlawRules()
    sampling: JsonObject = {}
    """Set on the requests of training rows."""
    validation_sampling: JsonObject = {}
    """Set on those of validation rows."""
    model_server: str = "policy_model"
    """The instance whose engines are trained."""


class RolloutWorker:
    """`start` before anything else; `roles.Rollouts`."""

    def __init__(self, config: Config, settings: WorkerSettings) -> None:
        evaluation = validate(EvalSettings, config.top("eval"), "eval")
        self.config = config
        self.settings = settings
        self._attempts = evaluation
        self._rows = Rows(config, evaluation, settings.train_rows, settings.sampling)
        self._validation = (
            Rows(config, evaluation, settings.validation_rows, settings.validation_sampling)
            if settings.validation_rows is not None
            else None
        )
        self._journals = Journals(settings.folder)
        self._stack = AsyncExitStack()
        self._environment: Environment | None = None

    @property
    def n_rows(self) -> int:
        return len(self._rows)

    async def start(self) -> None:
        self._environment = await self._stack.enter_async_context(
            open_environment(self.config, self.settings.model_server)
        )

    async def run_group(self, work: Work, version: int) -> Group:
        size = self.settings.grpo.num_generations_per_prompt
        row = self._rows.group(work.row, size=size, epoch=work.epoch, run_id=self.settings.run_id)
        lines = Gathered()
        attempts = self._attempts_into(lines)
        group = Group(id=work.id, row=work.row, epoch=work.epoch, members=(), size=size, version=version)
        for nth in range(1 + self.settings.groups.max_rerolls):
            places = missing_members(group)
            if not places:
                break
            failed_before = nth * self._attempts.max_attempts
            members = await _all_of(self._member(attempts, row, place, failed_before) for place in places)
            self._running.require_running()
            group = with_rerolls(group, members)
        await self._journals.group(group, lines)
        return group

    async def validate(self, step: int) -> Validated:
        grpo = self.settings.grpo
        if self._validation is None:
            return Validated({}, 0, 0)
        size = grpo.val_num_generations_per_prompt
        run_id = f"{self.settings.run_id}-validation"
        lines = Gathered()
        attempts = self._attempts_into(lines)

        async def one(row: RowGroup, place: int) -> Member:
            async with room:
                return judged_of(await self._member(attempts, row, place, 0), step)

        count = min(len(self._validation), grpo.max_val_samples or len(self._validation))
        # Members of a group may wait for each other's verdicts: a whole one always finds room.
        room = asyncio.Semaphore(max(grpo.val_batch_size or count * size, size))
        rows = [self._validation.group(index, size=size, epoch=step, run_id=run_id) for index in range(count)]
        members = await _all_of(one(row, place) for row in rows for place in range(size))
        self._running.require_running()
        await self._journals.validation(lines)
        return validated([members[start : start + size] for start in range(0, len(members), size)])

    async def replicas(self) -> list[Replica]:
        return await self._running.replicas()

    async def checkpoint(self, folder: Path) -> None:
        await self._journals.checkpoint(folder)

    async def restore(self, folder: Path) -> None:
        await self._journals.restore(folder)

    async def stop(self) -> None:
        await self._stack.aclose()
        await self._journals.close()

    @property
    def _running(self) -> Environment:
        if self._environment is None:
            raise BugError("the worker was not started", kind="not_started")
        return self._environment

    def _attempts_into(self, lines: Gathered) -> Attempts:
        return Attempts(self._running.peers, lines, self._attempts)

    async def _member(self, attempts: Attempts, row: RowGroup, place: int, failed_before: int) -> Member:
        started = time.monotonic()
        ended = await attempts.run_member(row, place, failed_before)
        return self._as_member(ended, place)._replace(total_s=time.monotonic() - started)

    def _as_member(self, ended: Ended, place: int) -> Member:
        if ended.rollout is None:
            return Member(nth=place, outcome=ended.ending.outcome, reward=None)
        return member_of(ended.rollout, self.settings.groups, self.settings.flaws)


async def _all_of(members: Iterable[Awaitable[Member]]) -> list[Member]:
    """All of them, in order; when one raises or this is cancelled, the others are cancelled and waited for."""

    async def each(member: Awaitable[Member]) -> Member:
        return await member

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each(member)) for member in members]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]
