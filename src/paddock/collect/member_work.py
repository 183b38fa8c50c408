"""What a worker in a process of its own does with members of a collection: a `LocalWorker` runs them, and tells."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import NoReturn

from paddock.collect.artifact_sender import ArtifactSender, artifacts_apart
from paddock.collect.attempts import RunningReport
from paddock.collect.jobs import (
    MemberJob,
    MemberSetup,
    SendMessage,
    VerdictEvent,
    WorkerMessage,
    WorkerSetup,
    failure_message,
)
from paddock.collect.plan import Plan
from paddock.collect.results import FailedAttempt, RolloutResult
from paddock.collect.workers import LocalServers, open_local_worker
from paddock.errors import InfraError
from paddock.server.runtime import Runtime


class EventSink:
    """Tells the events of one job."""

    def __init__(self, number: int, send: SendMessage, files: ArtifactSender) -> None:
        self._number = number
        self._send = send
        self._files = files

    async def rollout(self, result: RolloutResult, line: bytes) -> RolloutResult:
        await self._files.send(self._number, result, self._send)
        await self._send(VerdictEvent(result, line).to_message(self._number))
        return result

    async def failure(self, failed: FailedAttempt) -> None:
        await self._files.send(self._number, failed, self._send)
        await self._send(failure_message(self._number, failed))


class MemberRunner:
    """Runs members with the servers of this process."""

    def __init__(self, opened: LocalServers, files: ArtifactSender) -> None:
        self._files = files
        self._worker = opened.worker
        self._runtime = opened.runtime

    async def run(self, message: WorkerMessage, send: SendMessage) -> None:
        await self._worker.run(MemberJob.from_message(message), EventSink(message.head["job"], send, self._files))

    def report(self) -> RunningReport:
        return self._worker.report()

    async def failed(self) -> NoReturn:
        await raise_when_failed(self._runtime)


async def raise_when_failed(runtime: Runtime | None) -> NoReturn:
    """Raises why servers were given up, when that is so."""
    if runtime is None:
        await asyncio.Future()
        raise AssertionError("there are no servers that could fail")
    await runtime.failed.wait()
    raise runtime.failure or InfraError("its servers failed", kind="server_failed", retryable=False)


def sent_files(given: MemberSetup) -> AbstractContextManager[tuple[Plan, ArtifactSender]]:
    """The plan of what is given, and what sends the files that its agents write; here it has none to send."""
    plan = given.plan()
    return artifacts_apart(plan) if given.sends_artifacts else nullcontext((plan, ArtifactSender()))


@asynccontextmanager
async def open_members(setup: WorkerSetup) -> AsyncIterator[MemberRunner]:
    given = MemberSetup.model_validate(setup.given)
    with sent_files(given) as (plan, files):
        async with open_local_worker(plan, given.locations, setup.slots) as opened:
            yield MemberRunner(opened, files)
