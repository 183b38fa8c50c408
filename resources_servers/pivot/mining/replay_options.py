"""What of a replay may be set."""

from pydantic import BaseModel, ConfigDict, Field


class ReplayOptions(BaseModel):
    """How long trajectories are played again, what of it is kept, and how much results may differ."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    trajectory_timeout_s: float = Field(default=1800.0, gt=0)
    """Seconds that one trajectory is played; steps beyond them get no snapshot. A call has `executed.timeout_s`."""
    max_snapshots_mib: int = Field(default=8192, ge=0)
    """MiB of disk that all snapshots of one mining may take; later steps get none."""
    min_same_lines: float = Field(default=0.9, gt=0, le=1)
    """Share of the lines of a result that have to be as recorded, each way."""
