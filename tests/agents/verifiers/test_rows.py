"""Claims about rows of tasksets and verdicts that are given again, and about blocks that can't be used."""

import json
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from tests.agents.verifiers.conftest import ENVIRONMENTS, PYTHON, ROOT, block, make_rows, needs_verifiers, variables

pytestmark = needs_verifiers
EXAMPLE = ROOT / "examples"


def test_the_example_rows_are_what_the_command_writes(tmp_path: Path) -> None:
    path = make_rows("reversed_words", tmp_path, "--answer", "<reversed>{answer}</reversed>", at=EXAMPLE)
    assert path.read_bytes() == (EXAMPLE / "reversed_words.jsonl").read_bytes()


def test_rows_are_chosen_by_count_seed_and_the_tasksets_own_config(tmp_path: Path) -> None:
    options = ["--taskset", '{"tasks": 30}', "--count", "5", "--seed", "3"]
    rows = [orjson.loads(line) for line in make_rows("graded_text", tmp_path, *options).read_bytes().splitlines()]
    numbers = [row["task_data"]["idx"] for row in rows]
    assert len({*numbers}) == 5
    assert numbers != sorted(numbers)
    assert max(numbers) < 30


def test_the_demo_is_paid_and_its_rewards_are_computed_again(tmp_path: Path) -> None:
    assert PYTHON is not None
    python = str(PYTHON)
    path = variables([EXAMPLE])
    here = [sys.executable, "-m", "paddock"]
    words = ["eval", "configs/verifiers_demo.yaml", "--oracle", "--limit", "2", "--out", str(tmp_path / "run")]
    subprocess.run([*here, *words], check=True, env=path, cwd=ROOT)
    stored = tmp_path / "run/rollouts.jsonl"
    lines = [orjson.loads(line) for line in stored.read_bytes().splitlines()]
    assert [line["reward"] for line in lines] == [1.0, 1.0]
    for interpreter, said in (([python, "-m", "paddock"], "rewards computed again"), (here, "not computed again")):
        subprocess.run([*interpreter, "verify", str(tmp_path / "run")], check=True, env=path, cwd=ROOT)
        again = [orjson.loads(line) for line in (tmp_path / "run/reverified.jsonl").read_bytes().splitlines()]
        assert [line["reward"] for line in again] == [1.0, 1.0]
        assert all(said in line["rollout"]["verdict"]["detail"] for line in again)


@pytest.mark.parametrize(
    ("environment", "settings", "said"),
    [
        ("no_such_module", {}, "no_such_module"),
        ("graded_text", {"env": {"agent": {"harness": {"id": "bash"}}}}, "host_commands"),
        ("graded_text", {"env": {"agent": {"max_turnz": 2}}}, "max_turnz"),
        ("graded_text", {"env": {"agent": {"retries": {"max_retries": 2}}}}, "eval.max_attempts"),
        ("graded_text", {"seat": "judge"}, "it has: agent"),
    ],
)
def test_a_block_that_cannot_be_used_is_refused_at_the_start(
    tmp_path: Path, environment: str, settings: dict[str, object], said: str
) -> None:
    config = block(environment, {}, **settings) if "env" not in settings else block(environment, settings["env"])  # type: ignore[arg-type]
    config["policy_model"] = {"models_servers": {"paddock.testing.servers:EchoModel": {}}}
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps(config))
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes(orjson.dumps({"environment": environment, "task_data": {}}) + b"\n")
    command = [sys.executable, "-m", "paddock", "eval", str(path), "--rows", str(rows), "--out", str(tmp_path / "run")]
    ended = subprocess.run(command, env=variables([ENVIRONMENTS]), capture_output=True, text=True, timeout=200)
    assert ended.returncode != 0
    assert said in ended.stderr
