"""One member of a group: attempts until one ends in a verdict, or no further attempt may help; which of them run.

Law     an attempt ends in exactly one Rollout or failure, whatever the agent does; only `infra` and `verifier`
        failures that say that they may be retried are tried again, at most `max_attempts` times, under a new secret.
        Everything that happened is on the disk before `run_member` returns.
Doubt   a failure that the policy may have caused (`Failure.doubtful`) is tried again once in all, even past
        `max_attempts`; the attempts after it are stamped with that, and their agent has a second one count as the
        policy's. The row of an agent that ignores the stamp is not attempted a third time.
Budget  a member that runs longer than `member_timeout_s`, its attempts together, is cancelled with all that it holds
        and ends as `cancelled`, kind `member_timeout`. An attempt that has ended by then counts, however it ended.
Running since when, and in which stage, so that progress can name the slowest: the stage is known only of agents in
        the worker's process, of others the agent's name is shown. Seconds on the monotonic clock; on the wire as ages,
        for clocks of processes differ.
Errors  only what the disk refuses (OSError) and cancellation leave this module.
"""

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, Protocol

import orjson

from paddock.collect.lines import seal
from paddock.collect.plan import PlannedGroup
from paddock.collect.prices import cost_usd
from paddock.collect.results import FailedAttempt, MemberKey, RolloutResult, result_of, uuid_of
from paddock.collect.routing import Agent
from paddock.collect.settings import EvalSettings
from paddock.errors import BugError, CancelledError, InfraError, PaddockError
from paddock.http import RUN, WITHDRAW, Call, HttpPeer, Peer, new_secret
from paddock.server.rollout import StageWatch, watch_stage
from paddock.tracing import is_on, traced_rollout
from paddock.types import RETRIED, Failure, Outcome, Record, Rollout, Row

MAX_RETRY_WAIT_S = 60.0
ANSWER_GRACE_S = 5.0
"""Seconds that an agent has, after a rollout's deadline, to say how it ended."""
LATE_END_S = 60.0
"""Seconds that a member beyond its budget has to end what it holds; after that its group goes on without it."""
MOST_NAMED = 3
"""Rollouts that are named as the slowest."""
MOST_STUCK = 20
"""Stuck rollouts that are named: where all are, a few say it."""


class RunningRollout(Record):
    """One rollout that runs."""

    key: MemberKey
    where: str
    """Its stage or its agent, in words."""
    began_s: float
    """Its age."""
    since_s: float
    """How long it has been there."""


class RunningReport(Record):
    """What runs at one worker."""

    n_running: int = 0
    slowest: list[RunningRollout] = []
    """Those that run the longest, the longest first."""
    stuck: list[RunningRollout] = []
    """Those that are in one stage for longer than `eval.stuck_after_s`."""

    def later(self, seconds: float) -> "RunningReport":
        """The same after that time."""
        aged = [
            [
                run.model_copy(update={"began_s": run.began_s + seconds, "since_s": run.since_s + seconds})
                for run in runs
            ]
            for runs in (self.slowest, self.stuck)
        ]
        return RunningReport(n_running=self.n_running, slowest=aged[0], stuck=aged[1])


class InFlight:
    """The attempts that run in this process."""

    def __init__(self, *, stuck_after_s: float = 0.0) -> None:
        """`stuck_after_s`: seconds in one stage from which on an attempt is stuck; 0: none is."""
        self._stuck_after_s = stuck_after_s or float("inf")
        # By secret: a trainer may run a row anew while it still runs.
        self._running: dict[str, tuple[MemberKey, str, StageWatch]] = {}

    @contextmanager
    def attempt(self, key: MemberKey, agent: str, secret: str) -> Iterator[StageWatch]:
        """Register one attempt while the block runs."""
        with watch_stage(secret) as watch:
            self._running[secret] = key, agent, watch
            try:
                yield watch
            finally:
                del self._running[secret]

    def stage_of(self, key: MemberKey) -> str | None:
        """The stage in which a member runs; None: in none, or not in this process."""
        return next((watch.stage for running, _, watch in self._running.values() if running == key), None)

    def report(self) -> RunningReport:
        now = time.monotonic()
        running = sorted(self._running.values(), key=lambda item: item[2].began)
        stuck = [item for item in running if now - item[2].since >= self._stuck_after_s]
        slowest, named = (
            [_running(*item, now) for item in items] for items in (running[:MOST_NAMED], stuck[:MOST_STUCK])
        )
        return RunningReport(n_running=len(running), slowest=slowest, stuck=named)


def _running(key: MemberKey, agent: str, watch: StageWatch, now: float) -> RunningRollout:
    where = f"in {watch.stage}" if watch.stage else f"at {agent}"
    return RunningRollout(key=key, where=where, began_s=now - watch.began, since_s=now - watch.since)


