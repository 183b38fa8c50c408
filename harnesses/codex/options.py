"""Options of Codex's profiles."""

from pydantic import BaseModel, ConfigDict, Field


class CodexOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    max_output_tokens: int = Field(gt=0)
    """Of a command's output that is shown; a call may ask for less."""
    allow_login_shell: bool
    """Whether `login: true` is taken; else such a call is refused."""
    json_results: bool
    """Commands are answered with a JSON object, as 0.63's `shell` does."""
    environment: dict[str, str]
    """Variables of every command."""
