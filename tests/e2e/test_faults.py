"""Claims about the whole line under faults: no failure becomes a reward, everything ends, nothing is lost, all resumes.

Real servers, a real upstream on loopback that fails on cue, real kills.
"""

import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest
from tests.sampling import few
from tests.support.processes import CommandProcess, gone, running

from paddock.cli import main
from paddock.collect import EvalSettings, evaluate, make_plan
from paddock.config import Config, load
from paddock.errors import ConfigError
from paddock.testing import ErrorStatus, ScriptedAnswer, ScriptedUpstream, first, share
from paddock.testing.upstream import Fault
from paddock.types import REWARDED, JsonObject

CONFIGS = ("resources_servers/pivot/configs/pivot.yaml", "models_servers/openai/configs/openai.yaml")
POLICY = "policy_model.models_servers.openai"
EXPECTED = '{"command": "pytest -q"}'
SAID = ScriptedAnswer(calls=(("bash", EXPECTED),))
NEVER = 10**9


def rows(path: Path, count: int) -> Path:
    action = {"type": "function_call", "name": "bash", "arguments": EXPECTED}
    line = {"responses_create_params": {"input": "run the tests"}, "expected_action": action}
    path.write_bytes(b"".join(orjson.dumps({**line, "uuid": str(index)}) + b"\n" for index in range(count)))
    return path


def lines(path: Path) -> list[JsonObject]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def config(url: str, **fields: float) -> Config:
    policy = (f"policy_base_url={url}", "policy_api_key=none", "policy_model_name=scripted")
    return load(CONFIGS, [*policy, *(f"{POLICY}.{key}={value}" for key, value in fields.items())])


def settings(data: Path, **fields: Any) -> EvalSettings:
    return EvalSettings(rows=[str(data)], retry_wait_s=0.0, **fields)


def assert_lawful(folder: Path, count: int) -> Counter[str]:
    """Every row ended, exactly one way; whatever has a reward has a verdict, and only that enters the mean."""
    rollouts, failures = lines(folder / "rollouts.jsonl"), lines(folder / "failures.jsonl")
    final = [line for line in failures if line.get("final")]
    ended = [line["_ng_task_index"] for line in rollouts] + [line["group_id"] for line in final]
    assert sorted(ended) == list(range(count))
    assert all(line["rollout"]["outcome"] in REWARDED for line in rollouts)
    assert not any("reward" in line for line in failures)
    (summary,) = orjson.loads((folder / "summary.json").read_bytes())
    rewards = [line["reward"] for line in rollouts]
    assert summary["mean_reward"] == (pytest.approx(sum(rewards) / len(rewards)) if rewards else None)
    return Counter(summary["outcomes"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (ErrorStatus(500), "upstream_status"),
        (ErrorStatus(429, retry_after_s=0.01), "upstream_status"),
        ("hang", "upstream_timeout"),
        ("drop", "upstream_connection"),
        ("half_body", "upstream_connection"),
        ("not_json", "upstream_unreadable"),
        ("not_an_answer", "upstream_no_message"),
        (ErrorStatus(401), "upstream_auth"),
    ],
)
async def test_an_upstream_that_never_answers_well_gives_no_reward_and_ends(
    tmp_path: Path, fault: Fault, kind: str
) -> None:
    data = rows(tmp_path / "rows.jsonl", 3)
    async with ScriptedUpstream(SAID, faults=first(NEVER, fault)) as upstream:
        quick = config(upstream.url, timeout_s=0.3, attempts=2, first_retry_s=0.01, max_retry_s=0.01)
        plan = make_plan(quick, settings(data, max_attempts=2))
        started = time.monotonic()
        await evaluate(plan, tmp_path / "run", quiet=True)
    assert time.monotonic() - started < 60
    assert assert_lawful(tmp_path / "run", 3) == {"infra": 3}
    assert {(line["owner"], line["kind"], line.get("stage")) for line in lines(tmp_path / "run/failures.jsonl")} == {
        ("infra", kind, "model")
    }


TOO_LONG = "This model's maximum context length is 8192 tokens. However, "
PROMPT_TOO_LONG = (
    "your messages resulted in 9000 tokens.",
    "you requested 9008 tokens (9000 in the messages, 8 in the completion).",
)
BUDGET_TOO_LARGE = (
    "you requested 9000 tokens (1000 in the messages, 8000 in the completion).",
    "your request has 1000 input tokens and `max_tokens` is too large: 8000.",
)


