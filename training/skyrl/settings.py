"""What a run of SkyRL with our environments is told besides SkyRL's own config.

Errors  ConfigError `skyrl_setting` for a setting of SkyRL's generator that has no meaning here, or that would train on
        what no rollout gives.
"""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict
from yaml import safe_load

from paddock.errors import ConfigError
from paddock.rollouts import RolloutOptions
from paddock.types import JsonObject

_REFUSED = {
    "batched": "rollouts are not batches of prompts",
    "vision_language_generator": "samples hold no images",
    "zero_reward_on_non_stop": "rewards are verdicts; `apply_overlong_filtering` masks what a budget cut",
}
_REFUSED_OF_ENGINES = {
    "enable_return_sample_support_set": "samples hold no sampler support",
}


class SkyRlSettings(BaseModel):
    """Which environments, and how rollouts run in them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    config: Sequence[str]
    """Config files of the environments. Their `rollouts` block has the options of rollouts; its `sample_mode` counts
    where `generator.step_wise_trajectories` is true."""
    overrides: Sequence[str] = ()
    """`key=value` over them."""
    engine: JsonObject = {}
    """Settings of `models_servers/function`, as `tool_parser`; `tokenizer` is SkyRL's policy's folder by default."""
    model_server: str = "policy_model"
    """The model server of the config in whose place SkyRL's engines are."""


def options_for(options: RolloutOptions, *, step_wise: bool) -> RolloutOptions:
    """Options under which a rollout has as many samples as SkyRL takes: one, where it is not step-wise."""
    return options if step_wise else options.model_copy(update={"sample_mode": "whole"})


def settings_of(words: Sequence[str]) -> SkyRlSettings:
    """The settings in words of a command line: files, `engine.KEY=VALUE`, and `KEY=VALUE`."""
    engine, others = "engine.", [word for word in words if "=" in word]
    files = [word for word in words if "=" not in word]
    if not files:
        raise ConfigError("no config file of an environment", kind="config_missing")
    pairs = [word.removeprefix(engine).partition("=") for word in others if word.startswith(engine)]
    return SkyRlSettings(
        config=files,
        overrides=[word for word in others if not word.startswith(engine)],
        engine={name: safe_load(value) for name, _, value in pairs},
    )


def require_supported(generator_cfg: Any) -> None:
    """ConfigError for a block `generator` of SkyRL's config that would not do what it says."""
    for block, refused, where in (
        (generator_cfg, _REFUSED, "generator"),
        (generator_cfg.inference_engine, _REFUSED_OF_ENGINES, "generator.inference_engine"),
    ):
        for name, why in refused.items():
            if getattr(block, name):
                raise ConfigError(f"{where}.{name}: {why}", kind="skyrl_setting")
