"""The rollout worker: groups and validations, run through the agents and servers of `paddock eval`.

Law     a member's attempts, retries and outcomes are those of a collection; a member that failed for no fault of the
        policy is run anew up to `max_rerolls` times, and is then missing. A group ends when all its members have.
        Cancelling a group cancels its members. Rows come with each call, and journal lines go with its answer: nothing
        is read from or written to the run's folder, which may be on another machine's disk.
Errors  InfraError when servers were given up, or the model server is out of reach.
"""

import asyncio
import time
from collections.abc import Awaitable, Iterable, Sequence
from contextlib import AsyncExitStack
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
from paddock.training.grpo.environment import ModelAddress, ServerEnvironment, open_environment
from paddock.training.grpo.journals import GroupLines
from paddock.training.grpo.roles import GroupJob
from paddock.training.grpo.validation import require_weights
from paddock.types.seeds import seed_from


class WorkerSettings(NamedTuple):
    """The settings of a worker beside the config of its servers."""

    grpo: GrpoSettings
    groups: GroupSettings
    flaws: FlawRules = FlawRules()
    model_server: str = "policy_model"
    """The instance whose engines are trained."""


class FinishedGroup(NamedTuple):
    """A group that has ended, and what is journalled of it."""

    group: Group
    lines: GroupLines


class FinishedValidation(NamedTuple):
    """The rollouts of a validation, by prompt, and what is journalled of them."""

    prompts: list[list[Member]]
    lines: GroupLines


class RolloutWorker:
    """Runs groups. `start` has to be called first."""

    def __init__(self, config: Config, settings: WorkerSettings, model: ModelAddress | None = None) -> None:
        """`model`: the model server of the run; None: it is one of the worker's own servers."""
        self.config = config
        self.settings = settings
        self._model = model
        self._attempts = validate(EvalSettings, config.top("eval"), "eval")
        self._stack = AsyncExitStack()
        self._environment: ServerEnvironment | None = None

    async def start(self) -> None:
        self._environment = await self._stack.enter_async_context(
            open_environment(self.config, self.settings.model_server, self._model)
        )

    async def run_group(self, work: GroupJob, row: PlannedGroup, version: int) -> FinishedGroup:
        lines = GroupLines()
        attempts = self._attempts_into(lines)
        group = Group(id=work.id, row=work.row, epoch=work.epoch, members=(), size=row.size, version=version)
        for reroll in range(1 + self.settings.groups.max_rerolls):
            numbers = missing_members(group)
            if not numbers:
                break
            failed_before = reroll * self._attempts.max_attempts
            members = await _all_of(self._member(attempts, row, nth, failed_before) for nth in numbers)
            self._running.require_running()
            group = with_rerolls(group, members)
        return FinishedGroup(group, lines)

    async def validate(self, rows: Sequence[PlannedGroup], step: int) -> FinishedValidation:
        lines = GroupLines()
        attempts = self._attempts_into(lines)
        count = sum(row.size for row in rows)
        largest = max((row.size for row in rows), default=1)
        # Members of a group may wait for each other's verdicts: a whole one always finds room.
        room = asyncio.Semaphore(max(self.settings.grpo.val_batch_size or count, largest))

        async def run_one(row: PlannedGroup, nth: int) -> Member:
            async with room:
                return require_weights(await self._member(attempts, row, nth, 0), step)

        members = iter(await _all_of(run_one(row, nth) for row in rows for nth in range(row.size)))
        self._running.require_running()
        return FinishedValidation([[next(members) for _ in range(row.size)] for row in rows], lines)

    async def stop(self) -> None:
        await self._stack.aclose()

    @property
    def _running(self) -> ServerEnvironment:
        if self._environment is None:
            raise BugError("the worker was not started", kind="not_started")
        return self._environment

    def _attempts_into(self, lines: GroupLines) -> Attempts:
        return Attempts(self._running.peers, lines, self._attempts)

    async def _member(self, attempts: Attempts, row: PlannedGroup, nth: int, failed_before: int) -> Member:
        started = time.monotonic()
        attempt_result = await attempts.run_member(_with_seed(row, nth), nth, failed_before)
        return self._as_member(attempt_result, nth)._replace(total_s=time.monotonic() - started)

    def _as_member(self, attempt_result: FinishedMember, nth: int) -> Member:
        if attempt_result.rollout is None:
            return Member(nth=nth, outcome=attempt_result.result.outcome, reward=None)
        return member_of(attempt_result.rollout, self.settings.groups, self.settings.flaws)


def _with_seed(group: PlannedGroup, nth: int) -> PlannedGroup:
    """The group as a member has it: with a seed of its own, where the group has one."""
    if group.row is None or (seed := group.row.responses_create_params.get("seed")) is None:
        return group
    params = {**group.row.responses_create_params, "seed": seed_from(seed, nth)}
    return group._replace(row=group.row.model_copy(update={"responses_create_params": params}))


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
