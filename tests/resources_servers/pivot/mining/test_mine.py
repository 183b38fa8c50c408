"""Claims about mining: steps that teach nothing are left out by name, and rows are where answers differ in reward."""

import asyncio
import json
import random
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from paddock.cli import main
from paddock.resources_servers.pivot.mining.candidates import Candidates
from paddock.resources_servers.pivot.mining.forms import read_record
from paddock.resources_servers.pivot.mining.rows import split_of
from paddock.resources_servers.pivot.mining.selection import SampledCandidate, SelectionOptions, choose
from paddock.testing.sandboxes import WORKDIR, repository_image, sandbox_home, store_of
from paddock.testing.upstream import ScriptedAnswer, ScriptedUpstream
from paddock.types import JsonObject

EDIT = {"command": "str_replace", "path": "/r/a.py", "old_str": "x = 1", "new_str": "x = 2"}


def chat(*steps: tuple[str, dict[str, Any], str], name: str = "t", **more: Any) -> JsonObject:
    """A trajectory of `(tool, arguments, result)` steps."""
    messages: list[JsonObject] = [{"role": "user", "content": "Fix it."}]
    for number, (tool, arguments, result) in enumerate(steps):
        function = {"name": tool, "arguments": json.dumps(arguments)}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": result})
    return {"messages": messages, "traj_id": name, **more}


def sh(command: str, result: str = "done") -> tuple[str, dict[str, Any], str]:
    return "bash", {"command": command}, result


def edit(result: str = "edited", **arguments: str) -> tuple[str, dict[str, Any], str]:
    return "str_replace_editor", {**EDIT, **arguments}, result


def found(*records: JsonObject, max_history_chars: int = 100_000) -> Candidates:
    candidates = Candidates(max_history_chars)
    for record in records:
        candidates.add(read_record(record, "t"))
    return candidates


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([sh("ls"), sh("ls")], "looked_before"),
        ([edit("No replacement was performed, old_str `x` did not appear verbatim")], "refused"),
        ([edit(), edit(old_str="x = 2", new_str="x = 1")], "undone"),
        ([edit(), sh("git checkout a.py")], "undone"),
        ([edit(), sh("rm /r/a.py")], "undone"),
        ([edit(), edit(command="undo_edit")], "undone"),
        ([("think", {"thought": "hm"}, "ok")], "says_only"),
        ([("no_such_tool", {"x": 1}, "ok")], "unreadable"),
    ],
)
def test_a_step_that_teaches_nothing_is_left_out_by_name(
    steps: list[tuple[str, dict[str, Any], str]], reason: str
) -> None:
    candidates = found(chat(*steps))
    assert dict(candidates.left_out) == {reason: 1}
    assert len(candidates.rows) == len(steps) - 1


def test_a_look_again_after_a_change_and_an_edit_elsewhere_stay() -> None:
    candidates = found(chat(sh("cat a.py"), edit(), sh("cat a.py"), edit(path="/r/b.py")))
    assert ([row.step for row in candidates.rows], dict(candidates.left_out)) == ([0, 1, 2, 3], {})


def test_the_same_step_of_two_trajectories_of_one_task_is_one_candidate() -> None:
    first = chat(sh("ls"), sh("cat a.py", "x"), name="one", instance_id="a__b-1")
    second = chat(sh("ls"), sh("cat b.py", "y"), name="two", instance_id="a__b-1")
    other = chat(sh("ls"), name="three", instance_id="a__c-1")
    candidates = found(first, second, other)
    assert [row.uuid for row in candidates.rows] == ["one:0", "one:1", "two:1", "three:0"]
    assert dict(candidates.left_out) == {"duplicate": 1}


def test_trajectories_of_one_name_are_kept_apart() -> None:
    candidates = found(chat(sh("ls a"), name="t"), chat(sh("ls b"), name="t"), chat(sh("ls c"), name="u"))
    assert [row.uuid for row in candidates.rows] == ["t:0", "t#2:0", "u:0"]


def test_a_call_without_a_result_spoils_its_trajectory() -> None:
    record = chat(sh("ls"), sh("cat a.py"))
    del record["messages"][2]
    candidates = found(record)
    assert candidates.rows == []
    assert "has no result" in candidates.problems[0][1]


