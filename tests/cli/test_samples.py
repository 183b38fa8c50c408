"""Claims about `paddock samples` as a command: lines, counts, modes, what is left out, mistakes."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from paddock.cli import main
from paddock.collect.results import FailedAttempt
from paddock.tokens import RolloutSample
from paddock.types import REWARDED, Engine, Failure, JsonObject, Outcome, Rollout, Row, Turn, Verdict
from paddock.types.responses import message_item


def turn(turn_id: str, parent: str | None, prompt: list[int] | None, sampled: list[int] | None) -> Turn:
    return Turn(
        id=turn_id,
        parent=parent,
        prompt_ids=prompt,
        sampled_ids=sampled,
        log_probs=None if sampled is None else [-0.25] * len(sampled),
        weight_version="w1",
        finish_reason="stop",
        request_hash="0",
        output=[message_item("x")],
    )


BRANCHED = [turn("1", None, [1, 2], [3]), turn("2", "1", [4], [5]), turn("3", "1", [6], [7, 8])]
WITHOUT_IDS = [turn("1", None, None, None)]


def line(member: int, outcome: Outcome = "completed", engine: Engine = "exact", turns: Any = BRANCHED) -> bytes:
    rewarded = outcome in REWARDED
    stamps = {"_paddock_run_id": "run", "_ng_task_index": 7, "_paddock_group_size": 4, "_ng_rollout_index": member}
    rollout = Rollout(
        row=Row.from_wire({"responses_create_params": {"input": []}, **stamps, "instance_id": "name"}),
        outcome=outcome,
        engine=engine,
        turns=turns,
        verdict=Verdict(reward=1.0, reason="x") if rewarded else None,
        failure=None if rewarded else Failure(owner="infra", kind="x", message=""),
    )
    return orjson.dumps(rollout.to_wire()) + b"\n"


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A run: one that branched, one cut, one without ids, one whose failure is among them, one that only failed."""
    lines = [line(0), line(1, "truncated"), line(2, engine="text", turns=WITHOUT_IDS), line(3, "infra")]
    run = tmp_path / "run"
    run.mkdir()
    (run / "rollouts.jsonl").write_bytes(b"".join(lines))
    attempts = [attempt(4, "infra"), attempt(4, "leak"), attempt(3, "infra"), attempt(0, "infra")]
    (run / "failures.jsonl").write_bytes(b"".join(attempts))
    return run


def attempt(member: int, outcome: Any) -> bytes:
    failed = FailedAttempt(
        group_id=7, member=member, attempt=0, agent="a", outcome=outcome, owner="infra", kind="x", message="", at=0.0
    )
    return failed.model_dump_json().encode() + b"\n"


