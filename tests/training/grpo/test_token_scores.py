"""What `measure_token_scores.py` found where torch is: scores and gradients do not show how many logits there were at a
time, how the vocabulary is divided, or what a model makes of its logits."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from paddock.ports import free_port

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
ROUNDING = {"torch.float64": 1e-14, "torch.float32": 2e-6, "torch.bfloat16": 2e-2}
"""Of the largest value. Scores are in float32 also where the computation is in bfloat16."""
HIDDEN_SIZE, VOCABULARY = 32, 50
"""Of the models."""
pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module")
def results(vllm_python: str) -> Any:
    command = [vllm_python, str(HERE / "measure_token_scores.py"), str(free_port())]
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_gradients_are_those_of_finite_differences(results: Any) -> None:
    assert results["checked"]
    assert results["entropy"] < ROUNDING["torch.float64"], "of entropies alone"


@pytest.mark.parametrize("dtype", list(ROUNDING))
@pytest.mark.parametrize("size", ["1", "2", "7", "100"])
def test_the_size_of_chunks_changes_nothing(results: Any, dtype: str, size: str) -> None:
    scores, gradients = results["chunks"][dtype]["errors"][size]
    assert scores < min(ROUNDING[dtype], ROUNDING["torch.float32"])
    assert gradients < ROUNDING[dtype]


def test_what_is_not_asked_for_is_empty(results: Any) -> None:
    for found in results["chunks"].values():
        assert found["without"] == [0, 0, 0.0], "entropies; log-probs of no tokens, and their gradient"
    assert results["chunks"]["torch.bfloat16"]["types"] == ["torch.float32"]


def test_two_processes_that_divide_the_vocabulary_find_what_one_does(results: Any) -> None:
    assert len(results["halves"]) == 2
    for errors in results["halves"]:
        assert max(errors) < ROUNDING["torch.float64"]


@pytest.mark.parametrize("kind", ["qwen3", "llama", "gemma2", "granite", "cohere", "phi", "gpt_neox", "opt"])
def test_scores_are_of_the_logits_that_the_model_makes(results: Any, kind: str) -> None:
    found = results["heads"][kind]
    assert max(found["scores"], found["gradients"]) < ROUNDING["torch.float32"]
    assert found["width"] == (VOCABULARY if kind == "opt" else HIDDEN_SIZE)
