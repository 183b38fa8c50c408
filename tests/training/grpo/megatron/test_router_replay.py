"""A policy on Megatron-core whose tokens go through experts that were chosen before: it computes what a model of
Transformers does whose routers are made to choose them, in every layout."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.training.grpo.megatron.launch import ROOT, launched, make_models

LOG_PROBS = 1e-5
GRADIENTS = 2e-5
"""Of each tensor's maximum."""
MOVE = """
import pathlib, sys
from tests.training.grpo.megatron.measure_router_replay import move_routers
move_routers(pathlib.Path(sys.argv[1]))
"""
R3 = {"router_replay": {"enabled": True}}
R2 = {"router_replay": {"enabled": True, "mode": "R2"}, "train_global_batch_size": 3}
PACKED = {"sequence_packing": {"enabled": True, "train_mb_tokens": 48}}
SHARP = {"tensor_model_parallel_size": 2, "sequence_parallel": True}
ONE: list[dict[str, Any]] = [
    {"name": "alone", "megatron": {}, "policy": R3, "refused": True},
    {"name": "computed anew", "megatron": {"activation_checkpointing": True}, "policy": R3},
    {"name": "own", "megatron": {}, "policy": R2},
]
TWO: list[dict[str, Any]] = [
    {
        "name": "pp2, anew",
        "megatron": {"pipeline_model_parallel_size": 2, "activation_checkpointing": True},
        "policy": R3,
    },
    {"name": "ep2", "megatron": {"expert_model_parallel_size": 2}, "policy": R3},
    {"name": "tp2, packed", "megatron": SHARP, "policy": {**R3, **PACKED}},
    {
        "name": "tp2",
        "megatron": {**SHARP, "expert_model_parallel_size": 2, "expert_tensor_parallel_size": 1},
        "policy": R3,
    },
    {"name": "own, dp2", "megatron": {}, "policy": R2},
    {"name": "own, tp2, packed", "megatron": SHARP, "policy": {**R2, **PACKED}},
    {
        "name": "own, pp2, anew",
        "megatron": {"pipeline_model_parallel_size": 2, "activation_checkpointing": True},
        "policy": R2,
    },
]
NAMES = [case["name"] for case in (*ONE, *TWO)]
pytestmark = [pytest.mark.vllm, pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def results(vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("replay")
    make_models(vllm_python, folder)
    env = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": "/usr/bin:/bin"}
    subprocess.run([vllm_python, "-c", MOVE, str(folder)], check=True, env=env)
    told = [launched(vllm_python, "measure_router_replay.py", folder, n, cases) for n, cases in ((1, ONE), (2, TWO))]
    return {name: one for part in told for name, one in part.items()}


@pytest.mark.parametrize("name", NAMES)
def test_log_probs_are_those_of_the_replayed_experts(results: Any, name: str) -> None:
    """With R2 they are those of the trainer's own, which are recorded."""
    assert results[name]["differing"] > 0.2, "the trainer would choose others"
    assert results[name]["log_probs"] < LOG_PROBS


@pytest.mark.parametrize("name", NAMES)
def test_each_gradient_is_that_of_the_replayed_experts(results: Any, name: str) -> None:
    """Routers learn: what an expert weighs is their own. A backward pass that computes anew goes the same way."""
    told = results[name]
    assert {one: error for one, error in told["gradient"].items() if error >= GRADIENTS} == {}
    assert min(told["of_routers"]) > 0
    assert max(told["other_gradient"].values()) > 0.1, "other experts give another"


@pytest.mark.parametrize(
    "name", [case["name"] for case in (*ONE, *TWO) if case["policy"]["router_replay"] == R3["router_replay"]]
)
def test_the_trainer_is_nearer_to_the_engine(results: Any, name: str) -> None:
    assert results[name]["mismatch"] < 0.7 * results[name]["mismatch_as_trained"]


@pytest.mark.parametrize("name", NAMES)
def test_a_step_is_trained(results: Any, name: str) -> None:
    assert results[name]["metrics"]["train/skipped_updates"] == 0
    assert results[name]["metrics"]["train/grad_norm"] > 0


def test_rows_without_experts_or_with_others_are_refused(results: Any) -> None:
    without, narrow = results["alone"]["refused"]
    assert "no experts to replay" in without
    assert "1 layers, 2 for each token, came to a model of 2 layers" in narrow
