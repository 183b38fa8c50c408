"""Settings of sandboxes on this machine: the `sandbox` block of a config.

Limits  of one sandbox are `SandboxLimits` in `records`; here is what holds for the machine and all sandboxes on it.
Units   in the field names. Folders default by user: root's below `/var/lib/paddock`, another's below
        `$XDG_DATA_HOME/paddock` (or `~/.local/share/paddock`); `PADDOCK_HOME` replaces both.
"""

import os
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from paddock.errors import ConfigError
from paddock.limits import lack_of_disk
from paddock.sandbox.records import Purpose, RuntimeName
from paddock.sandbox.watchdog import WatchdogSettings

HOME_VARIABLE = "PADDOCK_HOME"
PROGRAMS = "programs"
"""Below a home."""
PAYLOAD_ID = 59734
"""Above the ids that Debian gives to users, below those of systemd and of subordinate ranges."""
FIRST_UID = 2_100_000_000
"""Above subordinate ranges, those of systemd's containers and those that sssd gives to users of a domain."""
NOBODY = 65534


def default_home() -> Path:
    """Where images and state are kept unless a config says otherwise."""
    if named := os.environ.get(HOME_VARIABLE):
        return Path(named)
    if os.geteuid() == 0:
        return Path("/var/lib/paddock")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "paddock"


def check_home(home: Path, min_free_disk_mib: int = 0) -> None:
    """ConfigError where root's sandboxes would lie in a folder that their unprivileged user can't pass, where overlayfs
    can't take the path, or where there is no room for what sandboxes write."""
    if (lacks := lack_of_disk(home, min_free_disk_mib)) is not None:
        raise ConfigError(f"{lacks} (sandbox.min_free_disk_mib, {HOME_VARIABLE})", kind="disk_full")
    if any(mark in str(home) for mark in ",:\\"):
        raise ConfigError(f"{home}: sandboxes can't live below a path with a comma, colon or backslash", kind="home")
    if os.geteuid() != 0:
        return
    for folder in (home, *home.parents):
        if folder.exists() and not folder.stat().st_mode & 0o001:
            raise ConfigError(
                f"{home}: {folder} is closed to other users, and sandboxes run as one: choose a folder that all can "
                f"pass with {HOME_VARIABLE}, such as /var/lib/paddock, or chmod o+x {folder}",
                kind="home",
            )


def check_node_url(url: str) -> None:
    """ValueError where it is no URL of a node."""
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url!r}: give the URL that `paddock sandbox serve` prints, as http://HOST:PORT")


