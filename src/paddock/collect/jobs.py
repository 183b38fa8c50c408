"""What a driver and its workers tell each other, whatever carries it: a pipe to a process, or calls of an actor.

Driver  a `WorkerSetup`, once, which names what the worker does; then jobs, each with a number of the driver's choice,
        what it adds to one that runs, under its number, and `cancel` with a number: the answer is `cancelled`.
Worker  `ready` or an `error`, once; then events of jobs, by their number, until one ends the job. Between them, what
        runs the longest (`RunningReport`), which is a sign of life, too.
Kinds   members of a collection (`MemberJob`): `FailedAttempt`s and at most one verdict; a verdict or a final failure
        ends the job. Before each, where they are sent, pieces of files that came of the attempt (`artifact_sender`).
        Independent items: see `items`.
Law     a message is a JSON object and bytes, which are no part of the JSON: rows and lines are passed on as they are.
        Secrets travel here alone; the config is as it was composed: a worker reads the environment itself.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol, TypeVar

from pydantic import Field

from paddock.collect.attempts import RunningReport
from paddock.collect.identity import RunIdentity
from paddock.collect.locations import ServerLocations
from paddock.collect.plan import Plan
from paddock.collect.results import FailedAttempt, MemberKey, RolloutResult
from paddock.collect.routing import Router
from paddock.collect.row_prompt import RowPrompt
from paddock.collect.rows import RowFileLine, RowSource
from paddock.collect.settings import EvalSettings, Selection
from paddock.config import Config
from paddock.errors import PaddockError
from paddock.server.handover import Status
from paddock.types import JsonObject, Record

if TYPE_CHECKING:
    from paddock.collect.attempts import ResultSink


class WorkerMessage(NamedTuple):
    """One message."""

    head: JsonObject
    body: bytes = b""


SendMessage = Callable[[WorkerMessage], Awaitable[None]]
"""Tells the driver; where that is gone, nobody hears it."""


class JobRunner(Protocol):
    """What a worker does with its jobs."""

    async def run(self, message: WorkerMessage, send: SendMessage) -> None:
        """Run a job to its end, and send its events, each with the job's number; or take what the driver adds to one.
        What it raises ends the worker. Cancelled: the job ends, and nothing more is said of it."""
        ...

    def report(self) -> RunningReport: ...

    async def failed(self) -> NoReturn:
        """Raises why no job can be run any more, when that is so."""
        ...


class WorkerSetup(Record):
    """Everything that a worker is given before its first job."""

    opens: str
    """`module:function` of what it does: the function gets this setup, and gives a block whose value runs the jobs."""
    given: JsonObject = Field(repr=False)
    """What that function needs to know."""
    slots: int
    """Jobs that it has at a time."""
    env: dict[str, str] = Field(default={}, repr=False)
    """Variables that it needs, where it does not have them from its driver."""
    path: list[str]
    """Of the driver's `sys.path`: the same plugins are found."""
    silence_s: float
    """Seconds without a sign of it, which it gives each second; then it is ended."""
    stop_timeout_s: float
    """Seconds that what it started may take to stop."""

    def open(self) -> "AbstractAsyncContextManager[JobRunner]":
        function: Callable[[WorkerSetup], AbstractAsyncContextManager[JobRunner]] = resolve_name(self.opens)
        return function(self)

    def to_message(self) -> WorkerMessage:
        return WorkerMessage(self.model_dump(mode="json"))


SinkT = TypeVar("SinkT", contravariant=True)


class Job(Protocol[SinkT]):
    """A job as its driver has it; `SinkT`: what gets its events."""

    def to_message(self, number: int) -> WorkerMessage: ...

    async def deliver(self, message: WorkerMessage, sink: SinkT) -> bool:
        """Give the sink an event; True: it was the last."""
        ...