def written(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> tuple[list[JsonObject], str]:
    """The lines on stdout, and the counts."""
    assert main(["samples", *map(str, arguments)]) == code
    said = capsys.readouterr()
    return [orjson.loads(each) for each in said.out.splitlines()], said.err


def test_a_sample_is_a_line_with_its_stamps(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, _ = written(capsys, stored)
    assert lines[1] == {
        "_paddock_format": 2,
        "_paddock_run_id": "run",
        "_ng_task_index": 7,
        "_paddock_group_size": 4,
        "_ng_rollout_index": 0,
        "row": "name",
        "outcome": "completed",
        "reward": 1.0,
        "engine": "exact",
        "mode": "branch",
        "sample": 1,
        "samples": 2,
        "cut": False,
        "ids": [1, 2, 3, 6, 7, 8],
        "loss_mask": [0, 0, 0, 0, 1, 1],
        "log_probs": [0.0, 0.0, 0.0, 0.0, -0.25, -0.25],
        "spans": [
            {"turn": "1", "start": 2, "end": 3, "weight_version": "w1", "trained": False},
            {"turn": "3", "start": 4, "end": 6, "weight_version": "w1", "trained": True},
        ],
        "finish_reason": "stop",
    }
    assert [(each["_ng_rollout_index"], each["cut"]) for each in lines] == [
        (0, False),
        (0, False),
        (1, True),
        (1, True),
    ]
    assert [RolloutSample.from_wire(each).to_wire() for each in lines] == lines


def test_the_counts_say_what_became_of_every_rollout(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, counts = written(capsys, stored)
    assert counts.splitlines() == [
        "5 rollouts, 4 samples, 22 tokens, 8 of them trained on",
        "each token is in 1.38 samples; 1 rollouts cut by a budget",
        "1 turns not trained on: 1 engine_text",
        "1 rollouts without a sample",
        "2 rollouts without a reward: 1 infra, 1 leak",
        "rollouts without a reward are not written; --all writes those that are in the file",
    ]


@pytest.mark.parametrize(("mode", "count", "skipped"), [("whole", 2, 3), ("branch", 4, 1), ("dynamic_history", 6, 1)])
def test_each_mode_has_its_samples(
    stored: Path, capsys: pytest.CaptureFixture[str], mode: str, count: int, skipped: int
) -> None:
    lines, counts = written(capsys, stored, "--mode", mode)
    assert [each["mode"] for each in lines] == [mode] * count
    assert f"{skipped} turns not trained on" in counts


def test_a_file_of_rollouts_has_no_failures_beside_it(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, counts = written(capsys, stored / "rollouts.jsonl")
    assert "4 rollouts, 4 samples" in counts
    assert "1 rollouts without a reward: 1 infra" in counts


def test_all_are_also_those_without_a_reward(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, counts = written(capsys, stored, "--all", "--mode", "whole")
    assert [(each["outcome"], each["reward"]) for each in lines] == [
        ("completed", 1.0),
        ("truncated", 1.0),
        ("infra", None),
    ]
    assert "not written" not in counts


def test_inline_is_a_line_per_rollout(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, _ = written(capsys, stored, "--inline")
    assert [each["instance_config"]["mask_sample"] for each in lines] == [False, False, True]
    assert lines[0]["response"]["output"][-1]["generation_token_ids"] == [7, 8]
    lines, _ = written(capsys, stored, "--inline", "--all", "--mode", "whole")
    assert [each["instance_config"]["mask_sample"] for each in lines] == [False, False, True, True]


def test_the_file_of_out_is_whole_and_the_counts_are_on_stdout(
    stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines, _ = written(capsys, stored)
    target = tmp_path / "samples.jsonl"
    target.write_text("old")
    with target.open() as earlier:
        assert main(["samples", str(stored), "--out", str(target)]) == 0
        assert earlier.read() == "old"
    assert capsys.readouterr().out.startswith("5 rollouts, 4 samples")
    assert [orjson.loads(each) for each in target.read_bytes().splitlines()] == lines
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "samples.jsonl"]


def test_nothing_to_train_on_is_exit_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rollouts.jsonl").write_bytes(line(0, engine="text") + line(1, "infra"))
    lines, counts = written(capsys, tmp_path, code=3)
    assert lines == []
    assert "3 engine_text" in counts


def test_a_torn_last_line_has_not_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rollouts.jsonl").write_bytes(line(0) + b"\n" + line(1)[:-20])
    lines, counts = written(capsys, tmp_path, "--mode", "whole")
    assert len(lines) == 1
    assert "the last line was torn" in counts


@pytest.mark.parametrize("wrong", [b'{"reward": 1}\n', b"[1]\n", b"{\n", b'{"rollout": {"outcome": "fine"}}\n'])
def test_a_line_that_is_no_rollout_is_named_and_the_old_file_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: bytes
) -> None:
    (tmp_path / "rollouts.jsonl").write_bytes(line(0) + wrong + line(1))
    target = tmp_path / "out.jsonl"
    target.write_text("old")
    assert main(["samples", str(tmp_path), "--out", str(target)]) == 2
    assert "rollouts.jsonl:2: no line of this file: " in capsys.readouterr().err
    assert target.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "rollouts.jsonl"]


def test_mistakes_are_exit_2(stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mistakes: list[tuple[list[object], str]] = [
        ([tmp_path], "there are no rollouts"),
        ([stored, "--inline", "--mode", "branch"], "no --mode branch"),
        ([stored, "--out", stored / "rollouts.jsonl"], "the rollouts themselves"),
        ([stored, "--out", stored], "is no file"),
        ([stored, "--out", os.devnull], "is no file"),
        ([stored, "--out", tmp_path / "no" / "x.jsonl"], "No such file"),
    ]
    for arguments, why in mistakes:
        assert main(["samples", *map(str, arguments)]) == 2
        assert why in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.cli
def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "rollouts.jsonl").write_bytes(b"".join(map(line, range(2000))))
    command = f"{sys.executable} -m paddock samples {tmp_path} | head -n 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert orjson.loads(done.stdout)["sample"] == 0


@pytest.mark.slow
@pytest.mark.cli
def test_memory_does_not_grow_with_the_number_of_rollouts(tmp_path: Path) -> None:
    long = [turn("1", None, list(range(5_000)), list(range(1_000)))]
    peaks = []
    for count in (20, 400):
        (tmp_path / "rollouts.jsonl").write_bytes(b"".join(line(member, turns=long) for member in range(count)))
        script = (
            "import pathlib; from paddock.cli import main; "
            f"main(['samples', {str(tmp_path)!r}, '--out', {str(tmp_path / 'out.jsonl')!r}]); "
            "print(pathlib.Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0])"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
        peaks.append(int(done.stdout.splitlines()[-1]))
    assert peaks[1] - peaks[0] < 8_000  # KiB; 380 more rollouts are 20 MB of lines, and more in memory
