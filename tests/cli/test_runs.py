"""Claims about `paddock runs` as a command: what it says, its exit codes, and that --resume names it."""

from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from paddock.cli import main

ROW: dict[str, Any] = {"responses_create_params": {"input": "q"}, "answer": "yes"}
SCRIPTED = "paddock.conformance.scripted"


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """`paddock eval` over three rows, into `run`."""
    data = tmp_path / "rows.jsonl"
    data.write_bytes(b"\n".join(map(orjson.dumps, [ROW] * 3)))
    agent = {
        "resources_server": {"type": "resources_servers", "name": "environment"},
        "model_server": {"type": "models_servers", "name": "policy"},
    }
    tree = {
        "environment": {"resources_servers": {f"{SCRIPTED}:ScriptedEnvironment": {}}},
        "agent": {"agents": {"single_step": agent}},
        "policy": {"models_servers": {f"{SCRIPTED}:ScriptedModel": {}}},
    }
    config = tmp_path / "case.yaml"
    config.write_text(yaml.safe_dump(tree))
    return ["eval", str(config), "--rows", str(data), "--out", str(tmp_path / "run"), "--quiet"]


def test_check_repair_and_resume_bring_a_damaged_run_back(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert main(command) == 0
    assert main(["runs", "check", str(run)]) == 0
    assert "format 2, 3 of 3 rollouts have a verdict; nothing is wrong" in capsys.readouterr().out
    rollouts = run / "rollouts.jsonl"
    lines = rollouts.read_bytes().splitlines(keepends=True)
    rollouts.write_bytes(lines[0] + lines[1].replace(b'"reward":1.0', b'"reward":0.0') + lines[2] + lines[2])
    assert main([*command, "--resume"]) == 2
    assert f"rollouts.jsonl:2: damaged: it does not match its digest; `paddock runs repair {run}`" in (
        capsys.readouterr().err
    )
    assert main(["runs", "check", str(run)]) == 1
    said = capsys.readouterr().out
    assert "rollouts.jsonl:2: damaged: it does not match its digest" in said
    assert "rollouts.jsonl:4: a second line of rollout 2-0, which stands in line 3" in said
    assert main(["runs", "repair", str(run)]) == 0
    said = capsys.readouterr().out
    assert "1 lines set aside in" in said
    assert "1 empty or doubled lines dropped" in said
    assert "2 of 3 rollouts have a verdict" in said
    assert main([*command, "--resume"]) == 0
    assert main(["runs", "check", str(run)]) == 0


def test_a_torn_last_line_is_no_damage(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command) == 0
    rollouts = tmp_path / "run" / "rollouts.jsonl"
    rollouts.write_bytes(rollouts.read_bytes()[:-20])
    assert main(["runs", "check", str(tmp_path / "run")]) == 0
    assert "a torn last line of" in capsys.readouterr().out


def test_mistakes_are_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "check", str(tmp_path / "nope")]) == 2
    assert "nope: no such folder" in capsys.readouterr().err
    assert main(["runs", "repair", str(tmp_path)]) == 2
    assert "holds no run" in capsys.readouterr().err
