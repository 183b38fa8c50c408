"""Claims about what a line of progress says: how far it is, and what it waits for when nothing ends."""

import asyncio
import os
import pty
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from paddock.collect import Plan, evaluate
from paddock.collect.attempts import InFlight, slowest_text
from paddock.collect.progress import ProgressView, screen_lines
from paddock.collect.results import FailedAttempt, MemberKey
from paddock.collect.tally import Board
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


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_stuck_rollout_has_one_line_with_its_stage_and_since_when(
    make_case: MakeCase, tmp_path: Path, capsys: pytest.CaptureFixture[str], workers: int
) -> None:
    rows = [ROW, {**ROW, "grade": "hang"}, {**ROW, "grade": "hang"}]
    plan = make_case(rows, progress_every_s=0.2, stuck_after_s=1.0, workers=workers)
    began = datetime.now(UTC).replace(microsecond=0)
    task = asyncio.create_task(evaluate(plan, tmp_path / "run"))
    said = ""
    async with asyncio.timeout(60):
        while said.count("waiting for") < 12 or said.count("stuck: ") < 2:
            await asyncio.sleep(0.05)
            said += capsys.readouterr().err
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    found = re.findall(r"^stuck: ([12])-0 in verify since (\d\d:\d\d:\d\d) UTC, (\d+) s$", said, re.MULTILINE)
    assert sorted(row for row, *_ in found) == ["1", "2"]
    assert said.count("stuck: ") == 2
    for _, since, seconds in found:
        assert f"{began:%H:%M:%S}" <= since <= f"{datetime.now(UTC):%H:%M:%S}"
        assert 1 <= int(seconds) < 30


def test_a_rollout_is_stuck_by_its_stage_and_never_where_nobody_asks() -> None:
    flight, unasked = InFlight(stuck_after_s=1e-9), InFlight()
    with flight.attempt(MemberKey(1, 0), "agent", "s"), unasked.attempt(MemberKey(1, 0), "agent", "t"):
        assert [run.key for run in flight.report().stuck] == [MemberKey(1, 0)]
        assert unasked.report().stuck == []


async def test_a_terminal_names_what_hangs_and_what_failed_and_is_clean_at_the_end(
    make_case: MakeCase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    shown = ""
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.setenv("COLUMNS", "200")
        failing = {**ROW, "grade": "infra"}
        task = asyncio.create_task(evaluate(make_case([ROW, failing, {**ROW, "grade": "hang"}]), tmp_path / "run"))
        async with asyncio.timeout(60):
            while not ("in flight 1: 2-0 in verify for" in shown and "failed 1-0: infra" in shown):
                await asyncio.sleep(0.05)
                with suppress(BlockingIOError):
                    shown += os.read(ours, 1 << 20).decode(errors="replace")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        terminal.flush()
        with suppress(BlockingIOError):
            shown += os.read(ours, 1 << 20).decode(errors="replace")
    os.close(ours)
    last = shown.rpartition("in flight")[2]
    assert "reward 1.000" in last, "the bar stays, what was in flight does not"


def test_a_message_moves_no_cursor() -> None:
    board = Board()
    failed = FailedAttempt(
        group_id=0,
        member=0,
        attempt=0,
        agent="",
        outcome="infra",
        owner="infra",
        kind="x",
        message="a\x1b[2J\n\u202eb",
        at=0,
    )
    board.last_failures.append(failed)
    assert list(screen_lines(ProgressView(board, 1, list))) == ["failed 0-0: infra, x: a?[2J ?b"]


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