def test_a_long_history_is_left_out() -> None:
    candidates = found(chat(sh("ls", "x" * 2000), sh("cat a.py")), max_history_chars=1000)
    assert ([row.step for row in candidates.rows], dict(candidates.left_out)) == ([0], {"too_long": 1})


REWARDS = st.lists(st.sampled_from([0.0, 0.5, 1.0]), max_size=8).map(tuple)


@given(st.lists(REWARDS, max_size=20), st.floats(0, 0.5), st.floats(0.5, 1), st.floats(0, 0.5))
def test_every_pivot_is_within_the_bounds_and_everything_within_them_is_one(
    rewards: list[tuple[float, ...]], low: float, high: float, spread: float
) -> None:
    options = SelectionOptions(samples=4, min_mean=low, max_mean=high, min_spread=spread, max_rows_per_trajectory=100)
    candidates = [SampledCandidate(str(number), "t", own) for number, own in enumerate(rewards)]
    choices = choose(candidates, options)
    for candidate in candidates:
        within = len(candidate.rewards) >= 4 and low <= candidate.mean <= high and candidate.spread >= spread
        assert (choices[candidate.uuid] == "pivot") == within


def test_of_one_trajectory_those_with_the_widest_spread_are_taken() -> None:
    options = SelectionOptions(samples=4, max_rows_per_trajectory=1)
    candidates = [SampledCandidate("a", "t", (1, 0, 0, 0)), SampledCandidate("b", "t", (1, 1, 0, 0))]
    assert choose(candidates, options) == {"a": "over_the_limit", "b": "pivot"}


def test_no_repository_is_in_both_splits() -> None:
    names = [f"owner/{number}" for number in range(1000)]
    validation = [name for name in names if split_of(name, 0.1) == "validation"]
    assert 60 < len(validation) < 140
    assert all(split_of(name, 0.1) == "validation" for name in validation)
    assert {split_of(name, 0.0) for name in names} == {"train"}


