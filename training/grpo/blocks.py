"""The base class of all blocks of the settings."""

from pydantic import BaseModel, ConfigDict


class SettingsBlock(BaseModel):
    """A block of the settings: strict, and as it was read."""

    model_config = ConfigDict(frozen=True, extra="forbid")
