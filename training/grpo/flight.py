"""Groups that run: each is a task with an owner, and ends in the books or is cancelled.

Law     a group is begun as soon as the books have room for it and the gate is open. One that was given up is cancelled,
        and whatever it says afterwards is not heard.
Errors  what a group raises ends its owner, and with it all others. InfraError `generation_failures` when more groups in
        a row than `max_generation_failures` ended without any verdict. A group of which the row is wrong, or of which
        all members leaked, says nothing of who samples, and is no such failure; but as many in a row as there are rows
        end the run too: it would never have another step.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from paddock.errors import InfraError
from paddock.training.core.groups import repair
from paddock.training.core.ledger import Ledger, LostGroup, RunningGroup
from paddock.training.core.records import Group
from paddock.training.core.settings import GroupSettings
from paddock.training.grpo.calls import calling
from paddock.training.grpo.roles import Rollouts, Work
from paddock.types import Outcome

NO_FAILURES: frozenset[Outcome] = frozenset({"row", "leak"})
"""The data's and the policy's; other groups may end otherwise."""


class Flight:
    """The groups of one run, while it lasts."""

    def __init__(
        self,
        ledger: Ledger,
        rollouts: Rollouts,
        owner: asyncio.TaskGroup,
        *,
        groups: GroupSettings,
        max_failures: int,
        in_a_row: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.in_a_row = in_a_row
        """Groups that ended last, all without any verdict, for no fault of rows or the policy."""
        self._useless = 0
        """Groups that ended last, all without any verdict."""
        self._ledger = ledger
        self._rollouts = rollouts
        self._owner = owner
        self._settings = groups
        self._max_failures = max_failures
        self._open = False
        self._clock = clock
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._began_at: dict[int, float] = {}
        self._lost: list[LostGroup] = []
        self._changed = asyncio.Event()

    @property
    def idle(self) -> bool:
        return not self._tasks

    def open(self) -> None:
        """From now on groups may begin; those that the books have running, and that don't, begin again."""
        self._open = True
        for begun in self._ledger.running.values():
            if begun.id not in self._tasks:
                self._begin(begun)
        self._fill()

    def close(self) -> None:
        """From now on none may."""
        self._open = False

    def give_up(self) -> None:
        """Ends what has become too old."""
        for lost in self._ledger.give_up():
            ran_s = self._clock() - self._began_at[lost.id] if lost.id in self._began_at else lost.seconds
            self._lost.append(lost._replace(seconds=ran_s))
            if lost.id in self._tasks:
                self._tasks[lost.id].cancel()

    def stop(self) -> None:
        """Ends all."""
        self.close()
        for task in self._tasks.values():
            task.cancel()

    def take_lost(self) -> tuple[LostGroup, ...]:
        """Groups that were lost since the last call."""
        lost, self._lost = tuple(self._lost), []
        return lost

    async def until(
        self, ready: Callable[[], bool], every_s: float, meanwhile: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """`ready` is asked whenever a group has ended, and each `every_s` seconds, when `meanwhile` is awaited too."""
        loop = asyncio.get_running_loop()
        due = loop.time() + every_s
        while not ready():
            self._changed.clear()
            try:
                async with asyncio.timeout_at(due):
                    await self._changed.wait()
            except TimeoutError:
                if meanwhile is not None:
                    await meanwhile()
                due = loop.time() + every_s

    def _fill(self) -> None:
        while self._open and (begun := self._ledger.begin()) is not None:
            self._begin(begun)

    def _begin(self, begun: RunningGroup) -> None:
        task = self._owner.create_task(self._run(begun), name=f"group {begun.id}")
        self._tasks[begun.id] = task
        self._began_at[begun.id] = self._clock()
        task.add_done_callback(lambda _: self._over(begun.id))

    def _over(self, group_id: int) -> None:
        del self._tasks[group_id]
        del self._began_at[group_id]
        self._changed.set()

    async def _run(self, begun: RunningGroup) -> None:
        with calling("the rollout worker", "rollouts"):
            group = await self._rollouts.run_group(Work(begun.id, begun.row, begun.epoch), begun.version)
        if begun.id in self._ledger.running:
            self._ended(group)
            # An engine that lags behind may have sampled what is too old at once; its place is another's.
            self.give_up()
            self._fill()

    def _ended(self, group: Group) -> None:
        outcomes = {member.outcome for member in group.members}
        if any(member.reward is not None for member in group.members):
            self.in_a_row = self._useless = 0
        else:
            self._useless += 1
            self.in_a_row += not outcomes or not outcomes <= NO_FAILURES
        kept = repair(group, self._settings)
        if kept is None:
            self._lost.append(self._ledger.drop(group))
        else:
            self._ledger.end(kept)
        last = ", ".join(sorted(outcomes)) or "no member ended"
        if self.in_a_row > self._max_failures:
            raise _hopeless(self.in_a_row, last, f"grpo.async_grpo.max_generation_failures bears {self._max_failures}")
        if self._useless > max(self._max_failures, n_rows := self._ledger.order.n_rows):
            raise _hopeless(self._useless, last, f"the dataset has {n_rows} rows")


def _hopeless(count: int, last: str, bound: str) -> InfraError:
    groups = "group" if count == 1 else "groups"
    text = f"{count} {groups} in a row ended without any verdict (the last: {last}); {bound}"
    return InfraError(text, kind="generation_failures", retryable=False)
