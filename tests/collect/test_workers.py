"""Claims about a collection over worker processes: it is that of one process, whatever becomes of the workers."""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.collect.worker_servers import started
from tests.sampling import few

from paddock.collect import CollectionResult, EvalSettings, Plan, evaluate, make_plan
from paddock.config import load
from paddock.errors import ConfigError
from paddock.models_servers.vllm.server import VllmServer
from paddock.server.runtime import shared_names

MakeCase = Callable[..., Plan]
RunPlan = Callable[..., Coroutine[Any, Any, CollectionResult]]
Begun = Callable[[], Coroutine[Any, Any, list[psutil.Process]]]
ReadLines = Callable[..., list[dict[str, Any]]]
ROOT = Path(__file__).parents[2]
ROW: dict[str, Any] = {"responses_create_params": {"input": "q"}, "answer": "yes"}
BY_ROW = "tests.collect.worker_servers:RowModel"
ONLY = "tests.collect.worker_servers:OnlyModel"
MIXED: list[Any] = [
    *({"responses_create_params": {"input": f"question {index}"}, "answer": "yes"} for index in range(20)),
    b"{not json",
    {**ROW, "grade": "leak"},
    {**ROW, "grade": "verifier"},
    {"responses_create_params": {"input": "q"}},
]


def policy(implementation: str, **block: Any) -> dict[str, Any]:
    """Top-level keys that put a model of ours in the place of the scripted one."""
    return {"policy": {"models_servers": {implementation: block}}}


def workers() -> list[psutil.Process]:
    """The worker processes of this one, without their supervisors."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            words = process.cmdline()
            if words[-1:] == ["paddock.collect.worker_main"] and "supervisor.py" not in " ".join(words):
                found.append(process)
    return found


async def until(holds: Callable[[], Any]) -> Any:
    async with asyncio.timeout(60):
        while not (value := holds()):
            await asyncio.sleep(0.01)
        return value


@asynccontextmanager
async def collecting(work: Coroutine[Any, Any, CollectionResult]) -> AsyncIterator["asyncio.Task[CollectionResult]"]:
    """A collection that runs meanwhile; none of its workers is left in the end."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert workers() == []


