"""Claims about `paddock samples` over a training run, whose failures name groups and whose rollouts name rows."""

import asyncio
from pathlib import Path

import orjson
import pytest
from tests.cli.test_samples import turn

from paddock.cli import main
from paddock.collect.lines import seal
from paddock.collect.results import FailedAttempt, MemberKey, result_of
from paddock.training.core.records import Group
from paddock.training.grpo.journals import GroupLines, Journals
from paddock.types import Rollout, Row, Verdict


def rollout(row: int, member: int, epoch: int) -> Rollout:
    """Of a group of two, with its row's own prompt."""
    stamps = {"_ng_task_index": row, "_ng_rollout_index": member, "_paddock_group_size": 2, "_paddock_epoch": epoch}
    return Rollout(
        row=Row.from_wire({"responses_create_params": {"input": []}, "_paddock_run_id": "run", **stamps}),
        outcome="completed",
        engine="exact",
        turns=[turn("1", None, [row, 2], [3])],
        verdict=Verdict(reward=1.0, reason="x"),
    )


def failed(row: int, member: int) -> FailedAttempt:
    """As a worker reports it: of the row."""
    return FailedAttempt(
        group_id=row, member=member, attempt=0, agent="a", outcome="infra", owner="infra", kind="x", message="", at=0.0
    )


def trained(folder: Path, groups: list[tuple[Group, list[int], list[int]]]) -> Path:
    """A training run: each group with the members that have a verdict, and those of which an attempt failed."""

    async def write() -> None:
        journals = Journals(folder)
        for group, judged, failing in groups:
            lines = GroupLines()
            for member in judged:
                one = rollout(group.row, member, group.epoch)
                await lines.rollout(
                    result_of(one, MemberKey(group.row, member)), seal(orjson.dumps(one.to_wire()) + b"\n")
                )
            for member in failing:
                await lines.failure(failed(group.row, member))
            await journals.group(group, lines)
        await journals.close()

    folder.mkdir()
    asyncio.run(write())
    return folder


def group(number: int, row: int, epoch: int = 0) -> Group:
    return Group(number, row, epoch, (), 2, 0)


def test_a_member_that_was_mended_is_not_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = trained(tmp_path / "run", [(group(5, 0), [0, 1], [1]), (group(6, 5), [0], [1])])
    assert main(["samples", str(run), "--out", str(tmp_path / "samples.jsonl")]) == 0
    said = capsys.readouterr().out
    assert "4 rollouts, 3 samples" in said
    assert "1 rollouts without a reward: 1 infra" in said


def test_a_failed_member_is_missed_in_no_group_but_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lacking = "group_complete: 1 of 2 members are there"
    # Group 1 is of row 0, and lacks the member that failed; group 0 is of row 1, and lacks one that did not.
    run = trained(tmp_path / "run", [(group(0, 1), [0], []), (group(1, 0), [0], [1])])
    assert main(["samples", "check", str(run)]) == 1
    found = [line for line in capsys.readouterr().out.splitlines() if lacking in line]
    assert [line.split(": ")[0] for line in found] == [f"{run / 'rollouts.jsonl'}:1"]


def test_a_failure_is_of_its_epoch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = trained(tmp_path / "run", [(group(0, 0), [0], [1]), (group(1, 0, epoch=1), [0], [])])
    assert main(["samples", "check", str(run)]) == 1
    found = [line for line in capsys.readouterr().out.splitlines() if "group_complete: " in line]
    assert [line.split(": ")[0] for line in found] == [f"{run / 'rollouts.jsonl'}:2"]
