"""Groups of rollouts for a trainer that holds rows in memory, in one event loop.

Law     a stream gives each group when all its members have ended, in the order in which groups end, and begins no more
        than the trainer has room for (`max_groups`): one that is not read holds the others back. Leaving a stream
        cancels what it began. While paused no rollout starts, and no engine function is called; what runs goes on.
Errors  those of `runner`; ConfigError for what is no row, and for a member or a size that no group has.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import suppress
from itertools import count

from paddock.collect import PlannedGroup
from paddock.errors import ConfigError
from paddock.rollouts.options import RolloutOptions
from paddock.rollouts.planned_rows import group_stamp, planned_group
from paddock.rollouts.records import RolloutGroup, TrainingRollout, training_rollout
from paddock.rollouts.runner import RolloutRunner
from paddock.server.exact.functions import FunctionEngine
from paddock.server.exact.server import ExactServer
from paddock.types import JsonObject


class GroupRollouts:
    """Runs the groups of one trainer."""

    def __init__(self, runner: RolloutRunner, options: RolloutOptions, *, run_id: str) -> None:
        self.runner = runner
        self.options = options
        self.run_id = run_id
        self.weight_version: str | None = None
        self._indices = count()
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
        return training_rollout(finished, self.options.sample_mode, planned.error)

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
        for engine in self._engines():
            engine.pause()

    def resume(self) -> None:
        for engine in self._engines():
            engine.resume()
        self._open.set()

    def announce_weights(self, version: int | str) -> None:
        """Say that engines have these weights from now on."""
        self.weight_version = str(version)
        for engine in self._engines():
            engine.version = self.weight_version

    async def _run(self, planned: PlannedGroup) -> RolloutGroup:
        version = self.weight_version
        finished = await self.runner.run_group(planned, max_rerolls=self.options.max_rerolls)
        members = tuple(training_rollout(member, self.options.sample_mode, planned.error) for member in finished)
        return RolloutGroup(planned.line.index, members, version)

    def _plan(self, row: JsonObject, index: int, size: int, group: str | None = None) -> PlannedGroup:
        if not isinstance(row, dict):
            raise ConfigError(f"a row is an object, as in a row file, not {type(row).__name__}", kind="row_invalid")
        if size < 1:
            raise ConfigError(f"a group has at least one member, not {size}", kind="group_size_invalid")
        wire = {**row, **group_stamp(self.run_id, size, group), "_ng_task_index": index}
        return planned_group(wire, self.runner.router, number=index, size=size)

    def _engines(self) -> Iterator[FunctionEngine]:
        """The engines of this process that are a trainer's function."""
        for server in self.runner.runtime.local.values():
            if isinstance(server, ExactServer) and isinstance(engine := server.equipment.engine, FunctionEngine):
                yield engine
