"""Groups of rollouts for a trainer that holds rows in memory, in one event loop.

Law     a stream gives each group when all its members have ended, in the order in which groups end, and begins no more
        than the trainer has room for (`max_groups`): one that is not read holds the others back. Leaving a stream
        cancels what it began. While paused no rollout starts, and no engine function is called; what runs goes on.
Log     failures of a kind are logged once, with the first row: a user sees why nothing can be trained on.
Errors  those of `runner`; ConfigError for what is no row, and for a member or a size that no group has.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import count

from paddock.collect import PlannedGroup
from paddock.collect.attempts import FinishedMember
from paddock.errors import ConfigError
from paddock.rollouts.options import RolloutOptions
from paddock.rollouts.planned_rows import group_stamp, planned_group
from paddock.rollouts.records import RolloutGroup, TrainingRollout, training_rollout
from paddock.rollouts.runner import RolloutRunner
from paddock.types import JsonObject

_log = logging.getLogger("paddock.rollouts")


class GroupRollouts:
    """Runs the groups of one trainer."""

    def __init__(self, runner: RolloutRunner, options: RolloutOptions, *, run_id: str) -> None:
        self.runner = runner
        self.options = options
        self.run_id = run_id
        self.weight_version: str | None = None
        self._indices = count()
        self._named: set[str | None] = set()
        """Kinds of failures that were named to the user."""
        self._open = asyncio.Event()
        self._open.set()

    async def group(self, row: JsonObject, size: int, *, index: int | None = None) -> RolloutGroup:
        """Run `size` rollouts of a row, and give them when all have ended. `index`: the row's number, on which its
        random choices depend; None: the next one."""
        number = next(self._indices) if index is None else index
        await self._open.wait()
        return await self._run(self._plan(row, number, size))

    async def member(
        self, row: JsonObject, member: int, size: int, *, index: int, group: str | None = None
    ) -> TrainingRollout:
        """Run one rollout of a group whose members are asked for one by one. `group`: a text of the group's own; where
        the environment judges members together, it finds them by it, and all have to be asked for here."""
        await self._open.wait()
        planned = self._plan(row, index, size, group)
        if not 0 <= member < size:
            raise ConfigError(f"a group of {size} has no member {member}: they count from 0", kind="member_invalid")
        self.runner.require_room(planned)
        finished = await self.runner.run_member(planned, member)
        self.runner.require_running()
        return self._as_rollout(finished, planned)

    async def stream(self, rows: Iterable[JsonObject], size: int) -> AsyncGenerator[RolloutGroup, None]:
        """Run `size` rollouts of each row: the groups, in the order in which they end."""
        limit = self.options.max_groups or max(1, self.options.max_rollouts // size)
        waiting: Iterator[JsonObject] = iter(rows)
        running: set[asyncio.Task[RolloutGroup]] = set()
        ended: list[asyncio.Task[RolloutGroup]] = []
        try:
            while True:
                while len(running) + len(ended) < limit and (row := next(waiting, None)) is not None:
                    running.add(asyncio.create_task(self.group(row, size)))
                if not ended and not running:
                    return
                if not ended:
                    done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                    ended += done
                yield ended.pop(0).result()
        finally:
            for task in (*running, *ended):
                task.cancel()
            for task in running:
                with suppress(asyncio.CancelledError, Exception):
                    await task

    def pause(self) -> None:
        """Let no rollout start, and no engine function be called, until `resume`."""
        self._open.clear()
        for engine in self.runner.place.engines:
            engine.pause()

    def resume(self) -> None:
        for engine in self.runner.place.engines:
            engine.resume()
        self._open.set()

    def announce_weights(self, version: int | str) -> None:
        """Say that engines have these weights from now on."""
        self.weight_version = str(version)
        for engine in self.runner.place.engines:
            engine.version = self.weight_version

    async def _run(self, planned: PlannedGroup) -> RolloutGroup:
        version = self.weight_version
        finished = await self.runner.run_group(planned, max_rerolls=self.options.max_rerolls)
        members = tuple(self._as_rollout(member, planned) for member in finished)
        return RolloutGroup(planned.line.index, members, version)

    def _as_rollout(self, finished: FinishedMember, planned: PlannedGroup) -> TrainingRollout:
        rollout = training_rollout(finished, self.options.sample_mode, planned.error)
        if rollout.failure is not None and rollout.reason not in self._named:
            self._named.add(rollout.reason)
            _log.warning(
                "row %d has no reward: %s; further ones of this kind are not named: see `failure` of each member",
                planned.line.index,
                rollout.failure,
            )
        return rollout

    def _plan(self, row: JsonObject, index: int, size: int, group: str | None = None) -> PlannedGroup:
        if not isinstance(row, dict):
            raise ConfigError(f"a row is an object, as in a row file, not {type(row).__name__}", kind="row_invalid")
        require_size(size)
        wire = {**row, **group_stamp(self.run_id, size, group), "_ng_task_index": index}
        return planned_group(wire, self.runner.router, number=index, size=size)


def require_size(size: int) -> None:
    """ConfigError for what is no size of a group."""
    if not isinstance(size, int) or size < 1:
        raise ConfigError(f"a group has at least one member, not {size!r}", kind="group_size_invalid")


def require_rows(rows: Iterable[JsonObject]) -> None:
    """ConfigError for what holds no rows."""
    if isinstance(rows, str | bytes | Mapping) or not hasattr(rows, "__iter__"):
        raise ConfigError(
            f"rows are objects, as in a row file, in a list or another iterable, not {type(rows).__name__}",
            kind="rows_invalid",
        )
