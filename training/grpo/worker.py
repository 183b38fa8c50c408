"""The rollout worker: groups and validations, run through the agents and servers of `paddock eval`.

Law     a member's attempts, retries and outcomes are those of a collection; a member that failed for no fault of the
        policy is run anew up to `max_rerolls` times, and is then missing; one that takes longer than
        `member_timeout_s` is missing at once. A group ends when all its members have, and its teachers have scored
        them.
        Cancelling a group cancels its members. Rows come with each call, and journal lines go with its answer: nothing
        is read from or written to the run's folder, which may be on another machine's disk.
Errors  InfraError when servers were given up, or the model server is out of reach.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

from paddock.collect import EvalSettings, PlannedGroup
from paddock.collect.attempts import FinishedMember
from paddock.config import Config, validate
from paddock.errors import BugError
from paddock.rollouts.runner import RolloutRunner, run_together, with_seed
from paddock.training.core.flaws import FlawRules
from paddock.training.core.members import member_of
from paddock.training.core.records import Group, Member
from paddock.training.core.settings import GroupSettings, GrpoSettings
from paddock.training.grpo.distillation_config import DistillationConfig
from paddock.training.grpo.environment import ModelAddress, open_environment
from paddock.training.grpo.journals import GroupLines
from paddock.training.grpo.roles import GroupJob
from paddock.training.grpo.teachers import Teachers
from paddock.training.grpo.validation import require_weights


class WorkerSettings(NamedTuple):
    """The settings of a worker beside the config of its servers."""

    grpo: GrpoSettings
    groups: GroupSettings
    flaws: FlawRules = FlawRules()
    model_server: str = "policy_model"
    """The instance whose engines are trained."""
    distillation: DistillationConfig = DistillationConfig()
    """Teachers that score the samples of its groups."""
    tokenizer: Path = Path()
    """The folder of the policy's tokenizer, whose ids teachers are given."""


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
        self._runner: RolloutRunner | None = None
        own = settings.distillation
        self._teachers = Teachers(own, settings.tokenizer) if own.enabled else None

    async def start(self) -> None:
        if self._teachers is not None:
            self._stack.push_async_callback(self._teachers.stop)
            await self._teachers.start()
        settings = self.settings
        self._runner = await self._stack.enter_async_context(
            open_environment(
                self.config, self._attempts, settings.model_server, self._model, settings.groups.member_timeout_s
            )
        )

    async def run_group(self, work: GroupJob, row: PlannedGroup, version: int) -> FinishedGroup:
        lines = GroupLines()
        finished = await self._running.run_group(row, max_rerolls=self.settings.groups.max_rerolls, sink=lines)
        members = tuple(self._as_member(member) for member in finished)
        if self._teachers is not None:
            members = await self._teachers.scored(members)
        group = Group(id=work.id, row=work.row, epoch=work.epoch, members=members, size=row.size, version=version)
        return FinishedGroup(group, lines)

    async def validate(self, rows: Sequence[PlannedGroup], step: int) -> FinishedValidation:
        lines = GroupLines()
        count = sum(row.size for row in rows)
        largest = max((row.size for row in rows), default=1)
        # Members of a group may wait for each other's verdicts: a whole one always finds room.
        room = asyncio.Semaphore(max(self.settings.grpo.val_batch_size or count, largest))

        async def run_one(row: PlannedGroup, nth: int) -> Member:
            async with room:
                finished = await self._running.run_member(with_seed(row, nth), nth, sink=lines)
                return require_weights(self._as_member(finished), step)._replace(samples=())

        members = iter(await run_together(run_one(row, nth) for row in rows for nth in range(row.size)))
        self._running.require_running()
        return FinishedValidation([[next(members) for _ in range(row.size)] for row in rows], lines)

    async def stop(self) -> None:
        await self._stack.aclose()

    @property
    def _running(self) -> RolloutRunner:
        if self._runner is None:
            raise BugError("the worker was not started", kind="not_started")
        return self._runner

    def _as_member(self, finished: FinishedMember) -> Member:
        if finished.rollout is None:
            return Member(
                nth=finished.result.member, outcome=finished.result.outcome, reward=None, agent=finished.result.agent
            )
        member = member_of(finished.rollout, self.settings.groups, self.settings.flaws)
        return member._replace(total_s=finished.total_s)
