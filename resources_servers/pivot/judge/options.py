"""What of the judge of undecided actions may be set."""

from pydantic import BaseModel, ConfigDict, Field, field_validator

from paddock.server import Reference
from paddock.types import JsonObject


class JudgeOptions(BaseModel):
    """Who is asked whether two actions do the same, with how much text and for how long."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model_server: Reference
    """The judge: any model server, `{type: models_servers, name: ...}`."""
    responses_create_params: JsonObject = {"temperature": 0.0}
    """Parameters of each request, besides `input` and `max_output_tokens`."""
    max_output_tokens: int = Field(default=2048, ge=16)
    """Tokens of one answer."""
    max_context_chars: int = Field(default=4000, ge=0)
    """Characters of the end of the row's history that the judge is shown."""
    max_action_chars: int = Field(default=8000, ge=1)
    """Characters of one action; where either has more the judge is not asked."""
    max_unusable: int = Field(default=2, ge=0)
    """Answers to one question that can't be read, after which it is asked again; one more is a failure."""
    timeout_s: float = Field(default=120.0, gt=0)
    """Seconds for both orders together, from when it is their turn."""
    max_concurrency: int = Field(default=16, ge=1)
    """Pairs that are asked for at once; further ones wait."""

    @field_validator("model_server")
    @classmethod
    def _is_a_model(cls, value: Reference) -> Reference:
        if value.type != "models_servers":
            raise ValueError("needs a model server, {type: models_servers, name: ...}")
        return value

    @field_validator("responses_create_params")
    @classmethod
    def _leaves_ours(cls, value: JsonObject) -> JsonObject:
        own = sorted({"input", "instructions", "max_output_tokens", "tools"} & value.keys())
        if own:
            raise ValueError(f"{', '.join(own)}: set by the judge's own options and prompt")
        return value
