"""Claims about `policy.freeze_moe_router`: of a mixture of experts everything is trained but what routes to them."""

import json
import os
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.vllm
def test_frozen_routers_are_all_that_does_not_move(vllm_python: str, tmp_path: Path) -> None:
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": f"{HERE.parents[2] / 'src'}:{HERE.parents[2]}"}
    command = [vllm_python, str(HERE / "measure_routers.py"), str(tmp_path / "model")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=env)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    routers = [f"model.layers.{layer}.mlp.gate.weight" for layer in (0, 1)]
    assert found["False"] == found["names"]
    assert found["True"] == [name for name in found["names"] if name not in routers]
