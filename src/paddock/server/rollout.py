"""The run of one rollout, the same for every agent: timed stages, one outcome, the turns joined, nothing left behind.

An agent's `run` makes a `RolloutRun` and hands it a coroutine that seeds, acts and verifies, setting `response`,
`verdict` and `truncated` as it goes. Whatever it raises becomes the rollout's failure, by the error's owner; only
cancellation passes. The record at the model server is frozen, joined and forgotten in every case.
"""

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from paddock.errors import BugError, InfraError, PaddockError
from paddock.http import FORGET, TURNS, Call, Peer, new_secret
from paddock.tracing import AnySpan, is_on, span
from paddock.types import JsonObject, Rollout, Row, Timing, TurnRecord, Usage, Verdict
from paddock.types.responses import response_problem, usage_of

Stage = Literal["seed", "sandbox", "model", "tools", "verify_wait", "verify"]
POLICY_STAGES: tuple[Stage, ...] = ("sandbox", "model", "tools")
"""Stages in which the policy acts. What a verifier raises is never the policy's fault: it has decided that itself."""
TRACED_STAGES: tuple[Stage, ...] = ("seed", "sandbox", "verify")
"""Stages that are spans. In the others the calls of models and tools are."""
JOIN_TIMEOUT_S = 30.0
"""Seconds to wait for a rollout's turns; they are on the model server's disk already."""


class StageWatch:
    """The stage that a rollout is in, for one who waits for it. Times are seconds on the monotonic clock."""

    def __init__(self) -> None:
        self.stage: Stage | None = None
        """None: none has begun, or the agent is in another process."""
        self.began = self.since = time.monotonic()
        """When the watch began, and when the stage did."""

    def enter(self, stage: Stage) -> None:
        self.stage, self.since = stage, time.monotonic()


_WATCHES: dict[str, StageWatch] = {}
"""By the rollout's secret."""


@contextmanager
def watch_stage(secret: str) -> Iterator[StageWatch]:
    """Follow the rollout of that secret, where it runs in this process."""
    watch = _WATCHES[secret] = StageWatch()
    try:
        yield watch
    finally:
        del _WATCHES[secret]


class RolloutRun:
    """One rollout while it runs. Times are seconds on the monotonic clock."""

    def __init__(self, row: Row, call: Call, model: Peer, *, timeout_s: float) -> None:
        self.row = row
        self.call = call.within(timeout_s)
        self.secret = call.rollout_secret or new_secret()
        self.response: JsonObject | None = None
        self.verdict: Verdict | None = None
        self.truncated = False
        self._model = model
        self._seconds: dict[str, float] = {}
        self._started = time.monotonic()
        self._stage: Stage | None = None
        self._watch = _WATCHES.get(self.secret)
        self._record: TurnRecord | None = None

    def stage(self, stage: Stage) -> "_StageTimer":
        """Time the block, and name the stage in a failure of it."""
        self._stage = stage
        if self._watch is not None:
            self._watch.enter(stage)
        stage_span = span(stage) if is_on() and stage in TRACED_STAGES else None
        return _StageTimer(self._seconds, f"{stage}_s", stage_span)

    def shift(self, seconds: float, source: Stage, target: Stage) -> None:
        """Count seconds of the stage `source` as those of `target`, on whose behalf it took them."""
        for stage, change in ((source, -seconds), (target, seconds)):
            self._seconds[f"{stage}_s"] = max(0.0, self._seconds.get(f"{stage}_s", 0.0) + change)

    async def execute(self, body: Callable[["RolloutRun"], Awaitable[None]]) -> Rollout:
        try:
            await body(self)
            self._record = await self._model.call(TURNS, {}, self._closing_call(), secret=self.secret)
            if self.verdict is None:
                raise BugError("the agent ended without a verdict", kind="no_verdict")
            return self._rollout()
        except PaddockError as error:
            error.stage = error.stage or self._stage
            return await self._failed_rollout(error)
        except Exception as error:  # noqa: BLE001 - a rollout's failure is data; an unowned one is our bug
            bug = BugError(f"{type(error).__name__}: {error}", kind=type(error).__name__, stage=self._stage)
            return await self._failed_rollout(bug)
        finally:
            await self._forget()

    def _closing_call(self) -> Call:
        return Call(self.call.request_id, time.monotonic() + JOIN_TIMEOUT_S)

    async def _failed_rollout(self, error: PaddockError) -> Rollout:
        if self._record is None:
            try:
                self._record = await self._model.call(TURNS, {}, self._closing_call(), secret=self.secret)
            except PaddockError:
                self._record = None  # the model server may be what failed; the failure says so
        return self._rollout(error)

    async def _forget(self) -> None:
        try:
            await self._model.call(FORGET, {}, self._closing_call(), secret=self.secret)
        except PaddockError:
            return  # the store forgets by age what it is not told to forget

    def _rollout(self, error: PaddockError | None = None) -> Rollout:
        record = self._record
        turns = record.turns if record else []
        doubtful = isinstance(error, InfraError) and error.doubtful and self._stage in POLICY_STAGES
        usage = sum((turn.usage for turn in turns if turn.usage), Usage())
        return Rollout(
            row=self.row,
            outcome=error.outcome if error else "truncated" if self.truncated else "completed",
            response=self.response,
            engine=record.engine if record else None,
            turns=turns,
            verdict=None if error else self.verdict,
            failure=error.failure().model_copy(update={"doubtful": doubtful}) if error else None,
            timing=Timing(**self._seconds, total_s=time.monotonic() - self._started),
            usage=usage if turns else usage_of(self.response),
        )


class _StageTimer:
    """Adds the seconds of its block to an entry."""

    __slots__ = ("_key", "_seconds", "_span", "_started")

    def __init__(self, seconds: dict[str, float], key: str, span: AnySpan | None) -> None:
        self._seconds = seconds
        self._key = key
        self._span = span

    def __enter__(self) -> None:
        self._started = time.monotonic()
        if self._span is not None:
            self._span.__enter__()

    def __exit__(self, *raised: Any) -> None:
        if self._span is not None:
            self._span.__exit__(*raised)
        self._seconds[self._key] = self._seconds.get(self._key, 0.0) + time.monotonic() - self._started


def require_answer(response: JsonObject) -> JsonObject:
    """The response, unless its engine says that it failed, or it is none: that is the machine's, not the policy's."""
    if response.get("status") == "failed" or response.get("error"):
        raise InfraError(f"model answered with an error: {str(response.get('error'))[:300]}", kind="model_failed")
    problem = response_problem(response)
    if problem is not None:
        raise InfraError(f"model answered with no response: {problem}", kind="model_unreadable")
    return response
