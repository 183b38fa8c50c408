"""Members of a trainer's groups as jobs of workers: what crosses to one, and what comes back.

Events  each failed attempt; last of all how the member ended, and its whole rollout as a line of `rollouts.jsonl`.
"""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from paddock.collect.attempts import FinishedMember, ResultSink
from paddock.collect.jobs import WorkerMessage
from paddock.collect.recovery import own_part
from paddock.collect.results import FailedAttempt, RolloutResult
from paddock.collect.worker_process import WorkerLink
from paddock.http import rollout_from_wire
from paddock.server.exact.functions import FunctionEngine
from paddock.server.exact.relay import EngineCalls, RelayMessage
from paddock.types import REWARDED


class MemberTask(NamedTuple):
    """One member that is to be run to its end."""

    text: bytes
    """Its row with all stamps of the group, as JSON."""
    row_index: int
    size: int
    member: int
    attempt: int
    """Number of its next attempt."""
    made: int = 0
    """How many of those count for `eval.max_attempts`."""
    doubts: int = 0
    """How many of those failed in doubt."""

    def to_message(self, number: int) -> WorkerMessage:
        head = {key: value for key, value in self._asdict().items() if key != "text"}
        return WorkerMessage({"job": number, **head}, self.text)

    @classmethod
    def from_message(cls, message: WorkerMessage) -> "MemberTask":
        head: dict[str, Any] = {key: value for key, value in message.head.items() if key != "job"}
        return cls(message.body, **head)

    async def deliver(self, message: WorkerMessage, sink: "MemberProgress") -> bool:
        if "failed" in message.head:
            await sink.failure(FailedAttempt.model_validate(message.head["failed"]))
            return False
        await sink.finish(RolloutResult.model_validate(message.head["finished"]), message.body)
        return True


def ending_message(number: int, result: RolloutResult, line: bytes) -> WorkerMessage:
    """`line`: of the rollout; empty: its row can't be read."""
    return WorkerMessage({"job": number, "finished": result.model_dump(exclude_defaults=True)}, line)


class MemberProgress:
    """Where a member stands: it stores the events of its jobs."""

    def __init__(self, task: MemberTask, sink: ResultSink) -> None:
        self.task = task
        """The member as it would have to be run from here on."""
        self.finished: FinishedMember | None = None
        """How it ended; None: it has not."""
        self._sink = sink
        self._began = time.monotonic()

    async def failure(self, failed: FailedAttempt) -> None:
        await self._sink.failure(failed)
        task = self.task
        self.task = task._replace(
            attempt=task.attempt + 1, made=task.made + 1, doubts=task.doubts + bool(failed.doubtful)
        )

    async def finish(self, result: RolloutResult, line: bytes) -> None:
        if result.outcome in REWARDED:
            result = await self._sink.rollout(result, line)
        rollout = rollout_from_wire(own_part(orjson.loads(line))) if line else None
        self.finished = FinishedMember(result, rollout, time.monotonic() - self._began)


class EngineTask:
    """A worker's calls of engine functions, for as long as it is there; they need no sink."""

    def __init__(self, engines: Mapping[str, FunctionEngine], link: WorkerLink) -> None:
        self._engines = engines
        self._link = link
        self._calls: EngineCalls | None = None

    def to_message(self, number: int) -> WorkerMessage:
        async def send(message: RelayMessage) -> None:
            await self._link.send(WorkerMessage({"job": number, **message.head}, message.body))

        self._calls = EngineCalls(self._engines, send)
        return WorkerMessage({"job": number, "engine": True})

    async def deliver(self, message: WorkerMessage, _sink: None) -> bool:
        if self._calls is not None:
            self._calls.take(RelayMessage(message.head, message.body))
        return False

    async def close(self) -> None:
        """The worker is gone: end its calls."""
        if self._calls is not None:
            await self._calls.close()
