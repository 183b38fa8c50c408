"""What a policy on Megatron-core stores and exports, and what it leaves as it is."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.training.grpo.megatron.launch import launched, make_models

SAME = 1e-6
ROUNDING = 5e-4
"""Of weights, after a step of Adam in another layout."""
TENSOR = {"tensor_model_parallel_size": 2}
ROUTERS = ["model.layers.0.mlp.gate.weight", "model.layers.1.mlp.gate.weight"]
EXPERTS = {"expert_model_parallel_size": 2, "moe_router_load_balancing_type": "aux_loss"}
SHARDED = {"optimizer": {"use_distributed_optimizer": True}}
TWO: list[dict[str, Any]] = [
    {"name": "stored", "model": "dense", "megatron": TENSOR, "save": "state"},
    {"name": "again", "model": "dense", "megatron": TENSOR, "load": "state", "like": "stored"},
    {"name": "sharded", "model": "dense", "megatron": SHARDED, "save": "sharded"},
    {"name": "sharded again", "model": "dense", "megatron": SHARDED, "load": "sharded", "like": "sharded"},
    {
        "name": "laid out anew",
        "model": "dense",
        "megatron": {**SHARDED, **TENSOR},
        "load": "sharded",
        "like": "sharded",
    },
    {"name": "frozen", "model": "experts", "megatron": EXPERTS, "policy": {"freeze_moe_router": True}},
    {"name": "no balance", "model": "experts", "megatron": EXPERTS},
    {
        "name": "balance",
        "model": "experts",
        "megatron": {**EXPERTS, "moe_aux_loss_coeff": 0.5},
        "like": "no balance",
    },
    {
        "name": "never balance",
        "model": "experts",
        "megatron": {**EXPERTS, "moe_router_load_balancing_type": "none"},
        "like": "no balance",
    },
]
pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def results(vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("states")
    make_models(vllm_python, folder)
    return launched(vllm_python, "measure_states.py", folder, 2, TWO)


def test_a_step_after_a_load_is_the_one_without_it(results: Any) -> None:
    told = results["again"]
    assert (told["learnt"], told["after"]) == (0, 0)
    assert told["metrics"] == results["stored"]["metrics"]


def test_a_full_disk_is_an_error_of_the_disk(results: Any) -> None:
    assert re.fullmatch(r"InfraError: \S+: can't be written: \w+Error: .+ \(process \d\)", results["stored"]["full"])


def test_a_sharded_optimizer_goes_on_as_it_would_have_without_a_load(results: Any) -> None:
    told = results["sharded again"]
    assert (told["learnt"], told["after"]) == (0, 0)
    assert told["metrics"] == results["sharded"]["metrics"]


def test_a_state_does_not_depend_on_the_layout(results: Any) -> None:
    told = results["laid out anew"]
    assert told["learnt"] == 0
    assert told["after"] < ROUNDING
    assert told["metrics"] == pytest.approx(results["sharded"]["metrics"], rel=1e-4, abs=1e-5)


def test_an_export_is_a_model_of_transformers_with_the_weights_that_are_sent(results: Any) -> None:
    told = results["stored"]["exported"]
    assert told["parameters"] == told["sent"]
    assert told["same"]
    assert {"config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"} <= set(told["files"])


def test_frozen_routers_stay_as_they_are_and_the_rest_is_learned(results: Any) -> None:
    moved, all_moved = set(results["frozen"]["moved"]), set(results["no balance"]["moved"])
    assert set(ROUTERS) <= all_moved
    assert moved == all_moved - set(ROUTERS)


def test_a_loss_for_balance_is_there_only_where_its_weight_is_above_0(results: Any) -> None:
    """The model's own config has one, of 0.001."""
    assert results["balance"]["after"] > 1e-4
    assert results["never balance"]["after"] == 0
