"""Claims about reading a run's folder back after any end."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock.collect import Collected, Plan
from paddock.collect.recovery import Recovered, recover
from paddock.errors import ConfigError

ROW = {"responses_create_params": {"input": "q"}, "answer": "yes"}


@pytest.fixture
async def folder(make_case: Callable[..., Plan], run_plan: Callable[..., Awaitable[Collected]], tmp_path: Path) -> Path:
    """A finished run of four verdicts and one leak."""
    await run_plan(make_case([ROW, ROW, {**ROW, "grade": "leak"}, ROW, ROW]))
    return tmp_path / "run"


def numbers(found: Recovered) -> list[tuple[int, float | None]]:
    return [(ending.group_id, ending.reward) for ending in found.endings()]


def test_a_folder_is_read_back_as_it_was_written(folder: Path) -> None:
    found = recover(folder)
    assert sorted(numbers(found), key=str) == [(0, 1.0), (1, 1.0), (2, None), (3, 1.0), (4, 1.0)]
    assert found.repairs == []
    assert [ending.timing.total_s > 0 for ending in found.verdicts] == [True] * 4


@pytest.mark.parametrize("change", ["missing", "empty", "torn", "foreign", "shifted", "short"])
def test_an_index_that_does_not_fit_is_made_again(folder: Path, change: str) -> None:
    before = recover(folder)
    index = folder / "index.jsonl"
    lines = index.read_bytes().splitlines(keepends=True)
    changed = {
        "empty": b"",
        "torn": b"".join(lines)[:-30],
        "foreign": b'{"something": 1}\n',
        "shifted": b"".join(lines[1:]),
        "short": b"".join(lines[:2]),
    }
    if change == "missing":
        index.unlink()
    else:
        index.write_bytes(changed[change])
    assert recover(folder)[:3] == before[:3]
    assert index.read_bytes() == b"".join(lines)


def test_a_line_taken_out_by_hand_is_a_rollout_that_did_not_run(folder: Path) -> None:
    rollouts = folder / "rollouts.jsonl"
    lines = rollouts.read_bytes().splitlines(keepends=True)
    gone = orjson.loads(lines.pop(1))["_ng_task_index"]
    rollouts.write_bytes(b"".join(lines))
    found = recover(folder)
    assert gone not in [ending.group_id for ending in found.verdicts]
    assert len(found.verdicts) == 3
    assert found.repairs == ["index.jsonl: did not fit rollouts.jsonl; made again"]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(min_value=0))
def test_a_file_cut_at_any_byte_keeps_every_whole_line(folder: Path, cut: int) -> None:
    rollouts = folder / "rollouts.jsonl"
    whole = rollouts.read_bytes()
    index = (folder / "index.jsonl").read_bytes()
    kept = whole[: cut % (len(whole) + 1)]
    rollouts.write_bytes(kept)
    try:
        found = recover(folder)
        assert len(found.verdicts) == kept.count(b"\n")
        assert rollouts.read_bytes() == kept[: kept.rfind(b"\n") + 1]
    finally:
        rollouts.write_bytes(whole)
        (folder / "index.jsonl").write_bytes(index)


def test_a_broken_line_in_the_middle_is_named_and_left_alone(folder: Path) -> None:
    rollouts = folder / "rollouts.jsonl"
    lines = rollouts.read_bytes().splitlines(keepends=True)
    lines[1] = b"garbage\n"
    broken = b"".join(lines)
    rollouts.write_bytes(broken)
    (folder / "index.jsonl").unlink()
    with pytest.raises(ConfigError, match=r"rollouts\.jsonl:2: not a line of this file"):
        recover(folder)
    assert rollouts.read_bytes() == broken


def test_a_torn_failure_is_cut_off(folder: Path) -> None:
    failures = folder / "failures.jsonl"
    failures.write_bytes(failures.read_bytes() + b'{"group_id": 3, "mem')
    found = recover(folder)
    assert len(found.failures) == 1
    assert "torn last line of 20 bytes" in found.repairs[0]


def test_failure_lines_have_no_place_for_a_reward(folder: Path) -> None:
    line: dict[str, Any] = orjson.loads((folder / "failures.jsonl").read_bytes())
    (folder / "failures.jsonl").write_bytes(orjson.dumps({**line, "reward": 0.0}) + b"\n")
    with pytest.raises(ConfigError, match="reward"):
        recover(folder)