class RolloutSetup(Protocol):
    """Puts what a rollout needs in place under its secret, before it runs."""

    async def prepare(self, agent: Agent, row: Row, secret: str) -> None: ...


class ResultSink(Protocol):
    """Stores how attempts ended; see `journal`."""

    async def rollout(self, result: RolloutResult, line: bytes) -> RolloutResult: ...

    async def failure(self, failed: FailedAttempt) -> None: ...


class FinishedMember(NamedTuple):
    """A member that needs no further attempt: how its last one ended, in short and in full."""

    result: RolloutResult
    rollout: Rollout | None
    """None: its row can't be read."""
    total_s: float = 0.0
    """Seconds since its first attempt began, waits between attempts included."""


class NoVerdict(NamedTuple):
    """Why one attempt gave no verdict."""

    outcome: Outcome
    failure: Failure
    rollout: Rollout | None = None


class Attempts:
    """Runs the members of groups, and holds what all of them share."""

    def __init__(
        self,
        peers: Mapping[str, Peer],
        sink: ResultSink,
        settings: EvalSettings,
        setup: RolloutSetup | None = None,
        in_flight: InFlight | None = None,
        *,
        member_timeout_s: float | None = None,
    ) -> None:
        """`member_timeout_s`: the budget of a member; None: it has none."""
        self._member_timeout_s = member_timeout_s
        self._peers = peers
        self._sink = sink
        self._settings = settings
        self._setup = setup
        self._in_flight = in_flight or InFlight()

    async def run_member(
        self, group: PlannedGroup, member: int, failed_before: int, doubts: int = 0, *, made: int = 0
    ) -> FinishedMember:
        """Make attempts until the member has ended. `failed_before`: how many there were before, from which on attempts
        are numbered; `made`: how many of those count for `max_attempts`; `doubts`: how many failed in doubt."""
        attempt, began, clock = failed_before, time.monotonic(), asyncio.get_running_loop().time
        ends_at = clock() + self._member_timeout_s if self._member_timeout_s is not None else float("inf")
        while True:
            made += 1
            result = await self._attempt_until(ends_at, group, member, attempt, doubts)
            if isinstance(result, FinishedMember):
                return result._replace(total_s=time.monotonic() - began)
            again = result.outcome in RETRIED and result.failure.retryable and made < self._settings.max_attempts
            if result.failure.doubtful:
                again, doubts = doubts == 0, doubts + 1
            wait_s = min(MAX_RETRY_WAIT_S, self._settings.retry_wait_s * 2.0 ** (made - 1))
            again = again and clock() + wait_s < ends_at
            failed = failed_attempt(group, member, attempt, result, final=not again)
            await self._sink.failure(failed)
            if not again:
                await self.withdraw(group, [member], attempt)
                return FinishedMember(failed.result(), result.rollout, time.monotonic() - began)
            attempt += 1
            await asyncio.sleep(wait_s)

    async def _attempt_until(
        self, ends_at: float, group: PlannedGroup, member: int, attempt: int, doubts: int
    ) -> FinishedMember | NoVerdict:
        """An attempt that is cancelled at that second of the loop's clock."""
        if ends_at == float("inf"):
            return await self._attempt(group, member, attempt, doubts)
        # No `asyncio.timeout`: it would throw away a verdict that is stored already when the time is over.
        task = asyncio.create_task(self._attempt(group, member, attempt, doubts))
        try:
            await asyncio.wait([task], timeout=max(0.0, ends_at - asyncio.get_running_loop().time()))
            stage = self._in_flight.stage_of(MemberKey(group.line.index, member))
            if not task.done():
                task.cancel()
                await asyncio.wait([task], timeout=LATE_END_S)
        except asyncio.CancelledError:
            if not task.cancelling():  # a second time would break off what releases
                task.cancel()
            await asyncio.wait([task])
            raise
        if task.done() and not task.cancelled():
            return task.result()
        return self._late(group, member, attempt, stage)

    def _late(self, group: PlannedGroup, member: int, attempt: int, stage: str | None) -> NoVerdict:
        text = f"the rollout ran for more than {self._member_timeout_s:g} s (member_timeout_s)"
        failure = CancelledError(text, kind="member_timeout", stage=stage).failure()
        if group.row is None:
            return NoVerdict("cancelled", failure)
        row = _stamped(group.row, member, attempt)
        return NoVerdict("cancelled", failure, Rollout(row=row, outcome="cancelled", failure=failure))

    async def _attempt(self, group: PlannedGroup, member: int, attempt: int, doubts: int) -> FinishedMember | NoVerdict:
        if group.error is not None or group.row is None or group.agent is None:
            error = group.error or BugError(f"{group.line.where}: a row without an agent", kind="no_agent")
            return NoVerdict(error.outcome, error.failure())
        row = _stamped(group.row, member, attempt, doubts)
        try:
            rollout = await self._run(group.agent, row, MemberKey(group.line.index, member))
            price = self._settings.usd_per_million_tokens.get(group.agent.model)
            cost = None if price is None else cost_usd(rollout, price)
            if rollout.failure is not None:
                priced = rollout.model_copy(update={"cost_usd": cost})
                return NoVerdict(rollout.outcome, rollout.failure, priced)
            stored = rollout.model_copy(update={"row": row, "ended_at": time.time(), "cost_usd": cost})
            line = _line(stored)
        except PaddockError as error:
            failure = error.failure()
            return NoVerdict(error.outcome, failure, Rollout(row=row, outcome=error.outcome, failure=failure))
        result = result_of(stored, MemberKey(group.line.index, member))
        return FinishedMember(await self._sink.rollout(result, line), stored)

    async def withdraw(self, group: PlannedGroup, members: Sequence[int], attempt: int = 0) -> None:
        """Tell the environment that these members have ended, so that others of the group need not wait for them. Where
        it can't be told, its own deadline ends the waiting."""
        environment = self._peers.get(group.agent.environment) if group.agent and group.agent.group_wise else None
        if environment is None or group.row is None:
            return
        with suppress(PaddockError):
            for member in members:
                await environment.call(WITHDRAW, _stamped(group.row, member, attempt), Call().within(ANSWER_GRACE_S))

    async def _run(self, agent: Agent, row: Row, key: MemberKey) -> Rollout:
        peer = self._peers[agent.name]
        run = self._ask(peer, agent, row, key)
        apart = isinstance(peer, HttpPeer)
        return await (traced_rollout(run, agent.name, row.stamp, apart=apart) if is_on() else run)

    async def _ask(self, peer: Peer, agent: Agent, row: Row, key: MemberKey) -> Rollout:
        secret = new_secret()
        timeout_s = self._settings.rollout_timeout_s or agent.config.rollout_timeout_s
        call = Call(rollout_secret=secret).within(timeout_s)
        with self._in_flight.attempt(key, agent.name, secret) as watch:
            try:
                async with asyncio.timeout(timeout_s + ANSWER_GRACE_S):
                    if self._setup is not None:
                        await self._setup.prepare(agent, row, secret)
                    return await peer.call(RUN, row, call)
            except PaddockError as error:
                error.stage = error.stage or watch.stage
                raise
            except TimeoutError as error:
                raise InfraError(f"{agent.name}: no answer in time", kind="timeout", stage=watch.stage) from error
            except Exception as error:
                kind = type(error).__name__
                raise BugError(f"{agent.name}/run: {kind}: {error}", kind=kind, stage=watch.stage) from error


