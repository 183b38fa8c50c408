"""The config that NeMo-RL gives to its actor of environments.

Source  NVIDIA-NeMo/RL, `nemo_rl/environments/nemo_gym.py` (`NemoGymConfig`).
Errors  ConfigError for an unknown key, and for features that this actor does not have: images, routed experts.
"""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from paddock.errors import ConfigError, describe
from paddock.training.core.flaws import FlawRules
from paddock.training.nemo_rl.compose import policy_keys
from paddock.training.nemo_rl.postprocess import DETECTION
from paddock.types import JsonObject


class ActorConfig(BaseModel):
    """The config of the actor; fields are named as in NeMo-RL."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    model_name: str
    """The model's name at the chat server."""
    base_urls: list[str | None]
    """The chat server of each data-parallel replica; None: it has none."""
    initial_global_config_dict: dict[str, Any] = Field(default_factory=dict)
    """`env.nemo_gym`, without the keys that are fields here."""
    invalid_tool_call_patterns: list[str] | None = None
    thinking_tags: list[str] | None = None
    port_range_low: int | None = None
    """Not read: the system chooses ports."""
    port_range_high: int | None = None
    require_routed_experts: bool = False
    routed_experts_dtype: str = "int16"
    """Read only with routed experts."""
    use_fastokens: bool = False
    """Not read: a faster tokenizer, where one encodes; here ids are decoded only."""
    tokenizer_config: dict[str, Any] | None = None
    """The tokenizer of a model that sees images."""
    pad_dynamic_image_shapes: bool = False
    """Read only with images."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        try:
            return cls.model_validate(dict(given))
        except ValidationError as error:
            raise ConfigError(f"the actor's config: {describe(error)}", kind="config_invalid") from error

    @property
    def dictionary(self) -> JsonObject:
        """The dictionary from which the environment is composed."""
        urls = [url for url in self.base_urls if url]
        return {**self.initial_global_config_dict, **policy_keys(self.model_name, urls)}

    @property
    def detection(self) -> FlawRules:
        return FlawRules(
            tuple(self.invalid_tool_call_patterns or DETECTION.invalid_tool_call_patterns),
            tuple(self.thinking_tags or DETECTION.thinking_tags),
        )

    def require_possible(self) -> None:
        if self.require_routed_experts:
            raise ConfigError(
                "policy.router_replay.enabled: turns are recorded without the routed experts that it replays",
                kind="routed_experts",
            )
        if self.tokenizer_config is not None:
            raise ConfigError("policy.is_vlm: environments here show no images", kind="images")
