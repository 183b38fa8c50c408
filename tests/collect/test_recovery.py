"""Claims about reading a run's folder back after any end."""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock.collect import CollectionResult, Plan
from paddock.collect.lines import seal
from paddock.collect.recovery import StoredRun, own_part, recover
from paddock.errors import ConfigError

ROW = {"responses_create_params": {"input": "q"}, "answer": "yes"}


@pytest.fixture
async def folder(
    make_case: Callable[..., Plan], run_plan: Callable[..., Awaitable[CollectionResult]], tmp_path: Path
) -> Path:
    """A finished run of four verdicts and one leak."""
    await run_plan(make_case([ROW, ROW, {**ROW, "grade": "leak"}, ROW, ROW]))
    return tmp_path / "run"


def numbers(found: StoredRun) -> list[tuple[int, float | None]]:
    return [(result.group_id, result.reward) for result in found.results()]


def test_a_folder_is_read_back_as_it_was_written(folder: Path) -> None:
    found = recover(folder)
    assert sorted(numbers(found), key=str) == [(0, 1.0), (1, 1.0), (2, None), (3, 1.0), (4, 1.0)]
    assert found.repairs == []
    assert [result.timing.total_s > 0 for result in found.verdicts] == [True] * 4


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
    assert gone not in [result.group_id for result in found.verdicts]
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


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"garbage\n", "no digest"),
        (b"\n", "an empty line"),
        (b"\0" * 4096 + b"\n", "zero bytes"),
        (b'{"reward":1.0,"_paddock_format":2,"_paddock_crc32":"00000000"}\n', "does not match its digest"),
    ],
)
def test_a_broken_line_is_named_with_its_way_out_and_left_alone(folder: Path, line: bytes, why: str) -> None:
    rollouts = folder / "rollouts.jsonl"
    lines = rollouts.read_bytes().splitlines(keepends=True)
    lines[1] = line
    broken = b"".join(lines)
    rollouts.write_bytes(broken)
    with pytest.raises(ConfigError, match=rf"rollouts\.jsonl:2: .*{why}.*`paddock runs repair {folder}`"):
        recover(folder)
    assert rollouts.read_bytes() == broken


def test_an_index_is_not_believed_where_the_rollouts_say_otherwise(folder: Path) -> None:
    before, index = recover(folder), folder / "index.jsonl"
    whole = index.read_bytes()
    index.write_bytes(whole.replace(b'"reward":1.0', b'"reward":0.0'))
    found = recover(folder)
    assert found[:3] == before[:3]
    assert found.repairs == ["index.jsonl: did not fit rollouts.jsonl; made again"]
    lines = [orjson.loads(line) for line in whole.splitlines()]
    for line in lines:
        del line["_paddock_format"], line["_paddock_crc32"]
        line["reward"] = 0.0
        line["crc32"] += 1
    index.write_bytes(b"".join(seal(orjson.dumps(line) + b"\n") for line in lines))
    assert recover(folder)[:3] == before[:3]
    assert index.read_bytes() == whole


def test_a_line_that_stands_twice_is_refused(folder: Path) -> None:
    rollouts = folder / "rollouts.jsonl"
    first = rollouts.read_bytes().splitlines(keepends=True)[0]
    rollouts.write_bytes(rollouts.read_bytes() + first)
    with pytest.raises(ConfigError, match=r"rollouts\.jsonl:5: a second line of rollout 0-0, which stands in line 1"):
        recover(folder)


@pytest.mark.parametrize("flips", [60, pytest.param(800, marks=pytest.mark.slow)])
def test_rewards_never_change_whatever_bytes_flip(folder: Path, flips: int) -> None:
    true = {result.key: result.reward for result in recover(folder).verdicts}
    names = ("rollouts.jsonl", "index.jsonl")
    whole = {name: (folder / name).read_bytes() for name in names}
    random = Random(flips)
    refused = 0
    for _ in range(flips):
        name = random.choice(names)
        data = bytearray(whole[name])
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            data[random.randrange(len(data))] ^= random.randrange(1, 256)
        (folder / name).write_bytes(data)
        try:
            found = {result.key: result.reward for result in recover(folder).verdicts}
            assert found.items() <= true.items()
            # Less than all only where the file no longer ended with a newline: what it lost runs again.
            assert found == true or not data.endswith(b"\n")
        except ConfigError as error:
            refused += name == "rollouts.jsonl"
            assert "paddock runs repair" in error.message
        for other in names:
            (folder / other).write_bytes(whole[other])
    assert refused > flips // 5


def test_a_torn_failure_is_cut_off(folder: Path) -> None:
    failures = folder / "failures.jsonl"
    failures.write_bytes(failures.read_bytes() + b'{"group_id": 3, "mem')
    found = recover(folder)
    assert len(found.failures) == 1
    assert "torn last line of 20 bytes" in found.repairs[0]


def test_failure_lines_have_no_place_for_a_reward(folder: Path) -> None:
    line: dict[str, Any] = orjson.loads((folder / "failures.jsonl").read_bytes())
    own = {key: value for key, value in line.items() if not key.startswith("_paddock")}
    (folder / "failures.jsonl").write_bytes(seal(orjson.dumps({**own, "reward": 0.0}) + b"\n"))
    with pytest.raises(ConfigError, match="reward"):
        recover(folder)


async def test_a_verdict_has_the_time_at_which_it_was_stored_in_its_line_too(
    make_case: Callable[..., Plan], run_plan: Callable[..., Awaitable[CollectionResult]], tmp_path: Path
) -> None:
    before = time.time()
    await run_plan(make_case(2))
    times = [result.ended_at for result in recover(tmp_path / "run").results()]
    assert all(at is not None and before <= at <= time.time() for at in times)
    (tmp_path / "run" / "index.jsonl").unlink()
    assert [result.ended_at for result in recover(tmp_path / "run").results()] == times


def test_a_rollout_whose_line_has_no_time_has_none(folder: Path) -> None:
    rollouts = folder / "rollouts.jsonl"
    wires = [own_part(orjson.loads(line)) for line in rollouts.read_bytes().splitlines()]
    for wire in wires:
        del wire["rollout"]["ended_at"]
    rollouts.write_bytes(b"".join(seal(orjson.dumps(wire) + b"\n") for wire in wires))
    assert {result.ended_at for result in recover(folder).verdicts} == {None}
