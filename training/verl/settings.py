"""How a run of verl names the environments: the key `environment` of our entry in its agent loop config.

Errors  a value that breaks a field's rule is a ConfigError that names the field.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from paddock.config import validate
from paddock.errors import ConfigError
from paddock.rollouts import RolloutOptions
from paddock.rollouts.client import POLICY
from paddock.types import JsonObject

ESTIMATOR = "paddock_grpo"
"""The advantage estimator of ours: see `advantages`."""
SINGLE_MODES = ("whole", "chain")
"""The sample modes that give one sample for a rollout."""


class EnvironmentSettings(BaseModel):
    """Which environments, and how rollouts run in them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    config: tuple[str, ...]
    """Config files of the environments."""
    overrides: tuple[str, ...] = ()
    """`key=value` over them."""
    engine: JsonObject = {}
    """Settings of `models_servers/function`, as `tool_parser`. By default `tokenizer` is that of verl's policy, and
    `max_model_len` what verl has room for: `prompt_length + response_length`."""
    model_server: str = POLICY
    """The model server of the config in whose place verl's engine is."""
    options: RolloutOptions = RolloutOptions(sample_mode="whole")
    """Options of rollouts, of each agent loop worker; `sample_mode` other than `whole` and `chain` needs verl's V1."""


def read_settings(block: Mapping[str, Any]) -> EnvironmentSettings:
    """The settings in a block of a config."""
    options = {"sample_mode": "whole", **(block.get("options") or {})}
    return validate(EnvironmentSettings, {**block, "options": options}, "environment")


def require_mode(settings: EnvironmentSettings, *, many: bool) -> None:
    """ConfigError where a rollout may have several samples, but verl's worker takes one. `many`: it takes many."""
    mode = settings.options.sample_mode
    if not many and mode not in SINGLE_MODES:
        raise ConfigError(
            f"environment.options.sample_mode {mode!r} gives several samples for a rollout, but this agent loop worker "
            "of verl takes one: set it to `whole` or `chain`, or `trainer.use_v1: true`",
            kind="verl_sample_mode",
        )


def require_estimator(name: str) -> None:
    """ConfigError for an estimator of verl that takes a failed rollout's place in the batch for a reward of 0. To be
    asked for a worker that has to be given an output for each rollout."""
    if name != ESTIMATOR:
        raise ConfigError(
            f"algorithm.adv_estimator {name!r} counts a rollout that failed as one with reward 0: this agent loop "
            f"worker of verl needs `{ESTIMATOR}`; with `trainer.use_v1: true` a failed rollout has no output",
            kind="verl_estimator",
        )


def replays_experts(rollout: Any) -> bool:
    """Whether verl trains with the experts of the rollout. `rollout`: its config of rollouts."""
    return bool(getattr(rollout, "enable_rollout_routing_replay", False))


def require_no_replay(rollout: Any) -> None:
    """ConfigError where experts are replayed. To be asked for a worker that has to be given an output for each
    rollout."""
    if replays_experts(rollout):
        raise ConfigError(
            "rollout.enable_rollout_routing_replay: this agent loop worker of verl wants experts of a rollout that "
            "failed, too: set `trainer.use_v1: true`",
            kind="verl_setting",
        )
