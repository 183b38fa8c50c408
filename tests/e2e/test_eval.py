"""Claims about `paddock eval` and `paddock verify` as commands: exit codes, signals, kills, what can be resumed."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
import yaml
from tests.sampling import few
from tests.support.processes import CommandProcess, gone, running

from paddock.cli import main
from paddock.collect import EvalSettings, evaluate, make_plan
from paddock.config import load
from paddock.testing.upstream import ErrorStatus, ScriptedAnswer, ScriptedUpstream, share

ROW: dict[str, Any] = {"responses_create_params": {"input": "q"}, "answer": "yes"}
SCRIPTED = "paddock.conformance.scripted"


class EvalCase(NamedTuple):
    config: Path
    out: Path

    def arguments(self, *more: str) -> list[str]:
        return ["eval", str(self.config), "--out", str(self.out), "--retry-wait-s", "0", *more]

    def verdict_keys(self) -> list[tuple[int, int]]:
        lines = (self.out / "rollouts.jsonl").read_bytes().splitlines()
        return [(line["_ng_task_index"], line["_ng_rollout_index"]) for line in map(orjson.loads, lines)]


MakeCase = Callable[..., EvalCase]


@pytest.fixture
def make_case(tmp_path: Path) -> MakeCase:
    """A config file with scripted servers and a dataset of the given rows."""

    def make(rows: list[Any], **model: Any) -> EvalCase:
        data = tmp_path / "rows.jsonl"
        data.write_bytes(b"\n".join(row if isinstance(row, bytes) else orjson.dumps(row) for row in rows))
        agent = {
            "resources_server": {"type": "resources_servers", "name": "environment"},
            "model_server": {"type": "models_servers", "name": "policy"},
            "datasets": [{"name": "few", "type": "example", "jsonl_fpath": str(data)}],
        }
        tree = {
            "environment": {"resources_servers": {f"{SCRIPTED}:ScriptedEnvironment": {}}},
            "agent": {"agents": {"single_step": agent}},
            "policy": {"models_servers": {f"{SCRIPTED}:ScriptedModel": model}},
        }
        path = tmp_path / "case.yaml"
        path.write_text(yaml.safe_dump(tree))
        return EvalCase(path, tmp_path / "run")

    return make


def test_all_verdicts_is_exit_0_and_the_table_says_the_reward(
    make_case: MakeCase, capsys: pytest.CaptureFixture[str]
) -> None:
    case = make_case([ROW, {**ROW, "answer": "no"}])
    assert main(case.arguments("--repeats", "2")) == 0
    shown = capsys.readouterr().out
    for text in ("0.500", "@2 0.500", "completed 4", "4 of 2 rows", "rollouts.jsonl"):
        assert text in shown
    assert main(["verify", str(case.out), str(case.config)]) == 0
    assert main(["verify", str(case.out)]) == 0
    assert "4 rollouts: 4 as stored" in capsys.readouterr().out


def test_failures_are_exit_3(make_case: MakeCase, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(make_case([ROW, {**ROW, "grade": "raise"}, b"broken"]).arguments()) == 3
    assert "2 of 3 rollouts have no verdict" in capsys.readouterr().out


def test_a_changed_reward_is_exit_4(make_case: MakeCase, capsys: pytest.CaptureFixture[str]) -> None:
    case = make_case([ROW, ROW])
    main(case.arguments())
    stored = case.out / "rollouts.jsonl"
    stored.write_bytes(stored.read_bytes().replace(b'"answer":"yes"', b'"answer":"other"', 1))
    assert main(["verify", str(case.out), str(case.config)]) == 4
    assert "1 -> 0: right before, wrong now" in capsys.readouterr().out


def test_a_changed_reason_is_exit_4_too(make_case: MakeCase, capsys: pytest.CaptureFixture[str]) -> None:
    case = make_case([{**ROW, "answer": "no"}])
    main(case.arguments())
    stored = case.out / "rollouts.jsonl"
    stored.write_bytes(stored.read_bytes().replace(b'"reason":"wrong"', b'"reason":"unfair"', 1))
    assert main(["verify", str(case.out), str(case.config)]) == 4
    assert "0 -> 0: unfair before, wrong now" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--limit", "0"], "eval.limit"),
        (["--rows", "nowhere.jsonl"], "nowhere.jsonl"),
        (["--agent", "agnet"], "nearest: 'agent'"),
        (["--shard", "3/2"], "eval.shard"),
        (["--url", "agent=http://localhost:1"], "--no-serve"),
        (["--no-serve", "--url", "agent=localhost:1"], "--url agent: needs NAME=URL"),
        (["--no-serve"], "use --url agent=URL"),
        (["--no-serve", "--url", "agnet=http://localhost:1"], "nearest: 'agent'"),
        (["--strict-rows"], "1 of 2 rows are wrong"),
        (["eval.concurency=3"], "concurrency"),
        (["--retry", "row"], "it needs --resume"),
        (["--resume", "--retry", "leak"], "would flatter it"),
    ],
)
def test_a_mistake_is_exit_2_and_starts_nothing(
    more: list[str], message: str, make_case: MakeCase, capsys: pytest.CaptureFixture[str]
) -> None:
    case = make_case([ROW, b"broken"])
    assert main(case.arguments(*more)) == 2
    assert message in capsys.readouterr().err
    assert not (case.out / "summary.json").exists()


def test_verify_refuses_counts_that_mean_nothing(make_case: MakeCase, capsys: pytest.CaptureFixture[str]) -> None:
    case = make_case([ROW])
    assert main(["verify", str(case.out), str(case.config), "--concurrency", "0"]) == 2
    assert "--concurrency needs 1 or more" in capsys.readouterr().err


def test_a_dry_run_checks_every_row_and_writes_nothing(make_case: MakeCase, capsys: pytest.CaptureFixture[str]) -> None:
    case = make_case([ROW, {"responses_create_params": {"input": "q"}}])
    assert main(case.arguments("--dry-run")) == 2
    shown = capsys.readouterr().out
    for text in ("2 rows, 2 rollouts", "server policy", "1 rows are wrong", "rows.jsonl:2: answer"):
        assert text in shown
    assert not case.out.exists()
    assert main(make_case([ROW]).arguments("--dry-run")) == 0


def test_a_dry_run_finds_what_the_servers_lack(make_case: MakeCase, capsys: pytest.CaptureFixture[str]) -> None:
    case = make_case([ROW], anwser="x")
    assert main(case.arguments("--dry-run")) == 2
    assert "`policy.models_servers.paddock.conformance.scripted:ScriptedModel.anwser`" in capsys.readouterr().err
    assert main(case.arguments("--dry-run", "--oracle")) == 0
    shown = capsys.readouterr().out
    assert "server policy: models_servers replay" in shown
    assert "model oracle" in shown


def test_a_dry_run_names_rows_with_tools_that_an_agent_will_not_run(
    make_case: MakeCase, capsys: pytest.CaptureFixture[str]
) -> None:
    tools = [{"type": "function", "name": "look_up", "parameters": {"type": "object"}}]
    case = make_case([ROW, {**ROW, "responses_create_params": {"input": "q", "tools": tools}}])
    refusing = "agent.agents.single_step.tools=refuse"
    assert main(case.arguments("--dry-run", refusing)) == 2
    assert "rows.jsonl:2: responses_create_params.tools: this agent takes one step" in capsys.readouterr().out
    assert main(case.arguments("--strict-rows", refusing)) == 2
    assert "1 of 2 rows are wrong" in capsys.readouterr().err
    assert main(case.arguments("--dry-run")) == 0


def test_row_files_do_not_swallow_the_config(make_case: MakeCase, tmp_path: Path) -> None:
    case = make_case([ROW, ROW])
    rows = ["--rows", str(tmp_path / "rows.jsonl")]
    assert main(["eval", *rows, *rows, str(case.config), "--out", str(case.out)]) == 0
    assert sorted(case.verdict_keys()) == [(row, 0) for row in range(4)]


def test_the_summary_says_why_rollouts_have_no_verdict(make_case: MakeCase, capsys: pytest.CaptureFixture[str]) -> None:
    raising = {**ROW, "grade": "raise"}
    assert main(make_case([ROW, raising, raising, b"broken"]).arguments()) == 3
    shown = capsys.readouterr().out
    assert "2 verifier (RuntimeError in stage verify), such as: environment: verify: " in shown
    assert "1 row (row_unreadable), such as: " in shown
    assert "rows.jsonl:4: no JSON: unexpected character, expected a JSON value at character 1" in shown


def test_help_says_the_defaults_that_hold(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["eval", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    defaults = EvalSettings()
    for flag, value in {
        "--concurrency N rollouts in flight": defaults.concurrency,
        "--max-attempts N attempts per rollout": defaults.max_attempts,
    }.items():
        assert f"{flag} (default: {value})" in shown
    assert f"twice as long each time (default: {defaults.retry_wait_s:g})" in shown
    assert f"no terminal (default: {defaults.progress_every_s:g})" in shown


@pytest.mark.slow
@pytest.mark.cli
def test_a_module_beside_the_caller_is_found_by_the_command(tmp_path: Path) -> None:
    source = f"from {SCRIPTED} import ScriptedEnvironment\n\n\nclass Mine(ScriptedEnvironment):\n    pass\n"
    (tmp_path / "my_mod.py").write_text(source)
    (tmp_path / "mine.yaml").write_text("mine: {resources_servers: {'my_mod:Mine': {}}}\n")
    # As for an installed command: Python itself does not put the working directory on the path.
    safe = {"PYTHONSAFEPATH": "1"}
    for flags in ([], ["--isolate"]):
        with running("paddock", "serve", "mine.yaml", *flags, cwd=tmp_path, env=safe) as command:
            assert "resources_servers/my_mod:Mine" in command.line("mine")


def test_settings_come_from_the_config_and_flags_come_before_them(make_case: MakeCase) -> None:
    case = make_case([ROW] * 3)
    assert main(case.arguments("eval.repeats=2", "eval.limit=2", "--limit", "1")) == 0
    assert sorted(case.verdict_keys()) == [(0, 0), (0, 1)]


def test_shards_are_merged_by_the_command(make_case: MakeCase, tmp_path: Path) -> None:
    case = make_case([ROW] * 5)
    shards = [str(tmp_path / f"shard{number}") for number in range(2)]
    for number, shard in enumerate(shards):
        assert main([*case.arguments("--shard", f"{number}/2")[:2], "--out", shard, "--shard", f"{number}/2"]) == 0
    assert main(["eval", "--merge", *shards, "--out", str(case.out)]) == 0
    assert case.verdict_keys() == [(row, 0) for row in range(5)]


@pytest.mark.cli
def test_a_killed_collection_is_completed_by_resuming(make_case: MakeCase) -> None:
    case = make_case([ROW] * 60, delay_s=0.3)
    with running("paddock", *case.arguments("--concurrency", "4", "--quiet")) as command:
        wait_for_rollouts(command, case, 8)
        command.send(signal.SIGKILL)
        command.code()
    before = set(case.verdict_keys())
    assert 8 <= len(before) < 60
    assert main(case.arguments("--resume", "--concurrency", "60")) == 0
    assert sorted(case.verdict_keys()) == [(row, 0) for row in range(60)]


@pytest.mark.slow
@pytest.mark.cli
@pytest.mark.parametrize(
    "number", few([signal.SIGINT, signal.SIGTERM, signal.SIGHUP], [signal.SIGTERM], pytest.mark.long)
)
def test_an_interrupted_collection_exits_130_with_a_summary(make_case: MakeCase, number: signal.Signals) -> None:
    case = make_case([ROW] * 60, delay_s=0.3)
    with running("paddock", *case.arguments("--concurrency", "4")) as command:
        wait_for_rollouts(command, case, 4)
        command.send(number)
        assert command.code() == 130
        assert "of 60 rollouts have no verdict" in command.line("interrupted; ")
        assert "go on with --resume" in command.line("interrupted: ")
    summary = orjson.loads((case.out / "summary.json").read_bytes())
    assert summary[0]["outcomes"] == {"completed": len(case.verdict_keys())}
    assert main(case.arguments("--resume", "--concurrency", "60")) == 0
    assert sorted(case.verdict_keys()) == [(row, 0) for row in range(60)]


@pytest.mark.slow
@pytest.mark.cli
def test_isolated_servers_give_the_same_rewards_and_leave_no_process(make_case: MakeCase) -> None:
    case = make_case([ROW, {**ROW, "answer": "no"}, {**ROW, "grade": "leak"}], delay_s=0.5)
    with running("paddock", *case.arguments("--isolate", "--progress-every-s", "0.05")) as command:
        command.line("| reward")
        family = command.family()
        assert command.code() == 3
    assert gone(family, within_s=20.0)
    summary = orjson.loads((case.out / "summary.json").read_bytes())
    assert summary[0]["outcomes"] == {"completed": 2, "leak": 1}
    assert summary[0]["mean_reward"] == 0.5


@pytest.mark.slow
@pytest.mark.cli
def test_a_server_that_is_given_up_ends_the_collection_with_exit_1(make_case: MakeCase) -> None:
    rows = [{"responses_create_params": {"input": "q"}, "cue": cue} for cue in ("answer", "die", "answer")]
    case = make_case(rows)
    tree = yaml.safe_load(case.config.read_text())
    tree["environment"] = {"resources_servers": {"paddock.testing.servers:CueServer": {}}}
    case.config.write_text(yaml.safe_dump({**tree, "serve": {"max_restarts": 0}}))
    more = ["--isolate", "--concurrency", "1", "--max-attempts", "1000", "--retry-wait-s", "0.05"]
    with running("paddock", *case.arguments(*more)) as command:
        family = command.family()
        assert command.code() == 1
        assert "environment: its process" in command.line("the servers failed for good")
    assert gone(family, within_s=20.0)
    assert case.verdict_keys() == [(0, 0)]


def test_the_oracle_needs_no_model_in_the_config(make_case: MakeCase, capsys: pytest.CaptureFixture[str]) -> None:
    case = make_case([{**ROW, "answer": f"answer {number}"} for number in range(4)])
    tree = yaml.safe_load(case.config.read_text())
    del tree["policy"]
    case.config.write_text(yaml.safe_dump(tree))
    assert main(case.arguments()) == 2
    assert "policy" in capsys.readouterr().err
    assert main(case.arguments("--oracle")) == 0
    assert orjson.loads((case.out / "summary.json").read_bytes())[0]["mean_reward"] == 1.0


@pytest.mark.slow
async def test_a_third_of_upstream_calls_failing_still_gives_verdicts(make_case: MakeCase) -> None:
    case = make_case([ROW] * 300)
    tree = yaml.safe_load(case.config.read_text())
    async with ScriptedUpstream(ScriptedAnswer("yes"), faults=share(0.3, ErrorStatus(500), seed=7)) as upstream:
        openai = {"base_url": upstream.url, "model": "scripted", "attempts": 2, "first_retry_s": 0.0}
        openai["turn_store"] = {"folder": str(case.out.with_name("turns"))}
        config = load([], extra={**tree, "policy": {"models_servers": {"openai": openai}}})
        collected = await evaluate(make_plan(config, EvalSettings(retry_wait_s=0)), case.out, quiet=True)
        assert upstream.calls > 390
    failures = [orjson.loads(line) for line in (case.out / "failures.jsonl").read_bytes().splitlines()]
    given_up = {line["group_id"] for line in failures if line.get("final")}
    assert {row for row, _ in case.verdict_keys()} | given_up == set(range(300))
    assert collected.n_verdicts >= 297
    assert collected.summary[0]["mean_reward"] == 1.0
    assert len(failures) > 10


@pytest.mark.slow
@pytest.mark.cli
def test_running_servers_are_used_where_the_config_or_the_flag_says(make_case: MakeCase) -> None:
    case = make_case([ROW] * 3)
    with running("paddock", "serve", case.config) as command:
        url = command.line("agent ").split()[-1]
        assert main(case.arguments("--no-serve", "--url", f"agent={url}")) == 0
    assert sorted(case.verdict_keys()) == [(row, 0) for row in range(3)]


@pytest.mark.slow
@pytest.mark.cli
def test_a_full_disk_is_exit_1_and_can_be_resumed(make_case: MakeCase) -> None:
    case = make_case([ROW] * 30)
    code = "import resource, sys; from paddock.cli import main\n"
    code += "resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000)); sys.exit(main(sys.argv[1:]))"
    script = case.config.with_name("limited.py")
    script.write_text(code)
    with running("limited", *case.arguments("--concurrency", "2"), env={"PYTHONPATH": str(script.parent)}) as command:
        assert command.code() == 1
        assert "can't be written" in command.line("paddock eval")
    assert 0 < len(case.verdict_keys()) < 30
    assert main(case.arguments("--resume")) == 0
    assert sorted(case.verdict_keys()) == [(row, 0) for row in range(30)]


def wait_for_rollouts(command: CommandProcess, case: EvalCase, count: int) -> None:
    """Until so many lines are stored; the command is at work meanwhile."""
    end = time.monotonic() + 60
    stored = case.out / "rollouts.jsonl"
    while not stored.exists() or stored.read_bytes().count(b"\n") < count:
        assert time.monotonic() < end, command.output()
        time.sleep(0.01)
