"""Claims about a whole collection: nothing is lost, nothing runs twice, and no failure becomes a number."""

import asyncio
import gc
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from paddock.collect import CollectionResult, Plan, Run, open_run
from paddock.collect.plan import GroupReader
from paddock.collect.workers import Crew, LocalWorker
from paddock.errors import ConfigError, InfraError
from paddock.server.running_servers import Runtime
from paddock.types import Rollout, Verdict

MakeCase = Callable[..., Plan]
RunPlan = Callable[..., Coroutine[Any, Any, CollectionResult]]
ReadLines = Callable[..., list[dict[str, Any]]]
ROW: dict[str, Any] = {"responses_create_params": {"input": "q"}, "answer": "yes"}


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.01)


def key(line: dict[str, Any]) -> tuple[int, int]:
    return line["_ng_task_index"], line["_ng_rollout_index"]


async def test_every_member_of_every_row_is_stored_once(
    make_case: MakeCase, run_plan: RunPlan, read_lines: ReadLines
) -> None:
    collected = await run_plan(make_case(7, repeats=3))
    assert sorted(map(key, read_lines("rollouts.jsonl"))) == [(row, member) for row in range(7) for member in range(3)]
    assert (collected.how, collected.n_verdicts, collected.n_rollouts) == ("finished", 21, 21)
    assert read_lines("failures.jsonl") == []


async def test_a_row_is_stamped_with_its_run_group_member_and_attempt(
    make_case: MakeCase, run_plan: RunPlan, read_lines: ReadLines
) -> None:
    plan = make_case(2, repeats=2)
    await run_plan(plan)
    for line in read_lines("rollouts.jsonl"):
        assert line["_paddock_run_id"] == plan.identity.run_id
        assert (line["_paddock_group_size"], line["_ng_attempt_index"]) == (2, 0)
        assert line["agent_ref"] == {"type": "agents", "name": "agent"}


async def test_results_hold_one_line_per_row_with_its_rewards(
    make_case: MakeCase, run_plan: RunPlan, read_lines: ReadLines
) -> None:
    await run_plan(make_case(3, repeats=2))
    results = sorted(read_lines("results.jsonl"), key=lambda line: line["group_id"])
    assert [(line["uuid"], line["rewards"], line["mean"]) for line in results] == [
        ("row-0", [0.0, 0.0], 0.0),
        ("row-1", [1.0, 1.0], 1.0),
        ("row-2", [1.0, 1.0], 1.0),
    ]


@pytest.mark.parametrize(
    ("grade", "outcome", "attempts"),
    [("raise", "verifier", 3), ("verifier", "verifier", 3), ("infra", "infra", 3), ("leak", "leak", 1)],
)
async def test_a_failure_is_tried_again_only_where_that_may_help(
    grade: str, outcome: str, attempts: int, make_case: MakeCase, run_plan: RunPlan, read_lines: ReadLines
) -> None:
    collected = await run_plan(make_case([ROW, {**ROW, "grade": grade}, ROW]))
    failures = read_lines("failures.jsonl")
    assert [line["outcome"] for line in failures] == [outcome] * attempts
    assert [line.get("final", False) for line in failures] == [False] * (attempts - 1) + [True]
    assert [line["attempt"] for line in failures] == list(range(attempts))
    assert all("reward" not in line for line in failures)
    assert collected.summary[0]["outcomes"] == {"completed": 2, outcome: 1}
    assert collected.summary[0]["mean_reward"] == 1.0


async def test_a_mended_failure_leaves_its_attempt_and_a_verdict(
    make_case: MakeCase, run_plan: RunPlan, read_lines: ReadLines
) -> None:
    collected = await run_plan(make_case([ROW], model={"fail_first": 2}))
    assert [line["kind"] for line in read_lines("failures.jsonl")] == ["upstream_status"] * 2
    assert [line["_ng_attempt_index"] for line in read_lines("rollouts.jsonl")] == [2]
    assert collected.summary[0]["outcomes"] == {"completed": 1}


@pytest.mark.parametrize("fail", ["refuse", "raise"])
async def test_a_failure_that_says_it_stays_is_not_tried_again(
    fail: str, make_case: MakeCase, run_plan: RunPlan, read_lines: ReadLines
) -> None:
    await run_plan(make_case([ROW], model={"fail": fail, "fail_first": 9}))
    assert [line["final"] for line in read_lines("failures.jsonl")] == [True]


