"""Worker processes of the agent, as many as run samples at once.

Law     a worker has one sample at a time. One whose caller has gone or whose time is over is killed with all that it
        has started, and another takes its place; so is one that answers nonsense.
Errors  InfraError: a worker can't be started, ended, or was too slow.
"""

import asyncio
import os
import signal
import sys
from contextlib import suppress

from pydantic import ValidationError

from paddock.agents.inspect_ai.jobs import SampleJob, SampleResult
from paddock.errors import InfraError
from paddock.processes import reap

MODULE = "paddock.agents.inspect_ai.worker"
MAX_LINE_BYTES = 256 << 20


class SampleWorkers:
    """At most `count` of them, started when they are needed."""

    def __init__(self, count: int) -> None:
        self._room = asyncio.Semaphore(count)
        self._idle: list[asyncio.subprocess.Process] = []

    async def run(self, job: SampleJob, timeout_s: float | None) -> SampleResult:
        """Run a sample; `timeout_s` counts the wait for a worker too. Raises InfraError."""
        try:
            async with asyncio.timeout(timeout_s), self._room:
                return await self._run(job)
        except TimeoutError as error:
            raise InfraError("the sample's time is over (rollout_timeout_s)", kind="timeout") from error

    async def stop(self) -> None:
        while self._idle:
            await _kill(self._idle.pop())

    async def _run(self, job: SampleJob) -> SampleResult:
        worker = self._idle.pop() if self._idle else await _start()
        try:
            assert worker.stdin is not None
            assert worker.stdout is not None
            worker.stdin.write(job.model_dump_json().encode() + b"\n")
            await worker.stdin.drain()
            line = await worker.stdout.readline()
            result = SampleResult.model_validate_json(line)
        except (OSError, ValueError) as error:
            await _kill(worker)
            what = "its answer is no result" if isinstance(error, ValidationError) else str(error)
            raise InfraError(f"a worker of inspect_ai was lost: {what}", kind="inspect_lost") from error
        except BaseException:
            await _kill(worker)
            raise
        self._idle.append(worker)
        return result


async def _start() -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            MODULE,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
            limit=MAX_LINE_BYTES,
        )
    except OSError as error:
        raise InfraError(f"a worker of inspect_ai can't be started: {error}", kind="inspect_lost") from error


async def _kill(worker: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(worker.pid, signal.SIGKILL)
    await reap(worker)