@pytest.mark.parametrize("said", [*PROMPT_TOO_LONG, *BUDGET_TOO_LARGE])
async def test_a_prompt_that_is_too_long_truncates_a_rollout_and_a_budget_that_is_too_large_does_not(
    tmp_path: Path, said: str
) -> None:
    data = rows(tmp_path / "rows.jsonl", 1)
    refusal = ErrorStatus(400, TOO_LONG + said, "context_length_exceeded")
    async with ScriptedUpstream(SAID, faults=first(NEVER, refusal)) as upstream:
        await evaluate(make_plan(config(upstream.url), settings(data)), tmp_path / "run", quiet=True)
    fits = said in BUDGET_TOO_LARGE
    assert assert_lawful(tmp_path / "run", 1) == ({"infra": 1} if fits else {"truncated": 1})
    for line in lines(tmp_path / "run/rollouts.jsonl"):
        assert (line["reward"], line["rollout"]["turns"], line["response"]["output"]) == (0.0, [], [])
    for line in lines(tmp_path / "run/failures.jsonl"):
        assert line["kind"] == "context_length_exceeded"


async def test_a_wrong_model_or_path_is_named_with_its_url(tmp_path: Path) -> None:
    data = rows(tmp_path / "rows.jsonl", 1)
    async with ScriptedUpstream(SAID, faults=first(NEVER, ErrorStatus(404, "no such model"))) as upstream:
        await evaluate(make_plan(config(upstream.url), settings(data)), tmp_path / "run", quiet=True)
        assert upstream.calls == 1
    (line,) = lines(tmp_path / "run/failures.jsonl")
    assert (line["outcome"], line["owner"], line["kind"]) == ("infra", "infra", "upstream_not_found")
    for part in (f"{upstream.url}/chat/completions", "`scripted`", "no such model"):
        assert part in line["message"]


async def test_an_endpoint_that_is_not_there_is_named_and_no_tls_with_it(tmp_path: Path) -> None:
    data = rows(tmp_path / "rows.jsonl", 1)
    quick = config("http://127.0.0.1:1/v1", attempts=1)
    untried = settings(data, max_attempts=1, endpoint_timeout_s=0)
    await evaluate(make_plan(quick, untried), tmp_path / "run", quiet=True)
    (line,) = lines(tmp_path / "run/failures.jsonl")
    assert line["kind"] == "upstream_connection"
    assert "can't connect to 127.0.0.1:1: " in line["message"]
    assert "ssl" not in line["message"]


async def test_a_broken_run_is_completed_by_resuming_once_the_upstream_is_well(tmp_path: Path) -> None:
    data = rows(tmp_path / "rows.jsonl", 6)
    async with ScriptedUpstream(SAID, faults=first(NEVER, ErrorStatus(500))) as upstream:
        quick = config(upstream.url, attempts=1)
        plan = make_plan(quick, settings(data, max_attempts=2))
        await evaluate(plan, tmp_path / "run", quiet=True)
        assert assert_lawful(tmp_path / "run", 6) == {"infra": 6}
        upstream.faults = None
        await evaluate(plan, tmp_path / "run", resume=True, quiet=True)
    (summary,) = orjson.loads((tmp_path / "run/summary.json").read_bytes())
    assert (summary["outcomes"], summary["mean_reward"]) == ({"completed": 6}, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "spent"), [(100, 2), pytest.param(2000, 20, marks=pytest.mark.long)])
async def test_thirty_percent_errors_lose_no_row_and_few_spend_all_their_tries(
    count: int, spent: int, tmp_path: Path
) -> None:
    data = rows(tmp_path / "rows.jsonl", count)
    async with ScriptedUpstream(SAID, faults=share(0.3, ErrorStatus(500), seed=1)) as upstream:
        plan = make_plan(config(upstream.url), EvalSettings(rows=[str(data)], concurrency=256))
        await evaluate(plan, tmp_path / "run", quiet=True)
    outcomes = assert_lawful(tmp_path / "run", count)
    assert set(outcomes) <= {"completed", "infra"}
    assert outcomes["completed"] >= count - spent


@pytest.fixture
def slow_upstream() -> Iterator[str]:
    """A model that takes its time, in a process of its own, so that a kill finds rollouts in flight."""
    with running(
        "paddock.testing.upstream", "--delay-s", "0.2", "--call", "bash", EXPECTED, env={"PYTHONUNBUFFERED": "1"}
    ) as command:
        yield command.line("http://").strip()


def arguments(url: str, data: Path, out: Path) -> list[str]:
    policy = [f"policy_base_url={url}", "policy_api_key=none", "policy_model_name=scripted"]
    flags = ["--rows", str(data), "--out", str(out), "--concurrency", "8", "--isolate", "--retry-wait-s", "0.1"]
    return ["eval", *CONFIGS, *policy, *flags, "serve.restart_wait_s=0.1"]


