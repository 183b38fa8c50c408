"""Claims about what a line of progress says: how far it is, and what it waits for when nothing ends."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paddock.collect import Plan, evaluate
from paddock.collect.attempts import InFlight, slowest_text
from paddock.collect.results import MemberKey
from paddock.server.rollout import RolloutRun
from paddock.types import Row

MakeCase = Callable[..., Plan]
ROW: dict[str, Any] = {"responses_create_params": {"input": "q"}, "answer": "yes"}


async def test_a_line_names_what_hangs_its_stage_and_since_when(
    make_case: MakeCase, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = make_case([ROW, {**ROW, "grade": "hang"}], progress_every_s=0.2)
    task = asyncio.create_task(evaluate(plan, tmp_path / "run"))
    said = ""
    lines: list[str] = []
    async with asyncio.timeout(60):
        while not any(line.startswith("1/2 | ") for line in lines):
            await asyncio.sleep(0.05)
            said += capsys.readouterr().err
            lines = [line for line in said.splitlines() if "waiting for 1-0 in verify for " in line]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert any(line.startswith("1/2 | reward 1.000 | completed 1 | ") for line in lines)


def test_the_longest_come_first_and_the_others_are_counted() -> None:
    flight = InFlight()
    with flight.attempt(MemberKey(3, 1), "far", "a"), flight.attempt(MemberKey(4, 0), "near", "b"):
        run = RolloutRun(Row(responses_create_params={}), *_call("b"), timeout_s=9.0)
        with run.stage("model"):
            assert slowest_text([flight.report()]) == "3-1 at far for 0 s, 4-0 in model for 0 s"
            assert slowest_text([flight.report()], 1) == "3-1 at far for 0 s and 1 more"
    assert slowest_text([flight.report()]) == ""


def _call(secret: str) -> tuple[Any, Any]:
    from paddock.http import Call

    return Call(rollout_secret=secret), None
