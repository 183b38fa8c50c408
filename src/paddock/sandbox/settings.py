"""What sandboxes on this machine may be told: the `sandbox` block of a config.

Units   in the field names. Folders default by user: root's below `/var/lib/paddock`, another's below
        `$XDG_DATA_HOME/paddock` (or `~/.local/share/paddock`); `PADDOCK_HOME` replaces both.
"""

import os
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from paddock.sandbox.records import RuntimeName
from paddock.sandbox.watchdog import WatchdogSettings

HOME_VARIABLE = "PADDOCK_HOME"
PAYLOAD_ID = 59734
"""Above the ids that Debian gives to users, below those of systemd and of subordinate ranges."""


def default_home() -> Path:
    """Where images and state are kept unless a config says otherwise."""
    if named := os.environ.get(HOME_VARIABLE):
        return Path(named)
    if os.geteuid() == 0:
        return Path("/var/lib/paddock")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "paddock"


class SandboxSettings(BaseModel):
    """How sandboxes are made here."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    runtime: RuntimeName | Literal["auto"] = "auto"
    """`auto`: the first that works here of apptainer, bubblewrap, podman, docker."""
    home: Path = Field(default_factory=default_home)
    """Holds `images/`, `layers/` and `state/`; on a disk, not on tmpfs."""
    payload_id: int = Field(default=PAYLOAD_ID, ge=1000, le=2**31)
    """User and group id of everything in a sandbox, where we run as root; another user's sandboxes run as that user."""
    starts_at_once: int = Field(default_factory=lambda: 2 * (os.cpu_count() or 1), ge=1)
    """Sandboxes that may be starting at the same time."""
    start_timeout_s: float = Field(default=60.0, gt=0)
    """From wish to first command."""
    stop_timeout_s: float = Field(default=10.0, gt=0)
    """For a sandbox to be gone."""
    watchdog: WatchdogSettings = WatchdogSettings()
