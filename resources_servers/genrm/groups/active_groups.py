"""All groups of a server that a request waits for, and a watch on what other servers write.

Ends    each group's task ends with its last waiter, the watch with the last group, everything with `close`.
Other servers of the same `state_dir` are noticed within `WATCH_PERIOD_S`.
"""

import asyncio
import math
import sqlite3
from typing import NamedTuple

from paddock.errors import VerifierError
from paddock.resources_servers.genrm.config import GenrmConfig
from paddock.resources_servers.genrm.groups.active_group import ActiveGroup, GroupContext
from paddock.resources_servers.genrm.groups.records import GroupSlot, Submission
from paddock.resources_servers.genrm.groups.store import GroupStore
from paddock.resources_servers.genrm.judging.judges import GroupPrompt, Judges
from paddock.resources_servers.genrm.verdicts import GroupResult

WATCH_PERIOD_S = 0.1
PRUNE_EVERY_S = 600.0


class MemberResult(NamedTuple):
    """The result of a submission's group, and its number there."""

    result: GroupResult
    member: int


class ActiveGroups:
    """The groups that requests of this server wait for, by id."""

    def __init__(self, config: GenrmConfig, store: GroupStore, judges: Judges) -> None:
        self._config = config
        self._store = store
        store.on_write_failure = self._fail_all
        self._context = GroupContext(config, store, judges)
        self._groups: dict[str, ActiveGroup] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._watcher: asyncio.Task[None] | None = None
        self._prune_at = 0.0

    async def judge_submission(self, slot: GroupSlot, submission: Submission, prompt: GroupPrompt) -> MemberResult:
        """Enter a submission into its group, and wait for the group's result."""
        self._prune_now_and_then()
        membership = self._store.enter(slot, submission, group_timeout_s=self._timeout_s)
        group = self._groups.get(membership.group) or self._begin(membership.group, prompt)
        try:
            return MemberResult(await group.judge(membership, submission), membership.member)
        finally:
            if not group.is_awaited:
                self._end(group)

    def withdraw(self, slot: GroupSlot, attempt: int) -> None:
        """Note that a slot's member comes no more."""
        name = self._store.withdraw(slot, attempt, group_timeout_s=self._timeout_s)
        if name in self._groups:
            self._groups[name].refresh()

    async def close(self) -> None:
        """End all waiters with an error that says so, and close the store."""
        tasks = [*self._tasks.values(), *([self._watcher] if self._watcher else [])]
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

    def _begin(self, name: str, prompt: GroupPrompt) -> ActiveGroup:
        loop = asyncio.get_running_loop()
        group = self._groups[name] = ActiveGroup(name, prompt, self._context)
        self._tasks[name] = loop.create_task(group.run())
        if self._watcher is None:
            self._store.has_foreign_changes()
            self._watcher = loop.create_task(self._watch())
        return group

    def _end(self, group: ActiveGroup) -> None:
        if self._groups.get(group.name) is not group:
            return
        del self._groups[group.name]
        self._tasks.pop(group.name).cancel()
        group.end()
        if not self._groups and self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None

    def _fail_all(self, error: sqlite3.Error) -> None:
        """End all waiters: their submissions may not be on the disk any more."""
        for group in self._groups.values():
            group.dismiss(VerifierError(f"the groups' state can't be written: {error}", kind="group_state"))

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_PERIOD_S)
            if self._store.has_foreign_changes():
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
