"""The policy on Megatron-core 0.19, its weights through Megatron-Bridge, learns what the policy on torch does."""

import os
from typing import Any

import pytest
from tests.training.grpo.megatron.launch import launched, make_models

VARIABLE = "PADDOCK_MEGATRON_BRIDGE_PYTHON"
HOOK = "tests.training.grpo.megatron.without_transformer_engine:prepare"
LOG_PROBS = GRADIENTS = 1e-5
"""Gradients: of each tensor's maximum."""
WEIGHTS = 5e-4
"""After five steps of Adam."""
SHARDED = {"optimizer": {"use_distributed_optimizer": True}}
CASES: list[dict[str, Any]] = [
    {"name": "tp2", "model": "dense", "megatron": {"tensor_model_parallel_size": 2}},
    {"name": "pp2", "model": "dense", "megatron": {"pipeline_model_parallel_size": 2}},
    {"name": "dp2", "model": "dense", "megatron": SHARDED},
    {"name": "ep2", "model": "experts", "megatron": {"expert_model_parallel_size": 2}},
]
NAMES = [case["name"] for case in CASES]
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Any:
    python = os.environ.get(VARIABLE)
    if not python:
        pytest.skip(f"{VARIABLE} names no interpreter: scripts/setup_megatron_bridge.sh makes one")
    folder = tmp_path_factory.mktemp("bridged")
    make_models(python, folder)
    ours = {"bridge": "megatron_bridge", "setup_hook": HOOK}
    cases = [{**case, "megatron": {**case["megatron"], **ours}} for case in CASES]
    return launched(python, "measure_layouts.py", folder, 2, cases)


@pytest.mark.parametrize("name", NAMES)
def test_log_probs_and_gradients_are_those_of_torch(results: Any, name: str) -> None:
    assert results[name]["log_probs"] < LOG_PROBS
    gradients = results[name]["gradient"] or {}
    assert bool(gradients) == (name != "dp2"), "with the distributed optimizer each process has a part of it alone"
    assert {one: error for one, error in gradients.items() if error >= GRADIENTS} == {}


@pytest.mark.parametrize("name", NAMES)
def test_weights_after_five_steps_are_those_of_torch(results: Any, name: str) -> None:
    assert results[name]["weights"] < WEIGHTS
    assert results[name]["moved"] > 5 * WEIGHTS


@pytest.mark.parametrize("name", NAMES)
def test_weights_that_are_sent_first_are_the_imported_ones(results: Any, name: str) -> None:
    assert results[name]["imported"]
