"""A layout that a model does not fit is refused before anything starts."""

import json
from pathlib import Path
from typing import Any

import pytest

from paddock.errors import ConfigError
from paddock.training.grpo.config import ClusterConfig
from paddock.training.grpo.layout_check import require_layout, require_nodes
from paddock.training.grpo.policy_config import PolicyConfig, RouterReplayConfig

DENSE = {"vocab_size": 97}
EXPERTS = {"vocab_size": 96, "num_experts": 6}


def policy(folder: Path, model: dict[str, Any], **megatron: Any) -> PolicyConfig:
    (folder / "config.json").write_text(json.dumps(model))
    return PolicyConfig.model_validate({"model_name": str(folder), "megatron_cfg": {"enabled": True, **megatron}})


@pytest.mark.parametrize(
    ("model", "megatron", "said"),
    [
        (DENSE, {"tensor_model_parallel_size": 2}, "does not divide a vocabulary of 97"),
        (DENSE, {"expert_model_parallel_size": 2}, "does not divide 0 experts"),
        (EXPERTS, {"expert_model_parallel_size": 4}, "does not divide 6 experts"),
        (EXPERTS, {"tensor_model_parallel_size": 2}, "need sequence_parallel: set it to true"),
    ],
)
def test_it_is_said_what_does_not_fit(tmp_path: Path, model: Any, megatron: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        require_layout(policy(tmp_path, model, **megatron))


def test_experts_of_a_model_without_are_not_replayed(tmp_path: Path) -> None:
    replaying = policy(tmp_path, DENSE).model_copy(update={"router_replay": RouterReplayConfig(enabled=True)})
    with pytest.raises(ConfigError, match=r"has no experts for policy\.router_replay"):
        require_layout(replaying)


@pytest.mark.parametrize("sizes", [{"tensor_model_parallel_size": 16}, {"expert_tensor_parallel_size": 16}])
def test_what_splits_tensors_fits_on_a_node(tmp_path: Path, sizes: Any) -> None:
    made = policy(tmp_path, DENSE, **sizes)
    with pytest.raises(ConfigError, match=r"16 ranks split tensors .* on one node, which has 8 GPUs"):
        require_nodes(made, ClusterConfig(gpus_per_node=8))
    require_nodes(made, ClusterConfig(gpus_per_node=16))
    require_nodes(made, ClusterConfig())


def test_what_fits_is_taken(tmp_path: Path) -> None:
    require_layout(policy(tmp_path, DENSE))
    sharp = {"tensor_model_parallel_size": 2, "sequence_parallel": True, "expert_model_parallel_size": 3}
    require_layout(policy(tmp_path, EXPERTS, **sharp))
    require_layout(PolicyConfig(model_name="owner/model"))
