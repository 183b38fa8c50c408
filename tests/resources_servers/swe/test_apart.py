"""Claims about reading long logs: it holds up nobody, ends in its time, and leaves no process.

`ENDLESS` takes Django's parser hours, in one search that no other thread of its interpreter runs beside.
"""

import asyncio
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from paddock.errors import RowError, VerifierError
from paddock.resources_servers.swe import official
from paddock.resources_servers.swe.grading import apart
from paddock.resources_servers.swe.grading.apart import SHORT_CHARS, TooSlowError, run_apart
from paddock.types import JsonObject

ENDLESS = "a ... Testing against Django installed in x\n" * 100_000
LONG = SHORT_CHARS + 1
WHATEVER_S = 120.0


def end(_text: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def refuse(text: str) -> None:
    raise RowError(text, kind="refused")


async def test_an_endless_log_ends_in_its_time_and_others_run_meanwhile() -> None:
    turns, over = 0, asyncio.Event()

    async def others() -> None:
        nonlocal turns
        while not over.is_set():
            turns += 1
            await asyncio.sleep(0.01)

    beside = asyncio.create_task(others())
    with pytest.raises(TooSlowError):
        await run_apart(official.parse, "parse_log_django", ENDLESS, chars=len(ENDLESS), cpu_s=1)
    over.set()
    await beside
    assert turns > 10
    assert not _readers()


async def test_who_is_cancelled_leaves_no_process() -> None:
    work = run_apart(official.parse, "parse_log_django", ENDLESS, chars=len(ENDLESS), cpu_s=WHATEVER_S)
    task = asyncio.create_task(work)
    while not _readers():
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not _readers()


def test_a_process_that_nobody_waits_for_ends_by_itself() -> None:
    work = pickle.dumps((0.5, official.parse, ("parse_log_django", ENDLESS)))
    done = subprocess.run([sys.executable, "-c", apart.PROGRAM], input=work, capture_output=True, check=False)
    assert done.returncode == -signal.SIGXCPU


@pytest.mark.parametrize("chars", [1, LONG])
async def test_what_is_returned_and_raised_is_the_same_in_a_thread_and_in_a_process(chars: int) -> None:
    log = "PASSED a::b\n"
    assert await run_apart(official.parse, "parse_log_pytest", log, chars=chars, cpu_s=WHATEVER_S) == {"a::b": "PASSED"}
    with pytest.raises(RowError, match="a text"):
        await run_apart(refuse, "a text", chars=chars, cpu_s=WHATEVER_S)


async def test_a_process_that_ends_otherwise_is_no_verdict() -> None:
    with pytest.raises(VerifierError, match="ended with -9"):
        await run_apart(end, "", chars=LONG, cpu_s=WHATEVER_S)


NOISY = (
    "import unittest\n\nimport shapes\n\n\nclass Tests(unittest.TestCase):\n"
    "    def test_area(self):\n        self.assertEqual(shapes.area(2, 3), 6)\n"
)
RUNNER = "import sys, unittest\nsys.path[:0] = ['.', 'tests']\nunittest.main(None, argv=['x', '-v', *sys.argv[3:]])\n"
PRINTS = "import sys\nsys.stderr.write({text} * {times})\n\n\ndef area(width, height):\n    return width + height\n"


@pytest.mark.sandbox
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(
    ("text", "times", "reason"),
    [
        pytest.param("a ... Testing against Django installed in x\n", 100_000, "over_budget", marks=pytest.mark.slow),
        ("FAIL:\n", 1, "tests_fail"),
        pytest.param("ERROR:\n", SHORT_CHARS, "tests_fail", marks=pytest.mark.slow),
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
    grade = await stand(log_cpu_s=2).grade(row, patch)
    assert grade.reason == reason, grade


def _readers() -> list[psutil.Process]:
    mine = psutil.Process().children(recursive=True)
    return [one for one in mine if apart.PROGRAM in one.cmdline()]
