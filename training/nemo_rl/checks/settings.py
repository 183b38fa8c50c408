"""Settings of a recipe that rules depend on; without them rules check what holds for every recipe."""

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class CheckSettings(BaseModel):
    """The settings of a check; None: unknown, and so not checked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    vocabulary_size: int | None = Field(default=None, ge=1)
    """Rows of the model's embedding."""
    max_total_sequence_length: int | None = Field(default=None, ge=1)
    """Tokens: `policy.max_total_sequence_length`, which is the engine's `max_model_len` too."""
    overlong_filtering: bool = False
    """`grpo.overlong_filtering`: what was cut shall not be trained on."""
    require_routed_experts: bool = False
    """`policy.router_replay.enabled`."""
    temperature: float | None = Field(default=None, ge=0)
    """`policy.generation.temperature`."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    """`policy.generation.top_p`."""

    @model_validator(mode="after")
    def _length_known(self) -> Self:
        if self.overlong_filtering and self.max_total_sequence_length is None:
            raise ValueError("overlong_filtering goes by length: set max_total_sequence_length")
        return self