@pytest.fixture(autouse=True)
def _plugins_of_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes find the servers of these tests by the path that they are handed."""
    monkeypatch.syspath_prepend(ROOT)


@pytest.fixture
def begun(tmp_path: Path) -> Begun:
    """The workers, when each has started and jobs are given out."""

    async def wait() -> list[psutil.Process]:
        await until((tmp_path / "run/rollouts.jsonl").exists)
        return workers()

    return wait


def verdicts(read_lines: ReadLines, name: str) -> Any:
    """What a run says of each of its rollouts, without times and ids."""
    rollouts = {
        (line["_ng_task_index"], line["_ng_rollout_index"]): (line["reward"], line["_ng_attempt_index"])
        for line in read_lines("rollouts.jsonl", name)
    }
    failures = sorted(
        (line["group_id"], line["member"], line["attempt"], line["kind"], line.get("final", False))
        for line in read_lines("failures.jsonl", name)
    )
    results = sorted(read_lines("results.jsonl", name), key=lambda line: line["group_id"])
    assert len(rollouts) == len(read_lines("rollouts.jsonl", name))
    return rollouts, failures, results


TIMES = ("seconds", "rollouts_per_s")


def numbers(collected: CollectionResult) -> list[dict[str, Any]]:
    return [{key: value for key, value in run.items() if key not in TIMES} for run in collected.summary]


@pytest.mark.parametrize("n_workers", [2, 3])
async def test_workers_give_what_one_process_gives(
    n_workers: int, make_case: MakeCase, run_plan: RunPlan, read_lines: ReadLines
) -> None:
    case = {"repeats": 2, "concurrency": 7, "top": policy(BY_ROW)}
    alone = await run_plan(make_case(MIXED, **case), "alone")
    together = await run_plan(make_case(MIXED, workers=n_workers, **case), "together")
    assert verdicts(read_lines, "together") == verdicts(read_lines, "alone")
    assert numbers(together) == numbers(alone)
    assert (together.how, together.n_verdicts) == ("finished", 40)
    assert 0 < together.summary[0]["mean_reward"] < 1


@pytest.mark.slow
async def test_the_oracle_plays_in_each_worker(
    run_plan: RunPlan, read_lines: ReadLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"):
        monkeypatch.setenv(name, "none")
    config = load(["configs/demo.yaml"])
    for name, count in (("alone", 1), ("together", 2)):
        await run_plan(make_plan(config, EvalSettings(workers=count), oracle=True), name)
    assert verdicts(read_lines, "together") == verdicts(read_lines, "alone")


@pytest.mark.slow
async def test_members_that_are_judged_together_run_at_one_worker(
    tmp_path: Path, run_plan: RunPlan, read_lines: ReadLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"):
        monkeypatch.setenv(name, "none")
    for name, count in (("alone", 1), ("together", 2)):
        state = f"+genrm.resources_servers.genrm.state_dir={tmp_path / name / 'state'}"
        config = load(["configs/genrm.yaml"], [state])
        await run_plan(make_plan(config, EvalSettings(workers=count, concurrency=8), oracle=True), name)
    assert verdicts(read_lines, "together") == verdicts(read_lines, "alone")
    reasons = {line["rollout"]["verdict"]["reason"] for line in read_lines("rollouts.jsonl", "together")}
    assert reasons == {"scored"}


def test_too_little_room_for_a_group_at_each_worker_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"):
        monkeypatch.setenv(name, "none")
    config = load(["configs/genrm.yaml"])
    with pytest.raises(ConfigError, match=r"7 rollouts at once with 2 workers, so 3 at one, .* needs at least 8"):
        make_plan(config, EvalSettings(workers=2, concurrency=7), oracle=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(20), [0], mark=pytest.mark.long))
async def test_killed_workers_cost_attempts_and_no_rollout(
    seed: int, make_case: MakeCase, run_plan: RunPlan, read_lines: ReadLines, begun: Begun
) -> None:
    chance = random.Random(seed)
    top = {**policy(BY_ROW, delay_s=0.02), "serve": {"restart_wait_s": 0.05}}
    plan = make_case(60, repeats=2, workers=2, concurrency=6, max_attempts=50, top=top)
    async with collecting(run_plan(plan)) as task:
        await begun()
        n_killed = 0
        while not task.done() and n_killed < 3:
            await until(lambda: task.done() or workers())
            await asyncio.sleep(chance.random() * 1.5)
            for process in chance.sample(workers(), k=min(1, len(workers()))):
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGKILL)
                    n_killed += 1
        collected = await task
    assert (collected.how, collected.n_verdicts) == ("finished", 120)
    rollouts, failures, results = verdicts(read_lines, "run")
    assert sorted(rollouts) == [(row, member) for row in range(60) for member in range(2)]
    assert {(kind, final) for *_, kind, final in failures} <= {("worker_lost", False)}
    lost = {(row, member): attempt + 1 for row, member, attempt, *_ in failures}
    assert all(attempt == lost.get(key, 0) for key, (_, attempt) in rollouts.items())
    assert len(results) == 60


@pytest.mark.slow
async def test_a_killed_worker_s_group_moves_as_one(
    begun: Begun, tmp_path: Path, read_lines: ReadLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"):
        monkeypatch.setenv(name, "none")
    state = f"+genrm.resources_servers.genrm.state_dir={tmp_path / 'state'}"
    slow = {"models_servers": {"paddock.testing.judges:ScriptedJudge": {"delay_s": 1.0}}}
    config = load(["configs/genrm.yaml"], [state], extra={"serve": {"restart_wait_s": 0.05}, "scripted_judge": slow})
    settings = EvalSettings(workers=2, concurrency=8, retry_wait_s=0)
    async with collecting(evaluate(make_plan(config, settings, oracle=True), tmp_path / "run", quiet=True)) as task:
        (victim, _) = await begun()
        await asyncio.sleep(0.5)
        victim.kill()
        collected = await task
    assert collected.n_verdicts == collected.n_rollouts
    assert {line["kind"] for line in read_lines("failures.jsonl")} == {"worker_lost"}
    verdicts(read_lines, "run")


@pytest.mark.slow
async def test_a_row_that_kills_its_workers_ends_without_a_verdict(
    make_case: MakeCase, run_plan: RunPlan, read_lines: ReadLines
) -> None:
    deadly = {"responses_create_params": {"input": "deadly"}, "answer": "yes"}
    top = {**policy(BY_ROW), "serve": {"restart_wait_s": 0}}
    plan = make_case([*[ROW] * 9, deadly], workers=2, concurrency=2, max_attempts=3, top=top)
    async with collecting(run_plan(plan)) as task:
        collected = await task
    assert (collected.how, collected.summary[0]["outcomes"]) == ("finished", {"completed": 9, "infra": 1})
    failures = read_lines("failures.jsonl")
    assert [(line["group_id"], line["attempt"], line.get("final", False)) for line in failures] == [
        (9, 0, False),
        (9, 1, False),
        (9, 2, True),
    ]
    assert {(line["kind"], line["message"]) for line in failures} == {
        ("worker_lost", "its worker was killed by SIGKILL")
    }


@pytest.mark.slow
async def test_a_worker_that_gives_no_sign_is_replaced(
    make_case: MakeCase, run_plan: RunPlan, read_lines: ReadLines, begun: Begun
) -> None:
    top = {**policy(BY_ROW, delay_s=2), "serve": {"restart_wait_s": 0}}
    plan = make_case([ROW] * 2, workers=2, concurrency=2, worker_silence_s=3.0, top=top)
    async with collecting(run_plan(plan)) as task:
        (victim, _) = await begun()
        victim.suspend()
        collected = await task
    assert (collected.how, collected.n_verdicts) == ("finished", 2)
    assert all("gave no sign for 3 s" in line["message"] for line in read_lines("failures.jsonl"))


@pytest.mark.slow
async def test_a_run_ends_when_no_worker_can_be_started(
    make_case: MakeCase, run_plan: RunPlan, tmp_path: Path, begun: Begun
) -> None:
    starts = tmp_path / "starts"
    top = {
        **policy(BY_ROW, delay_s=300, starts=str(starts), max_starts=2),
        "serve": {"restart_wait_s": 0, "max_restarts": 2},
    }
    async with collecting(run_plan(make_case(4, workers=2, concurrency=2, top=top))) as task:
        for process in await begun():
            process.kill()
        collected = await task
    assert (collected.how, collected.n_verdicts) == ("servers_failed", 0)
    assert collected.why is not None
    assert "no worker is left: the last did not start" in collected.why
    assert "it does not start again, and was restarted 2 times already" in collected.why
    assert len(started(starts)) == 6


@pytest.mark.slow
async def test_failures_of_one_cause_stop_workers_too(make_case: MakeCase, run_plan: RunPlan) -> None:
    plan = make_case(60, workers=2, concurrency=4, environment={"grade": "infra"}, stop_after_failures=20)
    collected = await run_plan(plan)
    assert collected.how == "one_cause"
    assert workers() == []


@pytest.mark.slow
async def test_the_deadline_stops_workers_and_the_run_goes_on_in_one_process(
    make_case: MakeCase, run_plan: RunPlan, read_lines: ReadLines
) -> None:
    case = {"concurrency": 4, "top": policy(BY_ROW, delay_s=0.2)}
    collected = await run_plan(make_case(40, workers=2, deadline_s=1.0, **case))
    assert collected.how == "deadline"
    assert workers() == []
    assert 0 < collected.n_verdicts < 40
    assert (await run_plan(make_case(40, **case), resume=True)).n_verdicts == 40
    verdicts(read_lines, "run")


@pytest.mark.slow
async def test_a_cancelled_collection_leaves_no_worker_and_can_be_resumed(
    make_case: MakeCase, run_plan: RunPlan, read_lines: ReadLines, tmp_path: Path
) -> None:
    case = {"workers": 2, "concurrency": 4, "top": policy(BY_ROW, delay_s=0.1)}
    stored = tmp_path / "run/rollouts.jsonl"
    async with collecting(run_plan(make_case(40, **case))) as task:
        await until(lambda: stored.exists() and stored.read_bytes().count(b"\n") >= 4)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert read_lines("failures.jsonl") == []
    assert (await run_plan(make_case(40, **case), resume=True)).n_verdicts == 40
    verdicts(read_lines, "run")


@pytest.mark.slow
async def test_of_what_there_can_be_only_one_is_started_once(
    make_case: MakeCase, run_plan: RunPlan, read_lines: ReadLines, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    case = {"concurrency": 4, "repeats": 2}
    await run_plan(make_case(MIXED, top=policy(BY_ROW), **case), "alone")
    await run_plan(make_case(MIXED, workers=3, top=policy(ONLY, starts=str(starts)), **case), "together")
    (pid,) = started(starts)
    assert pid != os.getpid()
    assert verdicts(read_lines, "together") == verdicts(read_lines, "alone")


@pytest.mark.parametrize(("judge", "shared"), [("scripted_judge", []), ("genrm_model", ["genrm_model"])])
def test_judges_and_engines_serve_all_workers(judge: str, shared: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"):
        monkeypatch.setenv(name, "none")
    config = load(["configs/genrm.yaml"], [f"vars.judge={judge}"])
    assert shared_names(config, ["genrm_agent"]) == shared
    assert VllmServer.SHARED


@pytest.mark.slow
async def test_progress_names_what_hangs_in_a_worker(
    make_case: MakeCase, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plan = make_case([ROW, {**ROW, "grade": "hang"}], workers=2, concurrency=2, progress_every_s=0.3)
    said = ""

    def waits() -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return any("1/2 | " in line and "waiting for 1-0 in verify for " in line for line in said.splitlines())

    async with collecting(evaluate(plan, tmp_path / "run")):
        await until(waits)


async def test_what_is_wrong_with_a_config_is_said_before_a_worker_starts(
    make_case: MakeCase, run_plan: RunPlan, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="graed"):
        await run_plan(make_case(2, workers=2, environment={"graed": "raise"}))
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["run.lock"]