async def test_wrong_rows_end_as_row_and_the_others_run(
    make_case: MakeCase, run_plan: RunPlan, read_lines: ReadLines
) -> None:
    bad: list[Any] = [b"{not json", b"[]", {"answer": "x"}, {"responses_create_params": {"input": 5}, "answer": "x"}]
    bad += [{"responses_create_params": {"input": "q"}}, {**ROW, "reward": 1.0}]
    collected = await run_plan(make_case([ROW, *bad, ROW], repeats=2))
    assert collected.summary[0]["outcomes"] == {"completed": 4, "row": 12}
    failures = {line["group_id"]: line for line in read_lines("failures.jsonl")}
    assert all(line["owner"] == "row" and line["final"] for line in failures.values())
    words = ["no JSON", "needs a JSON object", "responses_create_params", "input", "answer", "`reward`"]
    for index, word in enumerate(words, 1):
        assert word in failures[index]["message"]
    for index in (1, 2, 3, 4, 6):
        assert f"rows.jsonl:{index + 1}" in failures[index]["message"]


async def test_a_row_of_an_unknown_agent_ends_as_row_and_names_the_nearest(
    make_case: MakeCase, run_plan: RunPlan, read_lines: ReadLines
) -> None:
    collected = await run_plan(make_case([ROW, {**ROW, "agent_ref": {"name": "agnet"}}]))
    assert [run["outcomes"] for run in collected.summary] == [{"completed": 1}, {"row": 1}]
    assert (
        "rows.jsonl:2: agent_ref.name: no agent 'agnet'; nearest: 'agent'" in read_lines("failures.jsonl")[0]["message"]
    )


async def test_a_rollout_that_never_answers_is_ended_as_infra(
    make_case: MakeCase, run_plan: RunPlan, read_lines: ReadLines
) -> None:
    plan = make_case([ROW, {**ROW, "grade": "hang"}], rollout_timeout_s=1.0, max_attempts=1)
    collected = await run_plan(plan)
    assert collected.summary[0]["outcomes"] == {"completed": 1, "infra": 1}
    assert [line["kind"] for line in read_lines("failures.jsonl")] == ["timeout"]


async def test_thirty_percent_failing_rollouts_still_end_in_verdicts(
    make_case: MakeCase, run_plan: RunPlan, read_lines: ReadLines
) -> None:
    collected = await run_plan(make_case(300, model={"fail_share": 0.3}, max_attempts=8))
    ended = {key(line) for line in read_lines("rollouts.jsonl")}
    given_up = {(line["group_id"], line["member"]) for line in read_lines("failures.jsonl") if line.get("final")}
    assert len(ended | given_up) == 300
    assert collected.n_verdicts >= 297
    assert len(read_lines("failures.jsonl")) > 50


async def test_resume_runs_exactly_what_is_missing(
    make_case: MakeCase, run_plan: RunPlan, read_lines: ReadLines, tmp_path: Path
) -> None:
    plan = make_case(6, repeats=2)
    await run_plan(plan)
    rollouts = tmp_path / "run" / "rollouts.jsonl"
    kept = rollouts.read_bytes().splitlines(keepends=True)[:7]
    rollouts.write_bytes(b"".join(kept))
    collected = await run_plan(make_case(6, repeats=2), resume=True)
    lines = rollouts.read_bytes().splitlines(keepends=True)
    assert lines[:7] == kept
    assert sorted(map(key, read_lines("rollouts.jsonl"))) == [(row, member) for row in range(6) for member in range(2)]
    assert (collected.n_verdicts, len(read_lines("results.jsonl"))) == (12, 6)
    assert {line["_paddock_run_id"] for line in read_lines("rollouts.jsonl")} == {plan.identity.run_id}


async def test_a_finished_run_resumed_changes_nothing(
    make_case: MakeCase, run_plan: RunPlan, read_lines: ReadLines, tmp_path: Path
) -> None:
    first = await run_plan(make_case(4))
    before = (tmp_path / "run" / "rollouts.jsonl").read_bytes()
    again = await run_plan(make_case(4), resume=True)
    assert (tmp_path / "run" / "rollouts.jsonl").read_bytes() == before
    assert again.summary[0]["mean_reward"] == first.summary[0]["mean_reward"]
    assert len(read_lines("results.jsonl")) == 4


