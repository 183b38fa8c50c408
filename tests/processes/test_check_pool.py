"""Claims about checks in processes that may die: CPU bounds them, neighbours go on, and nothing is left behind."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from paddock.errors import InfraError, VerifierError
from paddock.processes.check_pool import CheckLimits, CheckPool, CpuTimeOverError

MODULE = """
import os, time

def warm():
    pass

def check(value):
    what, amount = value
    if what == "spin":
        end = time.process_time() + amount
        while time.process_time() < end:
            pass
    elif what == "sleep":
        time.sleep(amount)
    elif what == "memory":
        try:
            bytearray(amount << 20)
        except MemoryError:
            return "no memory"
    elif what == "exit":
        os._exit(amount)
    return os.getpid()
"""
FAILS_TO_FORK = """
fork = os.fork

def fork_if_it_may():
    if os.path.exists({may!r}):
        return fork()
    raise BlockingIOError(11, os.strerror(11))

os.fork = fork_if_it_may
"""
LIMITS = CheckLimits(processes=2, first_cpu_s=0.1, cpu_s=0.5, memory_mib=256, stalled_s=10.0, checks_per_process=50)


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "checks.py"
    path.write_text(MODULE)
    return path


@pytest.fixture
async def pool(module: Path) -> AsyncIterator[CheckPool]:
    pool = await CheckPool.start(module, LIMITS)
    yield pool
    await pool.close()


async def test_cpu_ends_a_check_and_waiting_does_not(pool: CheckPool) -> None:
    await pool.check(["sleep", 1.5])
    await pool.check(["spin", 0.3])
    with pytest.raises(CpuTimeOverError):
        await pool.check(["spin", 5.0])
    await pool.check(["spin", 0.0])


async def test_memory_is_bounded(pool: CheckPool) -> None:
    assert await pool.check(["memory", 1024]) == "no memory"


@pytest.mark.slow
async def test_checks_that_use_up_their_time_do_not_hold_up_others(pool: CheckPool) -> None:
    costly = asyncio.gather(*(pool.check(["spin", 5.0]) for _ in range(12)), return_exceptions=True)
    await asyncio.sleep(0.05)
    await asyncio.gather(*(pool.check(["spin", 0.0]) for _ in range(200)))
    assert not costly.done()
    assert all(isinstance(end, CpuTimeOverError) for end in await costly)


async def test_what_dies_by_itself_is_no_answer(pool: CheckPool) -> None:
    with pytest.raises(VerifierError, match="exit code 3"):
        await pool.check(["exit", 3])


async def test_the_process_that_forks_is_replaced_and_costs_no_check(pool: CheckPool) -> None:
    for at_work in (False, True):
        first = await pool.check(["spin", 0.0])
        waiting = asyncio.ensure_future(pool.check(["sleep", 0.5]))
        await asyncio.sleep(0.2 if at_work else 0.0)
        forker = psutil.Process(first).ppid()
        os.kill(forker, signal.SIGKILL)
        assert await waiting != first
        assert psutil.Process(await pool.check(["spin", 0.0])).ppid() != forker


async def test_the_end_of_a_pool_starts_no_process(module: Path) -> None:
    pool = await CheckPool.start(module, LIMITS)
    waiting = asyncio.ensure_future(pool.check(["sleep", 600]))
    await asyncio.sleep(0.5)
    await pool.close()
    with pytest.raises(InfraError, match="have been ended"):
        await waiting
    assert not [one for one in psutil.Process().children() if str(module) in one.cmdline()]


async def test_a_fork_that_fails_is_the_machines_failure_and_ends_nothing(tmp_path: Path) -> None:
    may = tmp_path / "may"
    module = tmp_path / "checks.py"
    module.write_text(MODULE + FAILS_TO_FORK.format(may=str(may)))
    pool = await CheckPool.start(module, LIMITS)
    try:
        with pytest.raises(InfraError, match="Resource temporarily unavailable"):
            await pool.check(["spin", 0.0])
        may.touch()
        await pool.check(["spin", 0.0])
    finally:
        await pool.close()


async def test_a_process_is_replaced_after_its_checks(pool: CheckPool) -> None:
    seen = [await pool.check(["spin", 0.0]) for _ in range(120)]
    assert len(set(seen)) == 3
    assert max(map(seen.count, set(seen))) == 50


async def test_a_cancelled_check_leaves_no_process_at_work(pool: CheckPool) -> None:
    first = await pool.check(["spin", 0.0])
    waiting = asyncio.ensure_future(pool.check(["sleep", 600]))
    await asyncio.sleep(0.2)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    for _ in range(100):
        if not psutil.pid_exists(first):
            break
        await asyncio.sleep(0.05)
    assert not psutil.pid_exists(first)


async def test_one_that_gets_no_cpu_is_the_machines_failure(module: Path) -> None:
    pool = await CheckPool.start(module, LIMITS._replace(stalled_s=0.5))
    try:
        await asyncio.sleep(0.5)
        with pytest.raises(VerifierError) as stalled:
            await pool.check(["sleep", 600])
        assert stalled.value.kind == "check_stalled"
    finally:
        await pool.close()


def test_nothing_is_left_of_a_caller_that_was_killed(module: Path) -> None:
    code = (
        "import asyncio, sys; from pathlib import Path; from paddock.processes.check_pool import *\n"
        "async def main():\n"
        "    pool = await CheckPool.start(Path(sys.argv[1]), CheckLimits(2, 9, 9, 256))\n"
        "    print(await pool.check(['spin', 0.0]), flush=True)\n"
        "    await pool.check(['spin', 8.0])\n"
        "asyncio.run(main())"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(module)], stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdout is not None
        fork = int(caller.stdout.readline())
        forker = psutil.Process(fork).ppid()
        os.kill(caller.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and any(map(psutil.pid_exists, (fork, forker))):
        time.sleep(0.05)
    assert not psutil.pid_exists(fork)
    assert not psutil.pid_exists(forker)
