"""A worker in a process of its own, as its driver sees it: started, given jobs, heard, and gone with all it started.

Link    what carries its messages: a socket pair to a child (`ProcessLink`), or an actor on another node (`ray_worker`).
Law     it is lost only when nothing of it runs any more, as far as that can be known, and after all that it said was
        heard: nothing that it says later counts. However the driver ends, its workers end
        (`paddock.processes.supervised`).
Errors  what a worker says against its start; InfraError where it ends or says nothing.
"""

import asyncio
import itertools
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol

from paddock.collect.artifact_receiver import ArtifactReceiver
from paddock.collect.attempts import RunningReport
from paddock.collect.jobs import Job, SinkT, WorkerMessage, WorkerSetup, read_status
from paddock.collect.message_channel import MessageChannel
from paddock.collect.workers import WorkerLostError
from paddock.errors import InfraError
from paddock.processes import Supervised, exit_in_words, start_supervised
from paddock.signals import hold_interrupts

CHILD_DIED = "child_died"
CLOSE_S = 1.0
"""Seconds beyond its servers' time to stop in which it ends in order."""


class WorkerLink(Protocol):
    """The way to a worker process."""

    where: str | None
    """The node that it is on; None: this machine."""

    async def send(self, message: WorkerMessage) -> None:
        """ConnectionError: it is gone."""
        ...

    async def receive(self) -> WorkerMessage | None:
        """Its next message; None: it is gone."""
        ...

    async def end(self, grace_s: float = 0.0) -> str:
        """Have it end, by force after `grace_s`; returns how it ended, in words, when nothing of it is left. Cancelled:
        it ends all the same. Idempotent."""
        ...


class ProcessLink:
    """The link to a child process on this machine."""

    where: str | None = None

    def __init__(self, channel: MessageChannel, child: Supervised) -> None:
        self._channel = channel
        self._child = child
        self.send = channel.send
        self.receive = channel.receive

    @classmethod
    async def open(cls, name: str, setup: WorkerSetup) -> "ProcessLink":
        """Start a child, which waits for its setup."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                child = _spawn(name, theirs, setup.stop_timeout_s + CLOSE_S)
            except BaseException:
                ours.close()
                raise
        try:
            return cls(await MessageChannel.over(ours), child)
        except BaseException:
            ours.close()
            await child.end()
            raise

    @property
    def pid(self) -> int:
        """The supervisor's, which leads its group."""
        return self._child.pid

    async def end(self, grace_s: float = 0.0) -> str:
        self._channel.close()
        try:
            if grace_s:
                await self._child.wait_or_kill(grace_s)
        finally:
            await self._child.end()
        code = self._child.exited.result()
        return exit_in_words(code if code < 128 else 128 - code)


OpenLink = Callable[[str, WorkerSetup], Awaitable[WorkerLink]]
"""Starts a worker process of a name, which waits for its setup; it has its own bound of time."""