async def test_resume_tries_failures_again_but_not_wrong_rows_and_leaks(
    make_case: MakeCase, run_plan: RunPlan, read_lines: ReadLines
) -> None:
    rows = [ROW, {"responses_create_params": {"input": "q"}}, {**ROW, "grade": "leak"}]
    first = await run_plan(make_case(rows, model={"fail_first": 9}, max_attempts=1))
    assert first.summary[0]["outcomes"] == {"infra": 2, "row": 1}
    # The model has recovered; its block is part of what the run is, so it fails by count and not by config.
    before = len(read_lines("failures.jsonl"))
    second = await run_plan(make_case(rows, model={"fail_first": 9}, max_attempts=12), resume=True)
    assert second.summary[0]["outcomes"] == {"completed": 1, "leak": 1, "row": 1}
    retried = read_lines("failures.jsonl")[before:]
    assert {line["group_id"] for line in retried} == {0, 2}
    assert min(line["attempt"] for line in retried) == 1
    third = len(read_lines("failures.jsonl"))
    await run_plan(make_case(rows, model={"fail_first": 9}, max_attempts=12), resume=True)
    assert len(read_lines("failures.jsonl")) == third


async def test_rows_that_failed_are_tried_again_where_that_is_asked_for(
    make_case: MakeCase, run_plan: RunPlan, read_lines: ReadLines, tmp_path: Path
) -> None:
    rows = [ROW, {**ROW, "grade": "row"}, {**ROW, "grade": "leak"}]
    await run_plan(make_case(rows))
    await run_plan(make_case(rows), resume=True)
    assert [line["outcome"] for line in read_lines("failures.jsonl")] == ["row", "leak"]
    mended = tmp_path / "run" / "failures.jsonl"
    first = mended.read_bytes()
    collected = await run_plan(make_case(rows, retry="row"), resume=True)
    again = read_lines("failures.jsonl")
    assert mended.read_bytes().startswith(first)
    assert [(line["outcome"], line["attempt"]) for line in again] == [("row", 0), ("leak", 0), ("row", 1)]
    assert collected.summary[0]["outcomes"] == {"completed": 1, "row": 1, "leak": 1}


@pytest.mark.parametrize(
    ("retry", "why"), [("infra", "tried again by every"), ("row,leak", "would flatter"), ("rows", "'row'")]
)
def test_what_can_not_be_tried_again_is_refused_with_its_reason(make_case: MakeCase, retry: str, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        make_case(1, retry=retry)


async def test_a_folder_that_goes_away_in_mid_run_is_one_error_and_no_warning(
    make_case: MakeCase, run_plan: RunPlan, tmp_path: Path
) -> None:
    task = asyncio.create_task(run_plan(make_case(40, model={"delay_s": 0.05}, concurrency=2)))
    stored = tmp_path / "run/rollouts.jsonl"
    await until(lambda: stored.exists() and stored.read_bytes().count(b"\n") >= 2)
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(InfraError, match=r"run.json: can't be read"):
        await task
    gc.collect()


async def test_pace_is_that_of_all_commands(make_case: MakeCase, run_plan: RunPlan, tmp_path: Path) -> None:
    first = await run_plan(make_case(6))
    pace = (first.summary[0]["rollouts_per_s"], first.summary[0]["seconds"]["wall"])
    again = await run_plan(make_case(6), resume=True)
    assert (again.summary[0]["rollouts_per_s"], again.summary[0]["seconds"]["wall"]) == pace
    rollouts = tmp_path / "run" / "rollouts.jsonl"
    rollouts.write_bytes(b"".join(rollouts.read_bytes().splitlines(keepends=True)[:4]))
    (third,) = (await run_plan(make_case(6), resume=True)).summary
    assert third["seconds"]["wall"] > pace[1]
    assert third["rollouts_per_s"] * third["seconds"]["wall"] == pytest.approx(8)


async def test_a_torn_last_line_is_cut_off_and_its_rollout_runs_again(
    make_case: MakeCase, run_plan: RunPlan, read_lines: ReadLines, tmp_path: Path
) -> None:
    await run_plan(make_case(5))
    rollouts = tmp_path / "run" / "rollouts.jsonl"
    rollouts.write_bytes(rollouts.read_bytes()[:-40])
    collected = await run_plan(make_case(5), resume=True)
    assert collected.n_verdicts == 5
    assert sorted(map(key, read_lines("rollouts.jsonl"))) == [(row, 0) for row in range(5)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"repeats": 3}, ["repeats", "1 before, 3 now"]),
        ({"limit": 2}, ["end: None before, 2 now"]),
        ({"rows": 6}, ["rows in", "5 rows before", "6 now"]),
        ({"model": {"answer": "no"}}, ["the config differs", "answer"]),
        ({"oracle": True}, ["oracle: False before, True now"]),
    ],
)
async def test_resuming_another_run_is_refused_in_words(
    change: dict[str, Any], words: list[str], make_case: MakeCase, run_plan: RunPlan, tmp_path: Path
) -> None:
    await run_plan(make_case(5))
    before = (tmp_path / "run" / "rollouts.jsonl").read_bytes()
    with pytest.raises(ConfigError) as caught:
        await run_plan(make_case(change.pop("rows", 5), **change), resume=True)
    for word in words:
        assert word in caught.value.message
    assert (tmp_path / "run" / "rollouts.jsonl").read_bytes() == before