def _stamped(row: Row, member: int, attempt: int, doubts: int = 0) -> Row:
    stamp = row.stamp.model_copy(update={"member": member, "attempt": attempt, "doubts": doubts or None})
    return row.model_copy(update={"stamp": stamp})


def _line(rollout: Rollout) -> bytes:
    """The rollout as a line of `rollouts.jsonl`; BugError when it can't be written as JSON."""
    try:
        return seal(orjson.dumps(rollout.to_wire()) + b"\n")
    except TypeError as error:
        raise BugError(f"rollout can't be written as JSON: {error}", kind="rollout_unwritable") from error


def failed_attempt(group: PlannedGroup, member: int, attempt: int, failed: NoVerdict, *, final: bool) -> FailedAttempt:
    """The record of an attempt that gave no verdict."""
    rollout = failed.rollout
    measured: dict[str, Any] = {}
    if rollout is not None:
        measured = {"timing": rollout.timing, "usage": rollout.usage, "cost_usd": rollout.cost_usd}
    return FailedAttempt.model_validate(
        {
            "group_id": group.line.index,
            "member": member,
            "attempt": attempt,
            "agent": group.agent.name if group.agent else "",
            "uuid": uuid_of(group.row) if group.row else None,
            "row_name": group.row.name if group.row else None,
            "outcome": failed.outcome,
            **failed.failure.model_dump(),
            "final": final,
            "at": time.time(),
            **measured,
        }
    )


def slowest_text(reports: Iterable[RunningReport], most: int = MOST_NAMED) -> str:
    """`3-0 in model for 32 s, 5-1 in sandbox for 9 s and 2 more`: the longest first; empty: nothing runs."""
    all_reports = list(reports)
    slowest = sorted((run for report in all_reports for run in report.slowest), key=lambda run: -run.began_s)[:most]
    texts = [f"{run.key.group_id}-{run.key.member} {run.where} for {run.since_s:.0f} s" for run in slowest]
    others = sum(report.n_running for report in all_reports) - len(slowest)
    return ", ".join(texts) + (f" and {others} more" if others else "")
