"""Whether model and nodes fit the layout for Megatron-core, by its sizes and the model's `config.json`, before a start.

Law     a model that is no folder here is not checked: the bridge refuses the same when it reads it.
Errors  ConfigError, kind `layout`, with the key and what would be right.
"""

from pathlib import Path

import orjson

from paddock.errors import ConfigError
from paddock.training.grpo.config import ClusterConfig
from paddock.training.grpo.policy_config import PolicyConfig

_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")


def require_nodes(policy: PolicyConfig, cluster: ClusterConfig) -> None:
    """ConfigError where ranks that have to share a node are more than its GPUs."""
    config, gpus = policy.megatron_cfg, cluster.gpus_per_node
    if config.enabled and gpus and policy.torch_cfg.device != "cpu" and config.ranks_on_one_node > gpus:
        raise ConfigError(
            f"policy.megatron_cfg: {config.ranks_on_one_node} ranks split tensors among them "
            "(tensor_model_parallel_size, expert_tensor_parallel_size) and have to be on one node, which has "
            f"{gpus} GPUs (cluster.gpus_per_node): split the layers over nodes by pipeline_model_parallel_size",
            kind="layout",
        )


def require_layout(policy: PolicyConfig) -> None:
    """ConfigError for a model that does not fit `policy.megatron_cfg`."""
    config = policy.megatron_cfg
    file = Path(policy.model_name).expanduser() / "config.json"
    if not config.enabled or not file.is_file():
        return
    info, tensor = orjson.loads(file.read_bytes()), config.tensor_model_parallel_size
    experts = next((info[name] for name in _EXPERTS if info.get(name)), 0)
    wrong = None
    if policy.router_replay.enabled and not experts:
        wrong = "has no experts for policy.router_replay: set policy.router_replay.enabled to false"
    elif experts and tensor > 1 and not config.sequence_parallel:
        wrong = "a model with experts and tensor_model_parallel_size above 1 need sequence_parallel: set it to true"
    elif experts % config.expert_model_parallel_size or (config.expert_model_parallel_size > 1 and not experts):
        wrong = f"expert_model_parallel_size ({config.expert_model_parallel_size}) does not divide {experts} experts"
    elif (info.get("vocab_size") or 0) % tensor:
        wrong = f"tensor_model_parallel_size ({tensor}) does not divide a vocabulary of {info['vocab_size']}"
    if wrong is not None:
        raise ConfigError(f"policy.megatron_cfg: {policy.model_name}: {wrong}", kind="layout")
