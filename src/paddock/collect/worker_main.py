"""`python -m paddock.collect.worker_main`: a worker in a process of its own. Started by `worker_process`.

Channel its standard output, a socket pair; what it or a plugin prints goes to standard error.
Law     it ends when the driver closes its side or dies, within `stop_timeout_s`; what it started ends with it, for the
        supervisor stands over it.
Exit    0 told to stop; 2 the config is wrong; 1 it can't start, its servers were given up, or a fault of ours.
"""

import asyncio
import logging
import os
import socket
import sys
from contextlib import suppress

from paddock import signals
from paddock.collect.jobs import (
    READY,
    MemberJob,
    VerdictEvent,
    WorkerMessage,
    WorkerSetup,
    error_message,
    failure_message,
    running_message,
)
from paddock.collect.message_channel import MessageChannel, receive_blocking
from paddock.collect.results import FailedAttempt, RolloutResult
from paddock.collect.workers import LocalServers, open_local_worker
from paddock.errors import ConfigError, InfraError, PaddockError
from paddock.server.loops import exit_after, run_until_signalled
from paddock.server.repeats import log_warnings
from paddock.server.running_servers import Runtime

REPORT_S = 1.0
"""Seconds between two reports of what runs, which are signs of life too."""


class EventSink:
    """Sends the events of one job."""

    def __init__(self, number: int, channel: MessageChannel) -> None:
        self._number = number
        self._channel = channel

    async def rollout(self, result: RolloutResult, line: bytes) -> RolloutResult:
        await self._send(VerdictEvent(result, line).to_message(self._number))
        return result

    async def failure(self, failed: FailedAttempt) -> None:
        await self._send(failure_message(self._number, failed))

    async def _send(self, message: WorkerMessage) -> None:
        with suppress(ConnectionError):  # the driver is gone: the end of its messages says so
            await self._channel.send(message)


def main() -> int:
    signals.end_by_interrupt()
    sock = _take_channel()
    first = receive_blocking(sock)
    if first is None:
        return 1
    setup = WorkerSetup.model_validate(first.head)
    os.environ.update(setup.env)
    sys.path += [entry for entry in setup.path if entry not in sys.path]
    log_warnings()
    logging.getLogger("paddock.progress").setLevel(logging.INFO)
    return run_until_signalled(_work(setup, sock), stop_timeout_s=setup.stop_timeout_s)


def _take_channel() -> socket.socket:
    """The socket off standard output, so that nothing that is started inherits it."""
    sock = socket.socket(fileno=os.dup(1))
    os.dup2(2, 1)
    return sock


async def _work(setup: WorkerSetup, sock: socket.socket) -> int:
    channel = await MessageChannel.over(sock)
    try:
        async with open_local_worker(setup.plan(), setup.locations, setup.slots) as opened:
            await channel.send(READY)
            await _serve(opened, channel)
            exit_after(setup.stop_timeout_s)
        return 0
    except PaddockError as error:
        with suppress(ConnectionError):  # the driver is gone, and nobody asks
            await channel.send(error_message(error))
        return 2 if isinstance(error, ConfigError) else 1


async def _serve(opened: LocalServers, channel: MessageChannel) -> None:
    """Run the driver's jobs until it closes its side."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = {group.create_task(_report(opened, channel))}
            if opened.runtime is not None:
                tasks.add(group.create_task(_watch(opened.runtime)))
            while (message := await channel.receive()) is not None:
                sink = EventSink(message.head["job"], channel)
                task = group.create_task(opened.worker.run(MemberJob.from_message(message), sink))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            for task in tasks:
                task.cancel()
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def _report(opened: LocalServers, channel: MessageChannel) -> None:
    with suppress(ConnectionError):
        while True:
            await asyncio.sleep(REPORT_S)
            await channel.send(running_message(opened.worker.report()))


async def _watch(runtime: Runtime) -> None:
    await runtime.failed.wait()
    raise runtime.failure or InfraError("its servers failed", kind="server_failed", retryable=False)


if __name__ == "__main__":
    sys.exit(main())
