"""`scripts/megatron_gpu.py` on a CPU: both backends, experts, and a real vLLM that is sent the weights of each."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
HOOK = "tests.training.grpo.megatron.cpu_megatron:prepare"
SIZE = ["--device", "cpu", "--precision", "float32", "--steps", "3", "--rows", "4", "--tokens", "64"]
pytestmark = [pytest.mark.vllm, pytest.mark.long]


def test_backends_and_vllm_agree_also_about_experts_after_an_update(vllm_python: str, tmp_path: Path) -> None:
    script = str(ROOT / "scripts" / "megatron_gpu.py")
    command = [vllm_python, script, str(tmp_path), *SIZE, "--experts", "4", "--setup-hook", HOOK]
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=800, env=env)
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "report.json").read_text())
    assert told["weights apart after the steps"]["share_of_movement"] < 1e-3
    for backend in ("torch", "megatron"):
        assert told[backend]["log-probs against Hugging Face, max"] < 1e-5
        assert told[backend]["gradient norm after a load, against without"] == 0
        assert told[backend]["mismatch with vLLM after it, mean"] < 2e-6, "vLLM has all weights, experts too"
        assert told[backend]["mismatch with vLLM after it, max"] < 1e-4
