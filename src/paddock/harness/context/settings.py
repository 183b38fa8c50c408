"""The `context` block of a native harness."""

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, field_validator

from paddock.harness.context.head_tail import HeadTail
from paddock.harness.context.token_estimators import ByteEstimator, TokenizerEstimator, load_tokenizer
from paddock.types import JsonObject

if TYPE_CHECKING:
    from paddock.harness.native.history import ContextPolicy

NOTICE = (
    "[To keep this conversation within its limit, {steps} of the earlier steps are not shown here. What they did in "
    "the working directory is still in place.]"
)


class ContextSettings(BaseModel):
    """Head and tail of the history, within a budget."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_tokens: int = Field(ge=1)
    """Tokens of a whole request; with what the model may answer it must be within the model's context."""
    head_share: float = Field(default=0.3, ge=0, le=1)
    """Share, of what is left beside system, problem and tools, for the first steps; the rest is for the last."""
    refill_share: float = Field(default=0.5, ge=0, le=1)
    """How much of the tail's room is filled when a new range is left out; the tail grows into the rest, and only then
    the next is. 1: as much as fits, so that nearly every request leaves out another range and starts a branch."""
    omission_notice: str = NOTICE
    """The user message in place of the steps that are left out; `{steps}` is how many."""
    tokenizer_file: str | None = None
    """The policy's `tokenizer.json`, for what the engine has not counted yet; needs the extra `tokenizers`. None:
    bytes, at the densest rate that the engine counted so far."""

    @field_validator("omission_notice")
    @classmethod
    def _says_how_many(cls, value: str) -> str:
        if "{steps}" not in value:
            raise ValueError("it has to say how many steps are left out: `{steps}`")
        return value

    @field_validator("tokenizer_file")
    @classmethod
    def _loads(cls, value: str | None) -> str | None:
        if value is not None:
            load_tokenizer(value)
        return value


def make_context(settings: ContextSettings, request: JsonObject) -> "ContextPolicy":
    """Make the context policy of one rollout. `request`: the fields of each request beside its `input`."""
    file = settings.tokenizer_file
    estimator = ByteEstimator() if file is None else TokenizerEstimator(load_tokenizer(file))
    return HeadTail(
        max_tokens=settings.max_tokens,
        head_share=settings.head_share,
        refill_share=settings.refill_share,
        notice=settings.omission_notice,
        estimator=estimator,
        tools=request.get("tools") or [],
    )