def until(path: Path, count: int) -> None:
    end = time.monotonic() + 60
    # Only whole lines count: the last one may be in mid-write.
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        assert time.monotonic() < end, f"{path} has no {count} lines"
        time.sleep(0.02)


def child(command: CommandProcess, name: str) -> psutil.Process:
    return next(process for process in command.family() if process.cmdline()[-1] == name)


@pytest.mark.cli
@pytest.mark.slow
@pytest.mark.parametrize(
    "victim", few(["policy_model", "pivot", "pivot_agent"], ["policy_model"], mark=pytest.mark.long)
)
def test_a_server_killed_in_mid_run_gives_no_reward_no_hang_and_no_orphan(
    victim: str, slow_upstream: str, tmp_path: Path
) -> None:
    data, out = rows(tmp_path / "rows.jsonl", 60), tmp_path / "run"
    with running("paddock", *arguments(slow_upstream, data, out)) as command:
        until(out / "rollouts.jsonl", 10)
        family = command.family()
        child(command, victim).kill()
        code = command.code(timeout_s=100.0)
        family += command.family()
    assert code in (0, 1, 3), command.output()
    assert gone(family, within_s=20.0)
    assert all(line["reward"] == 1.0 for line in lines(out / "rollouts.jsonl"))
    assert not any("reward" in line for line in lines(out / "failures.jsonl"))
    assert main([*arguments(slow_upstream, data, out), "--resume"]) == 0
    (summary,) = orjson.loads((out / "summary.json").read_bytes())
    assert (summary["outcomes"], summary["mean_reward"]) == ({"completed": 60}, 1.0)


@pytest.mark.cli
@pytest.mark.slow
def test_the_collector_killed_in_mid_run_leaves_no_process_and_resumes(slow_upstream: str, tmp_path: Path) -> None:
    data, out = rows(tmp_path / "rows.jsonl", 60), tmp_path / "run"
    with running("paddock", *arguments(slow_upstream, data, out)) as command:
        until(out / "rollouts.jsonl", 10)
        family = command.family()
        command.send(signal.SIGKILL)
        command.code()
        assert gone(family, within_s=20.0)
    before = (out / "rollouts.jsonl").read_bytes().count(b"\n")
    assert main([*arguments(slow_upstream, data, out), "--resume"]) == 0
    assert before >= 10
    assert sorted(line["_ng_task_index"] for line in lines(out / "rollouts.jsonl")) == list(range(60))


async def test_an_endpoint_that_can_not_work_ends_the_run_before_it_starts(tmp_path: Path) -> None:
    plan = make_plan(config("http://127.0.0.1:1/v1"), settings(rows(tmp_path / "rows.jsonl", 1)))
    with pytest.raises(ConfigError, match="no server answers"):
        await evaluate(plan, tmp_path / "run", quiet=True)
    assert not (tmp_path / "run" / "run.json").exists(), "the folder is free"
    async with ScriptedUpstream(SAID, models=["scripter"], faults=first(NEVER, ErrorStatus(404))) as upstream:
        plan = make_plan(config(upstream.url), settings(rows(tmp_path / "rows.jsonl", 1)))
        with pytest.raises(ConfigError, match="`model` is `scripted`, and the endpoint lists scripter"):
            await evaluate(plan, tmp_path / "run", quiet=True)


async def test_the_trial_of_an_endpoint_is_no_turn_and_a_flake_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with ScriptedUpstream(SAID, models=(), faults=first(2, ErrorStatus(503))) as upstream:
        plan = make_plan(config(upstream.url), settings(rows(tmp_path / "rows.jsonl", 2)))
        await evaluate(plan, tmp_path / "run", quiet=True)
    assert "answered 503" in caplog.text
    found = lines(tmp_path / "run" / "rollouts.jsonl")
    assert [len(line["rollout"]["turns"]) for line in found] == [1, 1]
    assert upstream.calls == 4, "the list, the trial, and a call for each row"


async def test_a_finished_run_is_read_again_without_its_endpoint(tmp_path: Path) -> None:
    async with ScriptedUpstream(SAID) as upstream:
        plan = make_plan(config(upstream.url), settings(rows(tmp_path / "rows.jsonl", 1)))
        await evaluate(plan, tmp_path / "run", quiet=True)
    again = await evaluate(plan, tmp_path / "run", resume=True, quiet=True)
    assert again.n_verdicts == 1
