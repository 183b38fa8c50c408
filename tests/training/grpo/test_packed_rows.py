"""What `measure_packed_rows.py` found where torch is: rows that share a sequence do not see each other, whatever the
model, and rows of models in which they would do not share one."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
ROUNDING = 5e-6
"""Of the largest value."""
pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module")
def results(vllm_python: str) -> Any:
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    command = [vllm_python, str(HERE / "measure_packed_rows.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == 0, done.stderr
    return {**json.loads(done.stdout.splitlines()[-1]), "warnings": done.stderr}


@pytest.mark.parametrize("kind", ["qwen3", "qwen3_moe", "llama", "mistral", "gemma3_text", "gpt_neox", "deepseek_v3"])
def test_packed_rows_are_as_if_each_were_alone(results: Any, kind: str) -> None:
    found = results[kind]
    assert found["packed"]
    assert max(found["scores"], found["gradients"]) < ROUNDING


@pytest.mark.parametrize("kind", ["mamba2", "qwen3_next", "lfm2", "llama4_text"])
def test_rows_of_a_model_whose_layers_have_a_state_are_padded(results: Any, kind: str) -> None:
    assert not results[kind]["packed"]
    assert results["warnings"].count("are padded, for it has layers of the kind") == 4
