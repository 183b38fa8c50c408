"""Config of a replay server."""

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from paddock.server.recording_server import RecordingConfig


class ReplayConfig(RecordingConfig):
    """Where the turns come from, and how they are played."""

    mode: Literal["scripted", "oracle", "recorded"] = "scripted"
    """`scripted`: what `PUT /r/<secret>/script` says; `oracle`: the same, put by the collector from the environment's
    known-good turns; `recorded`: turns of `rollouts`, found by what was asked."""
    rollouts: Path | None = None
    """A `rollouts.jsonl` whose turns are played; with `mode: recorded` only."""
    model: str = "replay"
    """The model's name in replies."""
    delay_s: float = Field(default=0.0, ge=0)
    """Seconds before each answer."""
    max_scripts: int = Field(default=20000, ge=1)
    """Rollouts that may have a script at once; beyond it the least recently used is forgotten."""

    @model_validator(mode="after")
    def _rollouts_when_recorded(self) -> "ReplayConfig":
        if (self.mode == "recorded") != (self.rollouts is not None):
            raise ValueError("`rollouts` (a rollouts.jsonl) is needed with `mode: recorded`, and only there")
        return self
