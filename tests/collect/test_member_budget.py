"""Claims about the budget of a member: whatever its last attempt does as the time ends, it ends once, in one way."""

import asyncio
from collections.abc import Callable
from typing import Any, Literal

import pytest

from paddock.collect import Plan
from paddock.collect.attempts import LATE_END_S, Attempts, FinishedMember
from paddock.collect.results import FailedAttempt, RolloutResult
from paddock.errors import InfraError
from paddock.http import Peer
from paddock.training.grpo.testing import now, virtually
from paddock.types import Rollout, Verdict

BUDGET_S = 10.0
RELEASE_S = 5.0
AtCancel = Literal["ends", "releases", "is_deaf", "gives_a_verdict", "fails"]


class TimedPeer:
    """An agent whose attempts take seconds of a virtual loop."""

    name = "agent"

    def __init__(self, *seconds: float, at_cancel: AtCancel = "ends", fails: bool = False) -> None:
        """`seconds`: of each attempt in turn. `fails`: they end as failures of the machine."""
        self._seconds = list(seconds)
        self._at_cancel = at_cancel
        self._fails = fails
        self.released_s: float | None = None

    async def call(self, route: Any, request: Any, call: Any, **path: str) -> Any:
        try:
            await asyncio.sleep(self._seconds.pop(0))
        except asyncio.CancelledError:
            if self._at_cancel == "releases":
                await asyncio.sleep(RELEASE_S)
                self.released_s = now()
            if self._at_cancel in ("ends", "releases"):
                raise
            if self._at_cancel == "fails":
                raise InfraError("it broke as it ended", kind="scripted") from None
            if self._at_cancel == "is_deaf":
                await asyncio.sleep(1e6)
        if self._fails:
            raise InfraError("the machine's", kind="scripted")
        return Rollout(row=request, outcome="completed", verdict=Verdict(reward=1.0, reason="right"))


class RecordingSink:
    """What was stored."""

    def __init__(self) -> None:
        self.rollouts: list[RolloutResult] = []
        self.failures: list[FailedAttempt] = []

    async def rollout(self, result: RolloutResult, line: bytes) -> RolloutResult:
        await asyncio.sleep(0)
        self.rollouts.append(result)
        return result

    async def failure(self, failed: FailedAttempt) -> None:
        self.failures.append(failed)


MakeCase = Callable[..., Plan]


def end(plan: Plan, peer: TimedPeer) -> tuple[FinishedMember, RecordingSink, float]:
    """The member, what was stored of it, and the second at which it ended."""
    sink = RecordingSink()
    [group] = plan.groups()
    settings = plan.settings.model_copy(update={"rollout_timeout_s": 1e9, "retry_wait_s": 1.0})

    async def run() -> tuple[FinishedMember, RecordingSink, float]:
        peers: dict[str, Peer] = {"agent": peer}
        attempts = Attempts(peers, sink, settings, member_timeout_s=BUDGET_S)
        return await attempts.run_member(group, 0, 0), sink, now()

    return virtually(run())


@pytest.mark.parametrize("seconds", [0.0, BUDGET_S - 1e-9, BUDGET_S, BUDGET_S + 1e-9, 1e6])
def test_a_verdict_is_stored_and_counted_or_neither(make_case: MakeCase, seconds: float) -> None:
    finished, sink, at_s = end(make_case(1), TimedPeer(seconds))
    outcomes = [result.outcome for result in sink.rollouts], [failed.kind for failed in sink.failures]
    is_late = finished.result.outcome == "cancelled"
    assert outcomes == (([], ["member_timeout"]) if is_late else (["completed"], []))
    if seconds != BUDGET_S:
        assert is_late == (seconds > BUDGET_S)
    assert at_s <= BUDGET_S


@pytest.mark.parametrize(
    ("at_cancel", "outcome", "ended_s"),
    [
        ("ends", "cancelled", BUDGET_S),
        ("is_deaf", "cancelled", BUDGET_S + LATE_END_S),
        ("gives_a_verdict", "completed", BUDGET_S),
        ("fails", "infra", BUDGET_S),
    ],
)
def test_however_it_ends_its_group_does_not_wait_for_ever(
    make_case: MakeCase, at_cancel: AtCancel, outcome: str, ended_s: float
) -> None:
    finished, sink, at_s = end(make_case(1, max_attempts=1), TimedPeer(1e5, at_cancel=at_cancel))
    assert (finished.result.outcome, at_s) == (outcome, ended_s)
    assert len(sink.rollouts) + len(sink.failures) == 1


def test_attempts_share_the_budget(make_case: MakeCase) -> None:
    finished, sink, at_s = end(make_case(1, max_attempts=9), TimedPeer(4.0, 1e6, fails=True))
    assert [(failed.attempt, failed.kind) for failed in sink.failures] == [(0, "scripted"), (1, "member_timeout")]
    assert (finished.result.attempt, at_s) == (1, BUDGET_S)
    finished, sink, at_s = end(make_case(1, max_attempts=9), TimedPeer(9.5, fails=True))
    assert [(failed.kind, failed.final) for failed in sink.failures] == [("scripted", True)]
    assert (finished.result.outcome, at_s) == ("infra", 9.5), "no attempt begins after it"


@pytest.mark.parametrize("cancelled_s", [BUDGET_S - 1, BUDGET_S + 1])
def test_one_that_is_cancelled_ends_when_what_it_held_is_released(make_case: MakeCase, cancelled_s: float) -> None:
    """By its group, before its budget is over or while it ends for that."""
    plan, peer = make_case(1), TimedPeer(1e5, at_cancel="releases")
    [group] = plan.groups()
    settings = plan.settings.model_copy(update={"rollout_timeout_s": 1e9})

    async def run() -> float:
        attempts = Attempts({"agent": peer}, RecordingSink(), settings, member_timeout_s=BUDGET_S)
        member = asyncio.ensure_future(attempts.run_member(group, 0, 0))
        await asyncio.sleep(cancelled_s)
        member.cancel()
        with pytest.raises(asyncio.CancelledError):
            await member
        return now()

    released_s = min(cancelled_s, BUDGET_S) + RELEASE_S
    assert (virtually(run()), peer.released_s) == (released_s, released_s)
