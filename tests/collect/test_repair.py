"""Claims about checking and repairing a run's folder: damage is found, what can be mended is, and nothing is lost."""

import base64
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

from paddock.collect import CollectionResult, Plan, read_summary
from paddock.collect.lines import seal
from paddock.collect.recovery import recover
from paddock.collect.repair import check_folder, repair_folder
from paddock.errors import ConfigError

MakeCase = Callable[..., Plan]
RunPlan = Callable[..., Awaitable[CollectionResult]]
ROW = {"responses_create_params": {"input": "q"}, "answer": "yes"}
ROWS: list[Any] = [ROW, {**ROW, "answer": "no"}, {**ROW, "grade": "leak"}, ROW]


@pytest.fixture
async def folder(make_case: MakeCase, run_plan: RunPlan, tmp_path: Path) -> Path:
    """A finished run of six verdicts and two leaks."""
    await run_plan(make_case(ROWS, repeats=2))
    return tmp_path / "run"


def rollout_lines(folder: Path) -> list[bytes]:
    return (folder / "rollouts.jsonl").read_bytes().splitlines(keepends=True)


def rewards(folder: Path) -> dict[tuple[int, int], float | None]:
    return {(result.group_id, result.member): result.reward for result in recover(folder).verdicts}


def aside(folder: Path) -> list[dict[str, Any]]:
    """What `damaged.jsonl` has; nothing where it isn't there."""
    path = folder / "damaged.jsonl"
    return [orjson.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def test_a_folder_in_order_is_left_as_it_is(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert check_folder(folder)[:2] == (2, 6)
    assert check_folder(folder).findings == []
    done = repair_folder(folder)
    assert (done.set_aside, done.n_dropped, done.left, done.n_verdicts) == ([], 0, [], 6)
    changed = {path.name for path in folder.iterdir() if before.get(path.name) != path.read_bytes()}
    assert changed <= {"run.lock", "results.jsonl"}


@pytest.mark.parametrize(
    ("name", "damage", "kinds", "dropped", "left"),
    [
        ("flipped", lambda lines: [lines[0].replace(b"reward", b"rewerd", 1), *lines[1:]], ["damaged"], 0, 5),
        ("doubled", lambda lines: [*lines, lines[2]], ["doubled"], 1, 6),
        ("empty line", lambda lines: [*lines[:3], b"\n", *lines[3:]], ["damaged"], 1, 6),
        ("zeros", lambda lines: [*lines, b"\0" * 4096 + b"\n"], ["damaged"], 0, 6),
        ("garbage", lambda lines: [*lines[:5], b"\xff\xfe garbage\n", *lines[5:]], ["damaged"], 0, 6),
        ("joined", lambda lines: [lines[0][:-1] + lines[1], *lines[2:]], ["damaged"], 0, 4),
    ],
)
async def test_damage_is_found_mended_and_what_is_missing_runs_again(
    folder: Path,
    make_case: MakeCase,
    run_plan: RunPlan,
    name: str,
    damage: Callable[[list[bytes]], list[bytes]],
    kinds: list[str],
    dropped: int,
    left: int,
) -> None:
    true, lines = rewards(folder), rollout_lines(folder)
    wrong = damage(lines)
    (folder / "rollouts.jsonl").write_bytes(b"".join(wrong))
    with pytest.raises(ConfigError, match="paddock runs repair"):
        await run_plan(make_case(ROWS, repeats=2), resume=True)
    assert (folder / "rollouts.jsonl").read_bytes() == b"".join(wrong)
    assert [found.kind for found in check_folder(folder).findings if found.file == "rollouts.jsonl"] == kinds
    done = repair_folder(folder)
    assert (done.n_dropped, done.n_verdicts, len(done.set_aside)) == (dropped, left, len(kinds) - dropped)
    assert rewards(folder).items() <= true.items()
    assert check_folder(folder).findings == []
    stored = [one["text"].encode() if "text" in one else base64.b64decode(one["base64"]) for one in aside(folder)]
    assert stored == [line for line in wrong if line not in lines and line.strip()]
    collected = await run_plan(make_case(ROWS, repeats=2), resume=True)
    assert (collected.n_verdicts, rewards(folder)) == (6, true)


async def test_of_two_lines_of_a_rollout_the_first_counts(folder: Path) -> None:
    true, lines = rewards(folder), rollout_lines(folder)
    other = orjson.loads(lines[0])
    del other["_paddock_format"], other["_paddock_crc32"]
    other["reward"] = other["rollout"]["verdict"]["reward"] = 7.0
    second = seal(orjson.dumps(other) + b"\n")
    (folder / "rollouts.jsonl").write_bytes(b"".join([*lines, second]))
    (found,) = check_folder(folder).findings
    assert str(found).startswith("rollouts.jsonl:7: a second line of rollout ")
    assert repair_folder(folder).n_verdicts == 6
    assert rewards(folder) == true
    assert [one["text"].encode() for one in aside(folder)] == [second]


def test_an_index_that_says_other_rewards_is_named_and_made_again(folder: Path) -> None:
    index = folder / "index.jsonl"
    whole = index.read_bytes()
    lines = [orjson.loads(line) for line in whole.splitlines()]
    for line in lines:
        del line["_paddock_format"], line["_paddock_crc32"]
        line["reward"] = 0.25
    index.write_bytes(b"".join(seal(orjson.dumps(line) + b"\n") for line in lines))
    found = check_folder(folder).findings
    assert len(found) == 6
    assert "says completed with reward 0.25 of rollout" in found[0].why
    repair_folder(folder)
    assert index.read_bytes() == whole
    index.write_bytes(whole.replace(b'"reward":1.0', b'"reward":0.0'))
    assert {found.why for found in check_folder(folder).findings} == {"damaged: it does not match its digest"}


def test_bad_failures_are_set_aside(folder: Path) -> None:
    failures = folder / "failures.jsonl"
    lines = failures.read_bytes().splitlines(keepends=True)
    failures.write_bytes(b"".join([lines[0], b'{"group_id": 2}\n', lines[1].replace(b"leak", b"lack"), lines[0]]))
    assert [found.line for found in check_folder(folder).findings] == [2, 3, 4]
    done = repair_folder(folder)
    assert ([found.file for found in done.set_aside], done.n_dropped) == (["failures.jsonl"] * 2, 1)
    assert failures.read_bytes() == lines[0]
    assert [one["line"] for one in aside(folder)] == [2, 3]


def test_a_summary_of_the_version_before_is_read(folder: Path) -> None:
    (run,) = read_summary(folder)
    text = (folder / "summary.json").read_text()
    (folder / "summary.json").write_text(text.replace("malformed_per_rollout", "malformed_each"))
    assert read_summary(folder) == [run]


def test_summary_and_results_are_those_of_the_rollouts_that_are_left(folder: Path) -> None:
    lines = rollout_lines(folder)
    (folder / "rollouts.jsonl").write_bytes(b"".join([lines[0][:40] + b"X" + lines[0][41:], *lines[1:]]))
    pace = [(run["seconds"]["wall"], run["rollouts_per_s"]) for run in read_summary(folder)]
    repair_folder(folder)
    (run,) = read_summary(folder)
    assert run["outcomes"] == {"completed": 5, "leak": 2}
    assert [(run["seconds"]["wall"], run["rollouts_per_s"])] == pace
    results = [orjson.loads(line) for line in (folder / "results.jsonl").read_bytes().splitlines()]
    assert len(results) == 3


def test_no_flip_of_a_byte_escapes_a_check(folder: Path) -> None:
    random = Random(11)
    for name in ("rollouts.jsonl", "failures.jsonl", "index.jsonl"):
        whole = (folder / name).read_bytes()
        for _ in range(30):
            data = bytearray(whole)
            data[random.randrange(len(data))] ^= random.randrange(1, 256)
            (folder / name).write_bytes(data)
            found = check_folder(folder)
            torn = not data.endswith(b"\n")
            assert torn or [one.file for one in found.findings] == [name] * len(found.findings) != []
        (folder / name).write_bytes(whole)


def test_a_folder_without_a_run_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such folder"):
        check_folder(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="holds no run"):
        repair_folder(tmp_path)
    assert list(tmp_path.iterdir()) == []
