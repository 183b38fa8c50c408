"""The watchdog's numbers.

Margin  it acts a little below a sandbox's memory limit, by the smaller of two margins: so the process that is too large
        is chosen by us and named to the model before the cgroup's hard limit (= the limit) lets the kernel choose.
"""

from pydantic import BaseModel, ConfigDict, Field


class WatchdogSettings(BaseModel):
    """Defaults suit sandboxes of 100 MiB to 64 GiB."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    period_s: float = Field(default=1.0, gt=0)
    """Seconds between looks at a sandbox at rest."""
    finest_share: float = Field(default=0.05, gt=0, le=1)
    """The shortest period as a share of `period_s`."""
    disk_period_s: float = Field(default=5.0, gt=0)
    """Between looks at what a sandbox at rest has written; sooner where its disk has lost half of what it may still
    write, and never so often that looks take more than half of the time."""
    margin_share: float = Field(default=0.05, ge=0, lt=1)
    """Share of a sandbox's memory limit by which it is acted on earlier; the smaller of this and `margin_mib` holds."""
    margin_mib: float = Field(default=64.0, ge=0)
    """The same margin in MiB."""
    large_share: float = Field(default=0.05, gt=0, le=1)
    """A process below this share of the limit is not worth killing: something else holds the memory."""
    grace_s: float = Field(default=5.0, ge=0)
    """Seconds that a sandbox may be over its memory limit in spite of kills; then its budget is used up."""
    dying_s: float = Field(default=2.0, ge=0)
    """Seconds that a killed process may take to give its memory back before another is killed."""
    host_floor_mib: float = Field(default=256.0, ge=0)
    """MiB of memory that the machine keeps available: below, its largest sandbox is given up as the machine's failure;
    0: never."""

    host_disk_floor_mib: float = Field(default=256.0, ge=0)
    """Free on the disk that sandboxes write to, below which the one that has most there is given up as the machine's
    failure, unless one is over its own limit; 0: never."""
    host_disk_floor_files: int = Field(default=5000, ge=0)
    """Files that this disk can still take, below which the same is done; 0: never."""

    def memory_threshold(self, limit_bytes: int) -> int:
        """Bytes above which we act."""
        return limit_bytes - int(min(limit_bytes * self.margin_share, self.margin_mib * 2**20))