class MemberSetup(Record):
    """What a worker is given for members of a collection."""

    config: str = Field(repr=False)
    """The composed config, unresolved."""
    settings: EvalSettings
    identity: RunIdentity
    starts: bool
    """It starts the servers that have no URL."""
    urls: dict[str, str]
    """Where servers run that it does not start, by name."""
    token: str | None = Field(default=None, repr=False)
    """What those servers ask for."""
    sends_artifacts: bool = False
    """What its agents write beside their rollouts is sent; else it stays where they write it."""

    def plan(self) -> Plan:
        """The plan of the run, without row files: rows come as jobs."""
        config = Config.from_yaml(self.config)
        router = Router(config, default=self.settings.agent)
        return Plan(config, self.settings, router, [], Selection(), self.identity)

    @property
    def locations(self) -> ServerLocations:
        return ServerLocations(start=self.starts, urls=self.urls, token=self.token)


class MemberJob(NamedTuple):
    """One member that is to be run to its end."""

    line: RowFileLine
    member: int
    attempt: int = 0
    """Number of its next attempt: how many there were, of all commands."""
    made: int = 0
    """How many of those this command made."""
    doubts: int = 0
    """How many of those failed in doubt."""
    ended: Sequence[int] = ()
    """Members of its group that ended elsewhere; only the first job of a group on a worker has them."""

    @property
    def key(self) -> MemberKey:
        return MemberKey(self.line.index, self.member)

    @property
    def group_size(self) -> int:
        return self.line.source.repeats

    def to_message(self, number: int) -> WorkerMessage:
        line = self.line
        prompt = list(line.source.prompt) if line.source.prompt else None
        source = {**line.source._asdict(), "path": str(line.source.path), "prompt": prompt}
        head = {
            "job": number,
            "line": {"index": line.index, "number": line.number},
            "source": source,
            "member": self.member,
            "attempt": self.attempt,
            "made": self.made,
            "doubts": self.doubts,
            "ended": list(self.ended),
        }
        return WorkerMessage(head, line.text)

    @classmethod
    def from_message(cls, message: WorkerMessage) -> "MemberJob":
        head: dict[str, Any] = dict(message.head)
        source = head.pop("source")
        prompt = RowPrompt(*source["prompt"]) if source["prompt"] else None
        row_source = RowSource(Path(source["path"]), source["repeats"], source["agent"], prompt)
        line = RowFileLine(source=row_source, text=message.body, **head.pop("line"))
        del head["job"]
        return cls(line, **head)

    async def deliver(self, message: WorkerMessage, sink: "ResultSink") -> bool:
        event = read_event(message)
        if isinstance(event, FailedAttempt):
            await sink.failure(event)
            return event.final
        await sink.rollout(event.result, event.line)
        return True


class VerdictEvent(NamedTuple):
    """A rollout with a verdict, and its line in `rollouts.jsonl`."""

    result: RolloutResult
    line: bytes

    def to_message(self, number: int) -> WorkerMessage:
        return WorkerMessage({"job": number, "result": self.result.model_dump(exclude_defaults=True)}, self.line)


def failure_message(number: int, failed: FailedAttempt) -> WorkerMessage:
    return WorkerMessage({"job": number, "failed": failed.model_dump(exclude_defaults=True)})


def read_event(message: WorkerMessage) -> VerdictEvent | FailedAttempt:
    """The event of a message about a job."""
    if "failed" in message.head:
        return FailedAttempt.model_validate(message.head["failed"])
    return VerdictEvent(RolloutResult.model_validate(message.head["result"]), message.body)


def running_message(report: RunningReport) -> WorkerMessage:
    return WorkerMessage({"running": report.model_dump()})


READY = WorkerMessage({"status": Status(event="ready").model_dump()})


def error_message(error: PaddockError) -> WorkerMessage:
    return WorkerMessage({"status": Status.of(error).model_dump()})


def read_status(message: WorkerMessage, name: str) -> None:
    """Raises the error that a worker tells in place of `ready`; `name`: the worker's."""
    status = Status.model_validate(message.head["status"])
    if status.error is not None:
        raise status.to_error(name)
