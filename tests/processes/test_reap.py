"""Claims about processes of asyncio's that were killed."""

import asyncio
import signal
import sys

import pytest

from paddock.processes import reap

SLEEPER = (sys.executable, "-c", "import time; time.sleep(600)")


async def killed() -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*SLEEPER, stdin=pipe, stdout=pipe)
    process.kill()
    return process


async def test_one_is_collected_though_who_waits_is_cancelled() -> None:
    process = await killed()
    waiting = asyncio.create_task(reap(process))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert process.returncode == -signal.SIGKILL


async def test_one_that_was_collected_is_no_harm() -> None:
    process = await killed()
    await process.wait()
    await reap(process)
    await reap(process)
    assert process.returncode == -signal.SIGKILL
