"""What of the comparator `executed` may be set."""

from pydantic import BaseModel, ConfigDict, Field

from paddock.sandbox import SandboxLimits, SandboxSettings


class ExecutedOptions(BaseModel):
    """Where actions run, for how long, and how much two looks may differ."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sandbox: SandboxSettings = SandboxSettings()
    """Where the actions of both sides run."""
    limits: SandboxLimits = SandboxLimits()
    """Limits of each sandbox."""
    timeout_s: float = Field(default=120.0, gt=0)
    """Seconds that all calls of one side may run together. A policy that takes longer earns nothing."""
    max_concurrent_sandboxes: int = Field(default=2, ge=1)
    """Sandboxes that run at the same time for this server."""
    max_cached_results: int = Field(default=1000, ge=0)
    """Results that are remembered by step and actions, so that equal actions of a group run once; 0: none."""
    min_coverage: float = Field(default=1.0, gt=0, le=1)
    """Share of the lines that the expert saw which the policy's look must show."""
    max_shown_ratio: float = Field(default=1.5, ge=1)
    """How many times as many lines as the expert's a look may show."""
    extra_shown_lines: int = Field(default=10, ge=0)
    """Lines more than the expert's that a look may always show."""
    ignored_paths: tuple[str, ...] = (
        "*/__pycache__*",
        "*.pyc",
        "*/.pytest_cache*",
        "/root/.cache*",
        "*/.git/index",
        "*/.git/logs*",
        "*/.git/ORIG_HEAD",
        "*/.git/COMMIT_EDITMSG",
    )
    """Patterns (`fnmatch`, whole absolute path) of files that programs leave by the way: they are not compared."""
    max_file_mib: int = Field(default=16, ge=1)
    """A changed file that is larger makes the step one that execution cannot judge."""
