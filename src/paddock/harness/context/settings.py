"""The `context` block of a native harness. Tokens, as the name says."""

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from paddock.types import JsonObject

if TYPE_CHECKING:
    from paddock.harness.native.history import Context


class ContextSettings(BaseModel):
    """Head and tail of the history, within a budget."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_tokens: int = Field(ge=1)
    """Of the whole request; with what the model may answer it must be within the model's context."""
    head_share: float = Field(default=0.3, ge=0, le=1)
    """Of what is left beside system and problem, for the first steps; the rest is for the last."""
    tokenizer_file: str | None = None
    """The policy's `tokenizer.json`; None: the engine's own counts of earlier requests tell how long steps are."""


def make_context(settings: ContextSettings, params: JsonObject) -> "Context":
    """A new one, of one rollout. `params`: the model's parameters of each request."""
    from paddock.harness.context.head_tail import HeadTail

    return HeadTail(settings)
