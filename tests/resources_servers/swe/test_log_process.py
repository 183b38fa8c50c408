"""Claims about reading long logs: it holds up nobody, ends in its time, and leaves no process.

`ENDLESS` takes Django's parser hours, in one search that no other thread of its interpreter runs beside.
"""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from paddock.errors import VerifierError
from paddock.resources_servers.swe import official, swebench_logs
from paddock.resources_servers.swe.grading import log_process
from paddock.resources_servers.swe.grading.log_process import SHORT_CHARS, TooSlowError, run_in_process
from paddock.resources_servers.swe.swebench_logs import ExpectedTests
from paddock.types import JsonObject

ENDLESS = "a ... Testing against Django installed in x\n" * 100_000
WHATEVER_S = 120.0


@pytest.mark.slow
async def test_an_endless_log_ends_in_its_time_and_others_run_meanwhile() -> None:
    turns, over = 0, asyncio.Event()

    async def others() -> None:
        nonlocal turns
        while not over.is_set():
            turns += 1
            await asyncio.sleep(0.01)

    beside = asyncio.create_task(others())
    with pytest.raises(TooSlowError):
        await run_in_process(swebench_logs.parse, "parse_log_django", ENDLESS, chars=len(ENDLESS), cpu_s=1)
    over.set()
    await beside
    assert turns > 10
    assert not _readers()


async def test_who_is_cancelled_leaves_no_process() -> None:
    work = run_in_process(swebench_logs.parse, "parse_log_django", ENDLESS, chars=len(ENDLESS), cpu_s=WHATEVER_S)
    task = asyncio.create_task(work)
    while not _readers():
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not _readers()


@pytest.mark.slow
def test_a_process_that_nobody_waits_for_ends_by_itself() -> None:
    call = json.dumps({"call": "parse", "args": ["parse_log_django", ENDLESS], "cpu_s": 0.5}).encode()
    done = subprocess.run([sys.executable, "-P", log_process.PROGRAM], input=call, capture_output=True, check=False)
    assert done.returncode == -signal.SIGXCPU


EXPECTED = ExpectedTests("a-1", "parse_log_pytest", "pass_and_fail", ["a::b"], [])
LOG = "PASSED a::b\nFAILED c::d \u20ac\n"


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (swebench_logs.parse, ("parse_log_pytest", LOG)),
        (swebench_logs.status_map, (EXPECTED, official.whole_log(LOG, 1))),
        (swebench_logs.statuses, (EXPECTED, official.whole_log(LOG, 1), LOG)),
        (swebench_logs.statuses, (EXPECTED, "no log", LOG)),
    ],
)
async def test_a_process_makes_the_same_of_a_log_as_a_thread(function: Callable[..., Any], args: tuple[Any]) -> None:
    here = await run_in_process(function, *args, chars=1, cpu_s=WHATEVER_S)
    there = await run_in_process(function, *args, chars=SHORT_CHARS + 1, cpu_s=WHATEVER_S)
    assert here
    assert there == (list(here) if isinstance(here, tuple) else here)


@pytest.mark.slow
async def test_a_process_that_is_stopped_is_no_verdict() -> None:
    work = run_in_process(swebench_logs.parse, "parse_log_django", ENDLESS, chars=len(ENDLESS), cpu_s=0.1)
    task = asyncio.create_task(work)
    while not (found := _readers()):
        await asyncio.sleep(0.001)
    found[0].suspend()
    with pytest.raises(VerifierError, match="no log was read in 2 s"):
        await task
    assert not _readers()


async def test_a_machine_without_memory_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(_log: str, _spec: None) -> None:
        raise MemoryError

    monkeypatch.setitem(swebench_logs.parsers(), "parse_log_pytest", lacking)
    with pytest.raises(MemoryError):
        await run_in_process(swebench_logs.parse, "parse_log_pytest", LOG, chars=1, cpu_s=WHATEVER_S)


async def test_a_process_that_ends_otherwise_is_no_verdict() -> None:
    with pytest.raises(VerifierError, match="ended with 1"):
        await run_in_process(official.judge, EXPECTED, {}, chars=SHORT_CHARS + 1, cpu_s=WHATEVER_S)


def test_a_disk_that_is_full_is_said_in_one_line() -> None:
    """A file of no byte may be written, as on such a disk."""
    call = json.dumps({"call": "status_map", "args": [EXPECTED, official.whole_log(LOG, 1)], "cpu_s": 9}).encode()
    words = [sys.executable, "-P", log_process.PROGRAM]
    full = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *words]
    done = subprocess.run(full, input=call, capture_output=True, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.decode().splitlines()
    assert "Error: [Errno" in line


NOISY = (
    "import unittest\n\nimport shapes\n\n\nclass Tests(unittest.TestCase):\n"
    "    def test_area(self):\n        self.assertEqual(shapes.area(2, 3), 6)\n"
)
RUNNER = "import sys, unittest\nsys.path[:0] = ['.', 'tests']\nunittest.main(None, argv=['x', '-v', *sys.argv[3:]])\n"
PRINTS = "import sys\nsys.stderr.write({text} * {times})\n\n\ndef area(width, height):\n    return width + height\n"


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(
    ("text", "times", "reason"),
    [
        pytest.param("a ... Testing against Django installed in x\n", 20_000, "over_budget", marks=pytest.mark.long),
        ("FAIL:\n", 1, "tests_fail"),
        pytest.param("ERROR:\n", SHORT_CHARS, "tests_fail", marks=pytest.mark.long),
    ],
)
async def test_a_patch_whose_log_no_parser_can_read_is_paid_nothing(
    stand: Callable[..., Any],
    published: Callable[..., JsonObject],
    diff: Callable[..., str],
    text: str,
    times: int,
    reason: str,
) -> None:
    tests = {"tests/runtests.py": RUNNER, "tests/test_noise.py": NOISY}
    gold = diff({"shapes/__init__.py": "def area(width, height):\n    return width * height\n"})
    lists = {"FAIL_TO_PASS": ["test_area (test_noise.Tests.test_area)"], "PASS_TO_PASS": []}
    row = published(
        gold, tests, "python tests/runtests.py --verbosity 2 test_noise", log_parser="parse_log_django", **lists
    )
    patch = diff({"shapes/__init__.py": PRINTS.format(text=repr(text), times=times)})
    grade = await stand(log_cpu_s=1).grade(row, patch)
    assert grade.reason == reason, grade


def _readers() -> list[psutil.Process]:
    mine = psutil.Process().children(recursive=True)
    return [one for one in mine if log_process.PROGRAM in one.cmdline()]
