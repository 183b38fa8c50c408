"""Does the model fit the layout that Megatron-core is to have? Asked of its `config.json`, before anything starts.

Law     a model that is no folder here is not asked: the bridge says the same when it reads it.
Errors  ConfigError, kind `layout`, with the key and what would be right.
"""

from pathlib import Path

import orjson

from paddock.errors import ConfigError
from paddock.training.grpo.policy_config import PolicyConfig

_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")


def require_fitting(policy: PolicyConfig) -> None:
    config = policy.megatron_cfg
    about = Path(policy.model_name).expanduser() / "config.json"
    if not config.enabled or not about.is_file():
        return
    told, tensor = orjson.loads(about.read_bytes()), config.tensor_model_parallel_size
    experts = next((told[name] for name in _EXPERTS if told.get(name)), 0)
    wrong = None
    if experts and tensor > 1 and not config.sequence_parallel:
        wrong = "a model with experts and tensor_model_parallel_size above 1 need sequence_parallel: set it to true"
    elif experts % config.expert_model_parallel_size or (config.expert_model_parallel_size > 1 and not experts):
        wrong = f"expert_model_parallel_size ({config.expert_model_parallel_size}) does not divide {experts} experts"
    elif (told.get("vocab_size") or 0) % tensor:
        wrong = f"tensor_model_parallel_size ({tensor}) does not divide a vocabulary of {told['vocab_size']}"
    if wrong is not None:
        raise ConfigError(f"policy.megatron_cfg: {policy.model_name}: {wrong}", kind="layout")
