"""Each process reads its own part of a model's files alone, and has the weights that it would have of all of it."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.training.grpo.megatron.launch import HERE, ROOT, launched

SHARP = {"tensor_model_parallel_size": 2, "sequence_parallel": True}
TWO: list[dict[str, Any]] = [
    {"name": "tp2", "model": "biases", "megatron": {"tensor_model_parallel_size": 2}},
    {"name": "tp2, one head", "model": "one_head", "megatron": {"tensor_model_parallel_size": 2}},
    {"name": "pp2", "model": "biases", "megatron": {"pipeline_model_parallel_size": 2}},
    {"name": "ep2", "model": "experts", "megatron": {"expert_model_parallel_size": 2}},
    {"name": "tp2, experts too", "model": "experts", "megatron": SHARP},
    {"name": "large tp2", "model": "large", "megatron": {"tensor_model_parallel_size": 2}},
    {"name": "large pp2", "model": "large", "megatron": {"pipeline_model_parallel_size": 2}},
]
ONE: list[dict[str, Any]] = [{"name": "large", "model": "large", "megatron": {}}]
EMBEDDING_MB = 96.0
"""In float32, of the model that is measured; two are its largest tensors, and its file has half of it."""
pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def results(vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("loads")
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    subprocess.run([vllm_python, str(HERE / "measure_loads.py"), str(folder)], check=True, timeout=400, env=env)
    told = [launched(vllm_python, "measure_loads.py", folder, n, cases) for n, cases in ((1, ONE), (2, TWO))]
    return {name: one for part in told for name, one in part.items()}


@pytest.mark.parametrize("name", [case["name"] for case in (*ONE, *TWO)])
def test_weights_are_those_of_a_whole_load_to_the_bit(results: Any, name: str) -> None:
    assert min(results[name]["n_weights"]) > 7
    assert not any(results[name]["different"])


def test_what_is_in_no_file_is_named(results: Any) -> None:
    no_files, no_weight = results["refused"]
    assert no_files.endswith("has no safetensors")
    assert no_weight.endswith("its files have no model.none.weight")


def test_a_load_takes_no_more_memory_than_the_largest_part(results: Any) -> None:
    """Its slice of the file and its conversion to float32 are there at once; weights have their memory before."""
    assert results["large"]["held"][0] > 2 * EMBEDDING_MB
    part = 1.5 * EMBEDDING_MB
    assert max(results["large"]["grew"]) < 1.3 * part
    assert max(results["large tp2"]["grew"]) < 1.3 * part / 2
    assert max(results["large pp2"]["held"]) < 0.6 * results["large"]["held"][0]
    assert max(results["large pp2"]["grew"]) < 1.3 * part
