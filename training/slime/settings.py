"""The keys of slime's `--custom-config-path` file that are ours; slime sets them on its arguments.

Errors  ConfigError that names a key, its problem, and what would be right.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from paddock.config import validate
from paddock.errors import ConfigError
from paddock.types import JsonObject

PREFIX = "paddock_"
POST_PROCESS = "paddock.training.slime.post_process_rewards"


class SlimeSettings(BaseModel):
    """Keys that begin with `paddock_` in the file, without that."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    config: str | list[str]
    """Config file, or files, of the environment: agents and resources servers."""
    overrides: list[str] = []
    """`key=value` of it."""
    model_server: str = "policy_model"
    """The model server that agents call; slime's engines take its place."""
    engine: JsonObject = Field(default_factory=dict)
    """Keys of `models_servers/function`: `tool_parser`, `reasoning_parser`, `chat_template`, ... Its tokenizer is that
    of `--hf-checkpoint`, where none is named."""
    rollouts: JsonObject = Field(default_factory=dict)
    """Options of rollouts: `sample_mode`, `max_rerolls`, `out`, ... `max_rollouts` is slime's own bound where it is not
    given."""
    abort_poll_s: float = Field(default=0.2, gt=0)
    """Seconds between two looks whether slime has ended its rollout phase."""


def replays_experts(args: Any) -> bool:
    """Whether slime trains with the experts of the rollout."""
    return bool(getattr(args, "use_rollout_routing_replay", False))


def read_settings(args: Any) -> SlimeSettings:
    """The settings among slime's arguments."""
    found = {key.removeprefix(PREFIX): value for key, value in vars(args).items() if key.startswith(PREFIX)}
    if "config" not in found:
        raise ConfigError(
            "paddock_config: missing: the file of --custom-config-path names the environment's config by it",
            kind="config_invalid",
        )
    path = getattr(args, "custom_reward_post_process_path", None)
    if path != POST_PROCESS:
        raise ConfigError(
            f"--custom-reward-post-process-path: is {path!r}, needs {POST_PROCESS}: slime's own counts a rollout that "
            "failed as one with reward 0 in its group's baseline",
            kind="config_invalid",
        )
    settings = validate(SlimeSettings, found, "the file of --custom-config-path")
    if getattr(args, "partial_rollout", False) and settings.rollouts.get("sample_mode") not in ("whole", "chain"):
        raise ConfigError(
            "--partial-rollout: slime takes one sample for each rollout up again: needs paddock_rollouts.sample_mode "
            "`whole` or `chain`",
            kind="config_invalid",
        )
    return settings
