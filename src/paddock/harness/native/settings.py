"""Settings that every native harness has: its `harness_config` block."""

from pydantic import BaseModel, ConfigDict, Field

from paddock.harness.context import ContextSettings
from paddock.harness.native.profile import DEFAULT
from paddock.types import JsonObject


class NativeSettings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    profile: str = DEFAULT
    """A file of the harness's `profiles/` folder, without `.json`."""
    context: ContextSettings | None = None
    """How the history is kept within the model's context; None: the model gets all of it, and a rollout ends when that
    is too long."""
    last_turn_notice: str | None = Field(default=None, min_length=1)
    """A user message before the last turn that `agent_max_turns` allows; None: there is none."""
    options: JsonObject = {}
    """Options of the profile that are changed, by name."""