async def test_another_model_of_the_same_config_is_another_run(
    make_case: MakeCase, run_plan: RunPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_MODEL", "small")
    await run_plan(make_case(2, model={"model": "${oc.env:SOME_MODEL}"}))
    monkeypatch.setenv("SOME_MODEL", "large")
    with pytest.raises(ConfigError, match="model of agent: small before, large now"):
        await run_plan(make_case(2, model={"model": "${oc.env:SOME_MODEL}"}), resume=True)


async def test_pace_and_places_may_change_on_resume(make_case: MakeCase, run_plan: RunPlan) -> None:
    await run_plan(make_case(3))
    moved = make_case(3, concurrency=2, max_attempts=9, model={"port": 4567})
    assert (await run_plan(moved, resume=True)).n_verdicts == 3


async def test_a_folder_with_a_run_is_refused_without_resume(make_case: MakeCase, run_plan: RunPlan) -> None:
    await run_plan(make_case(2))
    with pytest.raises(ConfigError, match=r"holds a run already.*--resume"):
        await run_plan(make_case(2))


async def test_a_mistake_found_at_start_leaves_the_folder_to_the_command_without_it(
    make_case: MakeCase, run_plan: RunPlan, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="graed"):
        await run_plan(make_case(2, environment={"graed": "raise"}))
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["run.lock"]
    assert (await run_plan(make_case(2))).n_verdicts == 2


async def test_a_mistake_found_on_resuming_leaves_the_run_as_it_was(make_case: MakeCase, run_plan: RunPlan) -> None:
    await run_plan(make_case(2))
    with pytest.raises(ConfigError, match="holds another run"):
        await run_plan(make_case(3), resume=True)
    assert (await run_plan(make_case(2), resume=True)).n_verdicts == 2


async def test_two_collectors_can_not_share_a_folder(make_case: MakeCase, run_plan: RunPlan, tmp_path: Path) -> None:
    first = asyncio.create_task(run_plan(make_case([{**ROW, "grade": "hang"}])))
    await until((tmp_path / "run/rollouts.jsonl").exists)
    with pytest.raises(ConfigError, match="is collecting into it"):
        await run_plan(make_case([{**ROW, "grade": "hang"}]), resume=True)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)


async def test_a_cancelled_collection_keeps_what_ended_and_can_be_resumed(
    make_case: MakeCase, run_plan: RunPlan, read_lines: ReadLines, tmp_path: Path
) -> None:
    case = {"model": {"delay_s": 0.1}, "concurrency": 4}
    task = asyncio.create_task(run_plan(make_case(40, **case)))
    stored = tmp_path / "run/rollouts.jsonl"
    await until(lambda: stored.exists() and stored.read_bytes().count(b"\n") >= 4)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    ended = len(read_lines("rollouts.jsonl"))
    assert 4 <= ended < 40
    collected = await run_plan(make_case(40, **case), resume=True)
    assert collected.n_verdicts == 40
    assert len({key(line) for line in read_lines("rollouts.jsonl")}) == len(read_lines("rollouts.jsonl")) == 40
    assert read_lines("failures.jsonl") == []


