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
from functools import partial

from paddock import signals
from paddock.collect.jobs import (
    READY,
    JobRunner,
    SendMessage,
    WorkerMessage,
    WorkerSetup,
    error_message,
    running_message,
)
from paddock.collect.message_channel import MessageChannel, receive_blocking
from paddock.errors import ConfigError, PaddockError
from paddock.server.loops import exit_after, run_until_signalled
from paddock.server.repeats import log_warnings

REPORT_S = 1.0
"""Seconds between two reports of what runs, which are signs of life too."""


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
        async with setup.open() as runner:
            with suppress(ConnectionError):  # the driver is gone already: there will be no job
                await channel.send(READY)
            await _serve(runner, channel)
            exit_after(setup.stop_timeout_s)
        return 0
    except PaddockError as error:
        with suppress(ConnectionError):  # the driver is gone, and nobody asks
            await channel.send(error_message(error))
        return 2 if isinstance(error, ConfigError) else 1


async def _serve(runner: JobRunner, channel: MessageChannel) -> None:
    """Run the driver's jobs until it closes its side."""

    async def send(message: WorkerMessage) -> None:
        with suppress(ConnectionError):  # the driver is gone: the end of its messages says so
            await channel.send(message)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = {group.create_task(_report(runner, channel)), group.create_task(runner.failed())}
            jobs: dict[int, asyncio.Task[None]] = {}
            while (message := await channel.receive()) is not None:
                if (number := message.head.get("cancel")) is not None:
                    task = group.create_task(_end_job(jobs.get(number), number, send))
                else:
                    number = message.head["job"]
                    task = group.create_task(runner.run(message, send))
                    if number not in jobs:  # else it is about a job that runs
                        jobs[number] = task
                        task.add_done_callback(partial(_forget, jobs, number))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            for task in tasks:
                task.cancel()
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


def _forget(jobs: dict[int, "asyncio.Task[None]"], number: int, _ended: object) -> None:
    del jobs[number]


async def _end_job(job: "asyncio.Task[None] | None", number: int, send: SendMessage) -> None:
    if job is not None:
        job.cancel()
        await asyncio.wait([job])
    await send(WorkerMessage({"job": number, "cancelled": True}))


async def _report(runner: JobRunner, channel: MessageChannel) -> None:
    with suppress(ConnectionError):
        while True:
            await asyncio.sleep(REPORT_S)
            await channel.send(running_message(runner.report()))


if __name__ == "__main__":
    sys.exit(main())
