"""In-flight groups: each runs as a task of the loop's task group, and is recorded in the ledger or cancelled.

Law     while groups may start, one starts as soon as the ledger has room for it. A group that was given up is
        cancelled, and what it returns afterwards is ignored.
Errors  an error of a group ends the task group, and with it all others. InfraError `generation_failures` when more
        groups in a row than `max_generation_failures` ended without any verdict. A group whose row is wrong, or whose
        members all leaked, is no such failure, because engines are not the cause; but as many in a row as there are
        rows end the run too: it would never have another step.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from paddock.errors import InfraError
from paddock.training.core.admission import RunningGroup
from paddock.training.core.groups import has_advantage, repair
from paddock.training.core.ledger import Ledger, LostGroup
from paddock.training.core.records import Group
from paddock.training.core.rollout_tally import RolloutTally
from paddock.training.core.settings import GroupSettings, GrpoSettings
from paddock.training.grpo.calls import role_call
from paddock.training.grpo.roles import GroupJob, Rollouts
from paddock.types import TERMINAL, Outcome

_NO_ENGINE_FAILURE: frozenset[Outcome] = TERMINAL | {"cancelled"}
"""Failed outcomes that say nothing of the engines: a wrong row, a leak, a member beyond its budget."""


class InFlightGroups:
    """The running groups of one run."""

    def __init__(
        self,
        ledger: Ledger,
        rollouts: Rollouts,
        owner: asyncio.TaskGroup,
        *,
        groups: GroupSettings,
        grpo: GrpoSettings,
        failures_in_a_row: int = 0,
        tally: RolloutTally | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.failures_in_a_row = failures_in_a_row
        """How many of the last groups in a row ended without any verdict, for no fault of rows or the policy."""
        self.tally = tally or RolloutTally()
        """The groups that ended since the last report."""
        self._in_a_row_any_cause = 0
        """How many of the last groups in a row ended without any verdict, for any cause."""
        self._ledger = ledger
        self._rollouts = rollouts
        self._owner = owner
        self._settings = groups
        self._grpo = grpo
        self._max_failures = grpo.async_grpo.max_generation_failures
        self._open = False
        self._clock = clock
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._started_at: dict[int, float] = {}
        self._lost: list[LostGroup] = []
        self._changed = asyncio.Event()

    @property
    def idle(self) -> bool:
        return not self._tasks

    def ages(self) -> dict[int, float]:
        """Seconds that each running group has run, by its id, the longest first."""
        now = self._clock()
        return {group_id: now - started for group_id, started in self._started_at.items()}

    def open(self) -> None:
        """Let groups start; those that the ledger has as running without a task (after a resume) are started again."""
        self._open = True
        for started in self._ledger.running.values():
            if started.id not in self._tasks:
                self._begin(started)
        self._fill()

    def close(self) -> None:
        """Let no more groups start."""
        self._open = False

    def give_up(self) -> None:
        """Cancel groups that have become too old."""
        for lost in self._ledger.give_up():
            ran_s = self._clock() - self._started_at[lost.id] if lost.id in self._started_at else lost.seconds
            self._lost.append(lost._replace(seconds=ran_s))
            if lost.id in self._tasks:
                self.tally.add_cancelled(ran_s or 0.0)
                self._tasks[lost.id].cancel()

    def stop(self) -> None:
        """Let no more groups start, and cancel all."""
        self.close()
        for task in self._tasks.values():
            task.cancel()

    def take_lost(self) -> tuple[LostGroup, ...]:
        """The groups that were lost since the last call."""
        lost, self._lost = tuple(self._lost), []
        return lost

    async def wait_until(
        self, ready: Callable[[], bool], every_s: float, between: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Wait until `ready` is true; it is called whenever a group has ended, and every `every_s` seconds, after
        `between` has been awaited."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + every_s
        while not ready():
            self._changed.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._changed.wait()
            except TimeoutError:
                if between is not None:
                    await between()
                deadline = loop.time() + every_s

    def _fill(self) -> None:
        while self._open and (started := self._ledger.begin()) is not None:
            self._begin(started)

    def _begin(self, started: RunningGroup) -> None:
        task = self._owner.create_task(self._run(started), name=f"group {started.id}")
        self._tasks[started.id] = task
        self._started_at[started.id] = self._clock()
        task.add_done_callback(lambda _: self._forget(started.id))

    def _forget(self, group_id: int) -> None:
        del self._tasks[group_id]
        del self._started_at[group_id]
        self._changed.set()

    async def _run(self, started: RunningGroup) -> None:
        with role_call("the rollout worker", "rollouts"):
            group = await self._rollouts.run_group(GroupJob(started.id, started.row, started.epoch), started.version)
        if started.id in self._ledger.running:
            self._record_end(group)
            # The group may be too old at once, where an engine lags behind: then another one may start.
            self.give_up()
            self._fill()

    def _record_end(self, group: Group) -> None:
        self.tally.add(group)
        outcomes = {member.outcome for member in group.members}
        if any(member.reward is not None for member in group.members):
            self.failures_in_a_row = self._in_a_row_any_cause = 0
        else:
            self._in_a_row_any_cause += 1
            self.failures_in_a_row += not outcomes or not outcomes <= _NO_ENGINE_FAILURE
        repaired = repair(group, self._settings)
        if repaired is None:
            self._lost.append(self._ledger.drop(group))
        elif self._ledger.may_skip and not has_advantage(repaired, self._grpo):
            self._lost.append(self._ledger.skip(repaired))
        else:
            self._ledger.end(repaired)
        last_outcomes = ", ".join(sorted(outcomes)) or "no member ended"
        if self.failures_in_a_row > self._max_failures:
            raise _failures_error(
                self.failures_in_a_row,
                last_outcomes,
                f"grpo.async_grpo.max_generation_failures bears {self._max_failures}",
            )
        if self._in_a_row_any_cause > max(self._max_failures, n_rows := self._ledger.order.n_rows):
            raise _failures_error(self._in_a_row_any_cause, last_outcomes, f"the dataset has {n_rows} rows")


def _failures_error(count: int, last_outcomes: str, bound: str) -> InfraError:
    groups = "group" if count == 1 else "groups"
    text = f"{count} {groups} in a row ended without any verdict (the last: {last_outcomes}); {bound}"
    return InfraError(text, kind="generation_failures", retryable=False)
