"""All groups of a server that somebody waits for, and a look at what other servers write.

Ends    each group's task ends with its last waiter, the look with the last group, everything with `close`.
Other servers of the same `state_dir` are noticed within `LOOK_S`.
"""

import asyncio
import math
import sqlite3
from typing import NamedTuple

from paddock.errors import VerifierError
from paddock.resources_servers.genrm.config import GenrmConfig
from paddock.resources_servers.genrm.groups.group import Desk, Group
from paddock.resources_servers.genrm.groups.records import Place, Submission
from paddock.resources_servers.genrm.groups.store import GroupStore
from paddock.resources_servers.genrm.judging.asking import Judges, Subject
from paddock.resources_servers.genrm.verdicts import Settled

LOOK_S = 0.1
PRUNE_EVERY_S = 600.0


class Told(NamedTuple):
    """What became of a submission."""

    settled: Settled
    member: int


class Groups:
    def __init__(self, config: GenrmConfig, store: GroupStore, judges: Judges) -> None:
        self._config = config
        self._store = store
        store.on_lost = self._lost
        self._desk = Desk(config, store, judges)
        self._groups: dict[str, Group] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._prune_at = 0.0

    async def judged(self, place: Place, submission: Submission, subject: Subject) -> Told:
        """The judgement of the submission's group; waits until there is one."""
        self._prune_now_and_then()
        placed = self._store.enter(place, submission, group_timeout_s=self._timeout_s)
        group = self._groups.get(placed.group) or self._begin(placed.group, subject)
        try:
            return Told(await group.judged(placed, submission), placed.member)
        finally:
            if not group.is_awaited:
                self._end(group)

    def withdraw(self, place: Place, attempt: int) -> None:
        """The place's member comes no more."""
        name = self._store.withdraw(place, attempt, group_timeout_s=self._timeout_s)
        if name in self._groups:
            self._groups[name].refresh()

    async def close(self) -> None:
        """Who still waits is told that the server stops."""
        tasks = [*self._tasks.values(), *([self._looking] if self._looking else [])]
        for group in list(self._groups.values()):
            group.dismiss(VerifierError("the server stops", kind="stopped"))
            self._end(group)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._store.close()

    @property
    def _timeout_s(self) -> float:
        return math.inf if self._config.incomplete_group == "wait" else self._config.group_timeout_s

    def _begin(self, name: str, subject: Subject) -> Group:
        loop = asyncio.get_running_loop()
        group = self._groups[name] = Group(name, subject, self._desk)
        self._tasks[name] = loop.create_task(group.run())
        if self._looking is None:
            self._store.changed_elsewhere()
            self._looking = loop.create_task(self._look())
        return group

    def _end(self, group: Group) -> None:
        if self._groups.get(group.name) is not group:
            return
        del self._groups[group.name]
        self._tasks.pop(group.name).cancel()
        group.end()
        if not self._groups and self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def _lost(self, error: sqlite3.Error) -> None:
        """Who was there may not be on the disk any more: nobody waits for what will not come."""
        for group in self._groups.values():
            group.dismiss(VerifierError(f"the groups' state can't be written: {error}", kind="group_state"))

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            if self._store.changed_elsewhere():
                for group in self._groups.values():
                    group.refresh()

    def _prune_now_and_then(self) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._prune_at:
            return
        self._prune_at = now + PRUNE_EVERY_S
        config = self._config
        self._store.prune(
            keep_settled_s=config.keep_settled_s,
            keep_open_s=config.keep_settled_s + config.group_timeout_s,
            in_use=self._groups,
        )
