"""Claims about `paddock eval --workers`: however the command ends, no process is left, and --resume goes on."""

import random
import signal
import time
from pathlib import Path

import orjson
import pytest
from tests.support.processes import CommandProcess, gone, running

pytestmark = [pytest.mark.cli, pytest.mark.timeout(180)]

CONFIG = """
environment: {{resources_servers: {{paddock.conformance.scripted:ScriptedEnvironment: {{}}}}}}
policy: {{models_servers: {{paddock.conformance.scripted:ScriptedModel: {{delay_s: 0.05}}}}}}
agent:
  agents:
    single_step:
      resources_server: {{type: resources_servers, name: environment}}
      model_server: {{type: models_servers, name: policy}}
      datasets: [{{name: few, type: example, jsonl_fpath: {rows}}}]
"""
ROWS = 100


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes(b'{"responses_create_params": {"input": "q"}, "answer": "yes"}\n' * ROWS)
    config = tmp_path / "case.yaml"
    config.write_text(CONFIG.format(rows=rows))
    return ["eval", str(config), "--out", str(tmp_path / "run"), "--workers", "2", "--concurrency", "4"]


def stored(folder: Path) -> list[int]:
    path = folder / "rollouts.jsonl"
    return [orjson.loads(line)["_ng_task_index"] for line in path.read_bytes().splitlines()] if path.exists() else []


def end(command: CommandProcess, number: signal.Signals) -> None:
    """Send it a signal; nothing of it is left."""
    family = command.family()
    assert len([member for member in family if "paddock.collect.worker_main" in member.cmdline()]) == 4
    command.send(number)
    command.code()
    assert gone(family, within_s=30)


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.long)]
)
def test_a_command_that_is_ended_leaves_no_worker_and_goes_on(
    number: signal.Signals, arguments: list[str], tmp_path: Path
) -> None:
    with running("paddock", *arguments) as command:
        while len(stored(tmp_path / "run")) < 4:
            time.sleep(random.random() / 10)
        end(command, number)
        assert command.code() == (-signal.SIGKILL if number == signal.SIGKILL else 130)
        assert not any("Traceback" in line for line in command.err), command.output()
    assert len(set(stored(tmp_path / "run"))) < ROWS
    with running("paddock", *arguments, "--resume") as command:
        assert command.code() == 0, command.output()
    assert sorted(stored(tmp_path / "run")) == list(range(ROWS))
    assert (tmp_path / "run/failures.jsonl").read_bytes() == b""


@pytest.mark.slow
def test_nothing_of_a_config_is_in_a_worker_s_command_line(arguments: list[str], tmp_path: Path) -> None:
    with running("paddock", *arguments) as command:
        while len(stored(tmp_path / "run")) < 4:
            time.sleep(0.05)
        for member in command.family():
            assert not any("case.yaml" in word or "environment" in word for word in member.cmdline())
        end(command, signal.SIGINT)
