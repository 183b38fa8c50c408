"""The policy on Megatron-core computes, in every layout, what the policy on torch does alone."""

from pathlib import Path
from typing import Any

import pytest
from tests.training.grpo.megatron.launch import launched, make_models

LOG_PROBS = 1e-5
GRADIENTS = 1e-5
"""Of each tensor's maximum."""
WEIGHTS = 5e-4
"""After five steps of Adam, which makes much of rounding where gradients are near 0."""
SHARED_BY_HEADS = [f"model.layers.{layer}.self_attn.{one}_norm.weight" for layer in (0, 1) for one in "qk"]
"""Of which each tensor-parallel process has the gradient of its own heads alone, until they are added up."""
TWO: list[dict[str, Any]] = [
    {"name": "tp2", "model": "dense", "megatron": {"tensor_model_parallel_size": 2}, "loss": {"entropy_coef": 0.1}},
    {"name": "pp2", "model": "dense", "megatron": {"pipeline_model_parallel_size": 2}},
    {"name": "dp2", "model": "dense", "megatron": {"optimizer": {"use_distributed_optimizer": True}}},
    {"name": "ep2", "model": "experts", "megatron": {"expert_model_parallel_size": 2}},
    {
        "name": "not added up",
        "model": "dense",
        "megatron": {"tensor_model_parallel_size": 2},
        "without_finalizing": True,
    },
]
FOUR: list[dict[str, Any]] = [
    {
        "name": "tp2 pp2",
        "model": "dense",
        "megatron": {"tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 2},
    }
]
DISTRIBUTED = {"optimizer": {"use_distributed_optimizer": True}}
SHARP = {"tensor_model_parallel_size": 2, "sequence_parallel": True}
OVERLAPPED = {"overlap_grad_reduce": True, "overlap_param_gather": True}
BY_TOKENS = {"enabled": True, "train_mb_tokens": 48, "logprob_mb_tokens": 64}
ONE_ROW = {"train_micro_batch_size": 1, "dynamic_batching": {"enabled": False}}
MORE: list[dict[str, Any]] = [
    {
        "name": "packed",
        "model": "dense",
        "megatron": SHARP,
        "policy": {"sequence_packing": {"enabled": True, "train_mb_tokens": 48}},
    },
    {
        "name": "packed, three steps",
        "model": "dense",
        "megatron": {},
        "policy": {"sequence_packing": {"enabled": True}, "train_global_batch_size": 2},
    },
    {
        "name": "dynamic micro-batches",
        "model": "dense",
        "megatron": SHARP,
        "policy": {"dynamic_batching": BY_TOKENS},
        "torch": ONE_ROW,
    },
    {
        "name": "dynamic micro-batches, of stages",
        "model": "dense",
        "megatron": {"pipeline_model_parallel_size": 2},
        "policy": {"dynamic_batching": BY_TOKENS},
        "torch": ONE_ROW,
    },
    {
        "name": "dynamic micro-batches, two steps",
        "model": "experts",
        "megatron": {"expert_model_parallel_size": 2},
        "policy": {"dynamic_batching": BY_TOKENS, "train_global_batch_size": 3},
        "torch": {**ONE_ROW, "train_global_batch_size": 3},
    },
    {
        "name": "experts apart from layers",
        "model": "experts",
        "megatron": {**SHARP, **DISTRIBUTED, "expert_model_parallel_size": 2, "expert_tensor_parallel_size": 1},
    },
    {
        "name": "overlapped, with a reference",
        "model": "dense",
        "megatron": {**DISTRIBUTED, "distributed_data_parallel_config": OVERLAPPED, "activation_checkpointing": True},
        "loss": {"reference_policy_kl_penalty": 0.01},
    },
    {
        "name": "at a temperature",
        "model": "dense",
        "megatron": {"tensor_model_parallel_size": 2},
        "policy": {"generation": {"temperature": 0.7}},
    },
]
RIGHT = ("tp2", "pp2", "dp2", "ep2")
pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def results(vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("layouts")
    make_models(vllm_python, folder)
    return launched(vllm_python, "measure_layouts.py", folder, 2, TWO)


@pytest.mark.parametrize("name", RIGHT)
def test_log_probs_are_those_of_torch(results: Any, name: str) -> None:
    assert results[name]["log_probs"] < LOG_PROBS
    total, tokens, of_torch = results[name]["nll"]
    assert total / tokens == pytest.approx(of_torch / tokens, abs=LOG_PROBS)


@pytest.mark.parametrize("name", [name for name in RIGHT if name != "dp2"])
def test_each_gradient_is_that_of_torch(results: Any, name: str) -> None:
    """With the distributed optimizer each process has a part of it alone."""
    assert {one: error for one, error in results[name]["gradient"].items() if error >= GRADIENTS} == {}


def test_without_what_adds_up_gradients_those_of_shared_weights_are_wrong_and_nothing_tells(results: Any) -> None:
    told = results["not added up"]
    assert told["log_probs"] < LOG_PROBS
    assert told["metrics"][0]["train/loss"] == pytest.approx(told["torch"][0]["train/loss"], abs=1e-6)
    assert all(told["gradient"][name] > 0.1 for name in SHARED_BY_HEADS)
    assert all(results["tp2"]["gradient"][name] < GRADIENTS for name in SHARED_BY_HEADS)


@pytest.mark.parametrize("name", RIGHT)
def test_weights_after_five_steps_are_those_of_torch(results: Any, name: str) -> None:
    assert results[name]["weights"] < WEIGHTS
    assert results[name]["moved"] > 5 * WEIGHTS


@pytest.mark.parametrize("name", RIGHT)
def test_metrics_are_those_of_torch(results: Any, name: str) -> None:
    for ours, theirs in zip(results[name]["metrics"], results[name]["torch"], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("name", RIGHT)
def test_exported_weights_are_the_imported_ones(results: Any, name: str) -> None:
    assert results[name]["imported"]


@pytest.fixture(scope="module")
def more(vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("more")
    make_models(vllm_python, folder)
    told = [launched(vllm_python, "measure_layouts.py", folder, n, cases) for n, cases in ((2, MORE), (4, FOUR))]
    return {name: one for part in told for name, one in part.items()}


@pytest.mark.long
@pytest.mark.parametrize("name", [case["name"] for case in (*MORE, *FOUR)])
def test_nor_do_both_at_once_change_it_what_rows_share_or_where_experts_are(more: Any, name: str) -> None:
    told = more[name]
    assert told["log_probs"] < LOG_PROBS
    assert max((told["gradient"] or {"none": 0.0}).values()) < GRADIENTS
    assert told["weights"] < WEIGHTS
    assert told["imported"]
    for ours, theirs in zip(told["metrics"], told["torch"], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-5)


@pytest.mark.long
def test_dynamic_micro_batches_have_as_many_rows_as_tokens_allow(more: Any) -> None:
    assert more["dynamic micro-batches"]["micros"] == [[30], [22, 17], [14, 9, 6]]
    assert more["dynamic micro-batches, of stages"]["micros"] == [[30], [22, 17], [14, 9, 6]]