@pytest.fixture
def policy_url() -> Iterator[str]:
    """A policy that answers one of two commands by chance."""
    draw = random.Random(7)

    def answer(_body: JsonObject, _nth: int) -> ScriptedAnswer:
        return ScriptedAnswer(calls=(("bash", json.dumps({"command": draw.choice(["ls src", "pytest -q"])})),))

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    upstream = ScriptedUpstream(answer)
    asyncio.run_coroutine_threadsafe(upstream.__aenter__(), loop).result()
    yield upstream.url
    asyncio.run_coroutine_threadsafe(upstream.__aexit__(None, None, None), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def config(tmp_path: Path, policy_url: str) -> Path:
    agent = {
        "resources_server": {"type": "resources_servers", "name": "pivot"},
        "model_server": {"type": "models_servers", "name": "policy"},
    }
    policy = {"base_url": policy_url, "api_key": "none", "model": "drawn"}
    tree = {
        "pivot": {"resources_servers": {"pivot": {}}},
        "agent": {"agents": {"single_step": agent}},
        "policy": {"models_servers": {"openai": policy}},
    }
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path


def test_rows_are_where_the_policys_answers_differ_in_reward(tmp_path: Path, config: Path) -> None:
    trajectories = tmp_path / "trajectories.jsonl"
    steps = [sh("ls src"), sh("cat setup.py"), sh("pytest -q", "1 failed"), sh("git status")]
    records = [chat(*steps, name="one", repo="a/b", cwd="/r"), chat(*steps, name="two", instance_id="tested__x-1")]
    trajectories.write_bytes(b"\n".join(map(orjson.dumps, records)))
    held_out = tmp_path / "test.jsonl"
    held_out.write_text('{"instance_id": "tested__x-1"}\n')
    out = tmp_path / "out"
    command = ["pivot", "mine", str(trajectories), "--config", str(config), "--out", str(out), "--quiet"]
    command += ["--exclude", str(held_out), "--validation-share", "0"]
    assert main(command) == 0
    rows = [orjson.loads(line) for line in (out / "train.jsonl").read_bytes().splitlines()]
    assert [json.loads(row["expected_action"]["arguments"])["command"] for row in rows] == ["ls src", "pytest -q"]
    assert all(0.1 <= row["metadata"]["mean_reward"] <= 0.9 for row in rows)
    assert {row["cwd"] for row in rows} == {"/r"}
    report = orjson.loads((out / "report.json").read_bytes())
    assert report["choices"] == {"pivot": 2, "too_hard": 2}
    assert report["steps"]["contaminated"] == 4
    before = (out / "report.md").read_bytes()
    assert main(command) == 2
    assert main([*command, "--resume"]) == 0
    assert (out / "report.md").read_bytes() == before


def test_several_trajectories_of_one_instance_have_rewards_of_their_own(tmp_path: Path, config: Path) -> None:
    trajectories = tmp_path / "trajectories.jsonl"
    steps = [[sh("ls src"), sh("cat a.py")], [sh("git status"), sh("pytest -q")], [sh("ls src", "a.py"), sh("pwd")]]
    records = [chat(*own, name="a__b-1", instance_id="a__b-1") for own in steps]
    trajectories.write_bytes(b"\n".join(map(orjson.dumps, records)))
    out = tmp_path / "out"
    command = ["pivot", "mine", str(trajectories), "--config", str(config), "--out", str(out), "--quiet"]
    assert main([*command, "--validation-share", "0"]) == 0
    report = orjson.loads((out / "report.json").read_bytes())
    assert report["steps"] | {"candidates": 5, "duplicate": 1} == report["steps"]
    assert report["choices"] == {"pivot": 2, "too_hard": 3}
    rows = [orjson.loads(line) for line in (out / "train.jsonl").read_bytes().splitlines()]
    assert [row["uuid"] for row in rows] == ["a__b-1:0", "a__b-1#2:1"]


def test_mistakes_are_told_before_anything_is_written(
    tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "none.jsonl"
    empty.write_text("")
    base = ["pivot", "mine", "--config", str(config), "--out", str(tmp_path / "out")]
    for more, why in [
        (["no/such/file"], "is not there"),
        ([str(empty)], "no step of these trajectories"),
        ([str(empty), "--min-mean", "0.9", "--max-mean", "0.1"], "is above max_mean"),
        ([str(empty), "--exclude", str(config)], "instance_id"),
    ]:
        assert main([*base, *more]) == 2
        assert why in capsys.readouterr().err
    lines = orjson.dumps(chat(sh("ls src")))
    empty.write_bytes(lines)
    assert main(["pivot", "mine", str(empty), "--config", "no_such.yaml", "--out", str(tmp_path / "out")]) == 2
    assert "no_such.yaml" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.skipif(not shutil.which("busybox"), reason="no busybox here")
def test_answers_at_steps_that_were_played_again_are_run(tmp_path: Path, config: Path) -> None:
    steps = [sh("ls src", "a.py"), sh("echo 1 > b.py", ""), sh("ls src -1", "a.py"), sh("cat b.py", "2"), sh("ls -a")]
    trajectories = tmp_path / "trajectories.jsonl"
    trajectories.write_bytes(orjson.dumps(chat(*steps, name="one", repo="a/b")))
    images = tmp_path / "images.json"
    out = tmp_path / "out"
    command = ["pivot", "mine", str(trajectories), "--out", str(out), "--quiet"]
    command += ["--validation-share", "0", "--replay", "--images", str(images)]
    with sandbox_home() as home:
        name = repository_image(store_of(home), "repo", {"src/a.py": "x = 1\n"})
        images.write_bytes(orjson.dumps({"a/b": {"image": name, "workdir": WORKDIR}}))
        block = "pivot.resources_servers.pivot"
        command += ["--config", str(config), f"{block}.comparator=executed", f"{block}.executed.sandbox.home={home}"]
        assert main(command) == 0
        report = orjson.loads((out / "report.json").read_bytes())
        kept = [name for name in store_of(home).names() if name.startswith("pivot/")]
        assert main([*command, "--resume"]) == 0
    rows = [orjson.loads(line) for line in (out / "train.jsonl").read_bytes().splitlines()]
    assert [json.loads(row["expected_action"]["arguments"])["command"] for row in rows] == ["ls src", "ls src -1"]
    assert [row["snapshot"]["image"] for row in rows] == [name, *kept]
    assert report["steps"]["not_replayed"] == 1
    assert report["replays"]["ended_early"][0]["step"] == 3