@pytest.mark.slow
async def test_the_deadline_of_the_run_ends_it_and_it_can_be_resumed(make_case: MakeCase, run_plan: RunPlan) -> None:
    case = {"model": {"delay_s": 0.1}, "concurrency": 2}
    collected = await run_plan(make_case(40, deadline_s=1.0, **case))
    assert collected.how == "deadline"
    assert 0 < collected.n_verdicts < 40
    assert (await run_plan(make_case(40, **case), resume=True)).n_verdicts == 40


async def test_no_more_rollouts_are_in_flight_than_allowed(make_case: MakeCase, tmp_path: Path) -> None:
    seen = Peaks()
    plan = make_case(30, concurrency=4)
    with open_run(plan, tmp_path / "run") as run:
        await run.collect(crew_of(run, seen))
    assert seen.peak == 4


async def test_each_attempt_has_a_secret_of_its_own(make_case: MakeCase, tmp_path: Path) -> None:
    peer = Peaks(fail=True)
    with open_run(make_case([ROW], repeats=2), tmp_path / "run") as run:
        await run.collect(crew_of(run, peer))
    assert len(set(peer.secrets)) == len(peer.secrets) == 6
    for file in (tmp_path / "run").iterdir():
        assert not any(secret.encode() in file.read_bytes() for secret in peer.secrets)


async def test_servers_that_are_given_up_end_the_collection(make_case: MakeCase, tmp_path: Path) -> None:
    plan = make_case([ROW] * 3)
    runtime = Runtime(plan.config, {})
    asyncio.get_running_loop().call_later(0.05, runtime.fail, InfraError("it is gone"))
    with open_run(plan, tmp_path / "run") as run:
        collected = await run.collect(crew_of(run, Peaks(delay_s=30.0), runtime))
    assert (collected.how, collected.n_verdicts, collected.why) == ("servers_failed", 0, "it is gone")


async def test_shards_are_disjoint_and_together_the_whole(
    make_case: MakeCase, run_plan: RunPlan, read_lines: ReadLines
) -> None:
    await run_plan(make_case(10, repeats=2), "whole")
    for shard in range(3):
        await run_plan(make_case(10, repeats=2, shard=f"{shard}/3"), f"shard{shard}")
    parts = [key(line) for shard in range(3) for line in read_lines("rollouts.jsonl", f"shard{shard}")]
    assert sorted(parts) == sorted(map(key, read_lines("rollouts.jsonl", "whole")))


async def test_strict_rows_refuse_to_start_with_every_wrong_row_named(make_case: MakeCase) -> None:
    with pytest.raises(ConfigError) as caught:
        make_case([ROW, {"responses_create_params": {"input": "q"}}, b"nonsense"], strict_rows=True)
    assert "2 of 3 rows are wrong" in caught.value.message
    assert "rows.jsonl:2: answer" in caught.value.message
    assert "rows.jsonl:3: no JSON" in caught.value.message


async def test_the_oracle_plays_known_good_turns(make_case: MakeCase, run_plan: RunPlan, read_lines: ReadLines) -> None:
    collected = await run_plan(make_case(6, oracle=True))
    assert collected.summary[0]["mean_reward"] == 1.0
    assert {line["rollout"]["engine"] for line in read_lines("rollouts.jsonl")} == {"text"}


def crew_of(run: Run, agent: "Peaks", runtime: Runtime | None = None) -> Crew:
    """A crew of one worker in this process, whose agent is a test's."""
    groups = GroupReader(run.plan.router, run.plan.identity.run_id)
    worker = LocalWorker({"agent": agent}, groups, run.plan.settings, run.plan.settings.concurrency)
    return Crew([worker], runtime)


class Peaks:
    """A peer that counts who is with it at once, and keeps the secrets it was called with."""

    name = "agent"

    def __init__(self, *, fail: bool = False, delay_s: float = 0.005) -> None:
        self.peak = self._now = 0
        self.secrets: list[str] = []
        self._fail = fail
        self._delay_s = delay_s
        self._verdict = Verdict(reward=1.0, reason="right")

    async def call(self, route: Any, request: Any, call: Any, **path: str) -> Any:
        self._now += 1
        self.peak = max(self.peak, self._now)
        self.secrets.append(call.rollout_secret)
        await asyncio.sleep(self._delay_s)
        self._now -= 1
        if self._fail:
            raise InfraError("scripted")
        return Rollout(row=request, outcome="completed", response={}, verdict=self._verdict)
