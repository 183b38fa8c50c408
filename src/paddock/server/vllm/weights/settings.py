"""How weights go to the engines of a run."""

from pydantic import BaseModel, ConfigDict, Field


class WeightsSettings(BaseModel):
    """`paddock.weights`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bucket_bytes: int = Field(default=256 << 20, ge=1 << 10)
    """What is sent at once. The policy and each worker of an engine hold two of that size while weights are sent, on a
    CPU also between sendings; a worker also what it has of a module that is not whole yet, such as the
    experts of a layer. A larger tensor goes by itself."""
    timeout_s: float = Field(default=60.0, gt=0)
    """Longest that one bucket may take on its way to all engines, or they may take to connect, or to load the last of
    it. Then an engine has died or hangs: it is left out, and the others are sent the weights again."""
