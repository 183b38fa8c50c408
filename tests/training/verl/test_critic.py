"""GAE and the value loss are verl's."""

import json
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.trainer


def test_advantages_returns_and_value_loss_are_verls(verl_python: str, verl_environment: dict[str, str]) -> None:
    command = [verl_python, str(Path(__file__).with_name("drive_critic.py"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=verl_environment)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["spread"] > 0.5
    assert told["advantages"] < 1e-7
    assert told["returns"] < 1e-7
    for name in ("loss", "clipped"):
        assert told[name][0] == pytest.approx(told[name][1], abs=1e-7)
    assert 0 < told["clipped"][0] < 1