class LinkedWorker:
    """One worker process. Made by `start`."""

    def __init__(self, name: str, setup: WorkerSetup, link: WorkerLink, files: ArtifactReceiver) -> None:
        self.name = name
        self._files = files
        self.slots = setup.slots
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._setup = setup
        self.link = link
        self._numbers = itertools.count()
        self._events: dict[int, asyncio.Queue[WorkerMessage | None]] = {}
        self._report = RunningReport()
        self._reported_at = time.monotonic()
        self._listening: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        name: str,
        setup: WorkerSetup,
        open_link: OpenLink,
        *,
        start_timeout_s: float,
        artifact_roots: Mapping[str, Path] = {},
    ) -> "LinkedWorker":
        """Start it: it takes jobs when this returns, and is gone when it raises. `artifact_roots`: where files go that
        its agents write beside their rollouts, where it sends them."""
        worker = cls(name, setup, await open_link(name, setup), ArtifactReceiver(artifact_roots))
        try:
            async with asyncio.timeout(start_timeout_s):
                await worker._prepare()
        except TimeoutError as error:
            await worker.close()
            text = f"{name}: not ready within {start_timeout_s:g} s"
            raise InfraError(text, kind="start_timeout", retryable=False) from error
        except BaseException:
            await worker.close()
            raise
        return worker

    def report(self) -> RunningReport:
        if self.lost.done():
            return RunningReport()
        return self._report.later(time.monotonic() - self._reported_at)

    async def run(self, job: Job[SinkT], sink: SinkT) -> None:
        """Run a job to its end: the sink has all its events. WorkerLostError: the last did not come. Cancelled: the
        worker ends it, which is waited for as long as what it holds may take to stop."""
        if self.lost.done():
            raise WorkerLostError(self.lost.result())
        number = next(self._numbers)
        events = self._events[number] = asyncio.Queue()
        try:
            with suppress(ConnectionError):  # its end is told by `_listen`
                await self.link.send(job.to_message(number))
            while (message := await events.get()) is not None:
                if await job.deliver(message, sink):
                    return
            raise WorkerLostError(self.lost.result())
        except asyncio.CancelledError:
            await self._cancel(number, events)
            raise
        finally:
            del self._events[number]

    async def close(self) -> None:
        """Have it end, and wait until nothing of it is left. Cancelled: it ends all the same."""
        if self._listening is not None:
            self._listening.cancel()
        try:
            await self.link.end(self._setup.stop_timeout_s + CLOSE_S)
        finally:
            await self._files.close()

    async def _cancel(self, number: int, events: "asyncio.Queue[WorkerMessage | None]") -> None:
        with suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(self._setup.stop_timeout_s):
                await self.link.send(WorkerMessage({"cancel": number}))
                while (message := await events.get()) is not None and "cancelled" not in message.head:
                    pass

    async def _prepare(self) -> None:
        with suppress(ConnectionError):  # the answer is missing, too
            await self.link.send(self._setup.to_message())
        answer = await self.link.receive()
        if answer is None:
            how = await self.link.end()
            raise InfraError(f"{self.name}: {how} while starting", kind=CHILD_DIED, retryable=False)
        read_status(answer, self.name)
        self._listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        """Pass on what it says until it is gone."""
        why = ""
        try:
            async with asyncio.timeout(self._setup.silence_s) as limit:
                while (message := await self.link.receive()) is not None:
                    if "status" in message.head:
                        why = f"ended: {message.head['status']['error']['error']['message']}"
                        break
                    if "running" in message.head:
                        self._reported_at = time.monotonic()
                        self._report = RunningReport.model_validate(message.head["running"])
                        limit.reschedule(asyncio.get_running_loop().time() + self._setup.silence_s)
                    else:
                        await self._pass_on(message)
        except TimeoutError:
            why = f"gave no sign for {self._setup.silence_s:g} s"
        how = await self.link.end()
        await self._files.close()
        self.lost.set_result(why or how)
        for events in self._events.values():
            events.put_nowait(None)

    async def _pass_on(self, message: WorkerMessage) -> None:
        """Give a job its event, and its files to where they belong."""
        number = message.head["job"]
        events = self._events.get(number)
        if events is None:
            return
        if "file" in message.head:
            await self._files.take(message)
            return
        if "cancelled" in message.head:
            await self._files.drop(number)
        else:
            await self._files.keep(number)
        events.put_nowait(message)


class LinkedPlace:
    """Where one worker process is, and its successors."""

    def __init__(
        self,
        name: str,
        setup: WorkerSetup,
        open_link: OpenLink,
        *,
        start_timeout_s: float,
        artifact_roots: Mapping[str, Path] = {},
    ) -> None:
        self._name = name
        self._open_link = open_link
        self._setup = setup
        self._start_timeout_s = start_timeout_s
        self._artifact_roots = artifact_roots
        self._is_starting = False
        self._worker: LinkedWorker | None = None

    async def worker(self) -> LinkedWorker:
        if self._worker is None or self._worker.lost.done():
            self._worker = None
            try:
                self._worker = await LinkedWorker.start(
                    self._name,
                    self._setup,
                    self._open,
                    start_timeout_s=self._start_timeout_s,
                    artifact_roots=self._artifact_roots,
                )
            finally:
                self._is_starting = False
        return self._worker

    @property
    def is_taken(self) -> bool:
        """A worker is there, or starts there."""
        return self._is_starting or (self._worker is not None and not self._worker.lost.done())

    async def _open(self, name: str, setup: WorkerSetup) -> WorkerLink:
        link = await self._open_link(name, setup)
        self._is_starting = True
        return link

    def report(self) -> RunningReport:
        return self._worker.report() if self._worker is not None else RunningReport()

    async def close(self) -> None:
        if self._worker is not None:
            await self._worker.close()


async def start_all(places: Sequence[LinkedPlace]) -> None:
    """Start a worker at each place; the first error ends the start of the others."""
    try:
        async with asyncio.TaskGroup() as group:
            for place in places:
                group.create_task(place.worker())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def close_all(places: Sequence[LinkedPlace]) -> None:
    await asyncio.gather(*(place.close() for place in places))


def _spawn(name: str, channel: socket.socket, grace_s: float) -> Supervised:
    scratch = tempfile.mkdtemp(prefix="paddock-")
    # -P: the working directory comes first on the path only where the driver's own path, handed over, says so.
    argv = [sys.executable, "-P", "-m", "paddock.collect.worker_main"]
    with hold_interrupts():
        started = start_supervised(
            argv, scratch=scratch, grace_s=grace_s, stdout=channel.fileno(), stderr=2, env=os.environ
        )
    at_end = partial(shutil.rmtree, scratch, ignore_errors=True)
    return Supervised(started, name=f"{name}-exit", grace_s=grace_s, at_end=at_end)