class UidRanges(BaseModel):
    """Users of this machine that sandboxes run as, one each: first those of agents, then those of gradings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    first: int = Field(default=FIRST_UID, ge=1000)
    """The lowest of these user ids."""
    agents: int = Field(default=10_000, ge=1)
    """Sandboxes of agents, and all but gradings, that can live at the same time on this machine."""
    gradings: int = Field(default=10_000, ge=1)
    """Sandboxes of gradings that can live at the same time on this machine."""

    def of(self, purpose: Purpose) -> range:
        first_grading = self.first + self.agents
        if purpose == "agent":
            return range(self.first, first_grading)
        return range(first_grading, first_grading + self.gradings)

    @property
    def whole(self) -> range:
        return range(self.first, self.first + self.agents + self.gradings)

    @model_validator(mode="after")
    def _possible(self) -> "UidRanges":
        if self.whole.stop > 2**31 or NOBODY in self.whole:
            raise ValueError(
                f"uids from {self.first} to {self.whole[-1]}: give a range below {2**31} without {NOBODY}, as nobody is"
            )
        return self


class SandboxSettings(BaseModel):
    """How sandboxes are made here."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    runtime: RuntimeName | Literal["auto", "quickest"] = "auto"
    """`auto`: the first that works here of apptainer, bubblewrap, podman, docker. `quickest`: bubblewrap before
    apptainer, as its sandboxes start in a third of the time: for many short ones."""
    home: Path = Field(default_factory=default_home, validate_default=True)
    """Holds `images/`, `layers/`, `programs/` and `state/`; on a disk, not on tmpfs."""
    min_free_disk_mib: int = Field(default=64, ge=0)
    """MiB that have to be free on the disk of `home` before the first sandbox is made; 0: any room will do."""
    programs_of: Path | None = None
    """The home whose `programs/` are used; None: `home`."""
    payload_id: int = Field(default=PAYLOAD_ID, ge=1000, le=2**31)
    """User and group id that files of images and sandboxes have on the disk, where we run as root; another user's
    sandboxes run as that user."""
    uids: UidRanges | None = UidRanges()
    """What sandboxes run as where we are root and this machine can do it (`paddock doctor`); None, and elsewhere: all
    as `payload_id`."""
    starts_at_once: int = Field(default_factory=lambda: 2 * (os.cpu_count() or 1), ge=1)
    """Sandboxes that may be starting at the same time."""
    start_timeout_s: float = Field(default=60.0, gt=0)
    """Seconds from the request to the first command."""
    answer_timeout_s: float = Field(default=60.0, gt=0)
    """Seconds for a command to have started, or a file or port to be open; then the sandbox is ended as failed."""
    stop_timeout_s: float = Field(default=10.0, gt=0)
    """Seconds for a sandbox to be gone."""
    provider: str | None = None
    """`module:Class` of a provider of one's own, which is made with these settings (`sandbox/protocol.py`); None: the
    sandboxes of `nodes`, else of this machine."""
    nodes: tuple[str, ...] | Literal["ray"] = ()
    """URLs of machines whose sandboxes are used in place of this one's (`paddock sandbox serve`). `ray`: the nodes of
    the Ray cluster that carry the label `paddock-sandboxes=PORT`, as they come and go (docs/cluster.md)."""
    node_token_file: Path | None = None
    """File with the token of the nodes; None: the variable PADDOCK_TOKEN, or what a node of this machine has stored."""
    node_ca_file: Path | None = None
    """File with the certificates, in PEM, of who vouches for nodes at `https`; None: those that the system trusts."""
    max_sandboxes: int | None = Field(default=None, ge=1)
    """Sandboxes of this client, which is a process, at the same time on all nodes together; None: as many as have room.
    With nodes only: an agent's `admission` bounds those of its own machine."""
    node_health_s: float = Field(default=10.0, gt=0)
    """Seconds between questions to a node of how it is; one that does not answer within them gets no sandboxes."""
    node_lookup_s: float = Field(default=10.0, gt=0)
    """Seconds between looks for the nodes of the Ray cluster, where `nodes` is `ray`."""
    node_poll_s: float = Field(default=1.0, gt=0)
    """Seconds between such questions while sandboxes wait for room, or while the node is in trouble."""
    lease_ttl_s: float = Field(default=60.0, ge=1)
    """Seconds without a word after which a node ends this client's sandboxes, and this client gives them up."""
    answer_margin_s: float = Field(default=30.0, gt=0)
    """Seconds that a node may take for an answer beyond a command's own time limit."""
    watchdog: WatchdogSettings = WatchdogSettings()
    """When a sandbox that takes too much memory or disk is stopped."""

    @property
    def elsewhere(self) -> str | None:
        """What makes the sandboxes in place of this machine; None: this machine does."""
        return self.provider or (self.nodes if isinstance(self.nodes, str) else ", ".join(self.nodes)) or None

    @property
    def programs_home(self) -> Path:
        return self.programs_of or self.home

    @property
    def programs(self) -> Path:
        """Holds the programs of harnesses, one folder each."""
        return self.programs_home / PROGRAMS

    @model_validator(mode="after")
    def _apart(self) -> "SandboxSettings":
        if self.uids and self.payload_id in self.uids.whole:
            raise ValueError(f"uids: payload_id, {self.payload_id}, is one of them: give a range without it")
        return self

    @model_validator(mode="after")
    def _bounded_elsewhere(self) -> "SandboxSettings":
        if self.max_sandboxes is not None and not self.nodes:
            raise ValueError("max_sandboxes: only of nodes; admission.max_sandboxes bounds those of one machine")
        return self

    @field_validator("nodes")
    @classmethod
    def _urls_of_nodes(cls, value: tuple[str, ...] | Literal["ray"]) -> tuple[str, ...] | Literal["ray"]:
        if isinstance(value, str):
            return value
        named = [url.rstrip("/") for url in value]
        if len(set(named)) < len(named):
            raise ValueError(f"{', '.join(value)}: a node is named twice")
        for url in value:
            check_node_url(url)
        return value

    @field_validator("home")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()
