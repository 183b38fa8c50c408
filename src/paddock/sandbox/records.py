"""Records of a sandbox: its specification, its handle, requests and results. No host path, no descriptor.

Ids     `request_id` names one request: `create` and `exec` with one that was served give the same answer again.
Units   seconds as float, sizes in MiB where a name says so, else bytes; paths are absolute inside the sandbox.
Law     a command's own end (any exit code, a time limit, its memory killed) is a record; the sandbox's failure is
        raised (`failures`), so neither can pass for the other.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from paddock.types import Record

RuntimeName = Literal["apptainer", "bubblewrap", "podman", "docker"]
Network = Literal["none", "blackhole"]
Purpose = Literal["agent", "grading"]
KilledBy = Literal["timeout", "memory", "cpu", "interrupt"]


class BytesRecord(Record):
    """A record with bytes, which its JSON holds as base64."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")


class SandboxLimits(Record):
    """Budgets of one sandbox; all of it together unless a field says otherwise. None: no limit."""

    memory_mib: int | None = Field(default=4096, ge=16)
    """Anonymous and shared memory of all its processes."""
    pids: int | None = Field(default=512, ge=16)
    """Processes and threads."""
    disk_mib: int | None = Field(default=4096, ge=1)
    """What it may have written over its image: the upper layer, with files that are deleted and still open."""
    disk_files: int | None = Field(default=500_000, ge=16)
    """Files and folders of the same, counted like `disk_mib`."""
    shm_mib: int = Field(default=64, ge=1)
    """Size of `/dev/shm`; counts as memory."""
    cpu_s: float | None = Field(default=None, gt=0)
    """Seconds of the processor that all of a sandbox's processes take together; None: no limit."""
    open_files: int = Field(default=4096, ge=64)
    """Descriptors of one process."""

    def of_each_process(self) -> dict[str, int]:
        """What the kernel holds each process to, by the limit's name in `resource`. A file has no more than the disk
        limit."""
        limits = {"RLIMIT_NOFILE": self.open_files}
        return limits if self.disk_mib is None else {**limits, "RLIMIT_FSIZE": self.disk_mib << 20}


class SandboxSpec(Record):
    """What `create` makes."""

    image: str
    """A name that the image store knows: an image, or a snapshot."""
    workdir: str = "/"
    """Where commands start unless they say otherwise."""
    env: dict[str, str] = {}
    """The whole environment of its commands, beside the image's own."""
    limits: SandboxLimits = SandboxLimits()
    network: Network = "none"
    """`none`: loopback only. `blackhole`: also routes on which packets vanish, for tests that wait for a timeout."""
    purpose: Purpose = "agent"
    """Which of the host's users it may run as: a grading shares no limit of a user's with any agent's sandbox."""
    hostname: str = "sandbox"
    programs: list[Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+-]*$")]] = []
    """Folders below `<home>/programs`, seen read-only as `/opt/paddock/<name>`."""
    labels: dict[str, str] = {}
    """For people: shown in lists, never in the sandbox."""
    group: str | None = None
    """Names what fails together if its sandboxes do: a provider with several machines spreads them. None: nothing."""


class SandboxHandle(Record):
    """A live sandbox."""

    sandbox_id: str
    runtime: str
    """A `RuntimeName`; another provider's sandboxes have a name of its own."""
    spec: SandboxSpec


class ExecRequest(BytesRecord):
    """One command."""

    argv: list[str] = Field(min_length=1)
    workdir: str | None = None
    """None: the sandbox's."""
    env: dict[str, str] = {}
    """Added to the sandbox's."""
    stdin: bytes = b""
    timeout_s: float | None = Field(default=None, gt=0)
    """None: no limit of its own. When it is over, the command's whole tree is killed."""
    head_bytes: int = Field(default=1 << 19, ge=0)
    """Output kept from the start of each stream."""
    tail_bytes: int = Field(default=1 << 19, ge=0)
    """Output kept from the end of each stream; what lies between is counted and dropped as it comes."""
    merge_stderr: bool = False
    """One stream in the order written; `stderr` is then empty."""


class Output(BytesRecord):
    """One stream, capped."""

    head: bytes = b""
    """The whole stream where nothing was dropped."""
    tail: bytes = b""
    dropped_bytes: int = 0

    @property
    def whole(self) -> bool:
        return self.dropped_bytes == 0

    def __bytes__(self) -> bytes:
        """The kept bytes, with a line between head and tail that counts the dropped ones."""
        if self.whole:
            return self.head + self.tail
        return self.head + b"\n[... %d bytes left out ...]\n" % self.dropped_bytes + self.tail


class ExecResult(BytesRecord):
    """How a command ended."""

    exit_code: int
    """As a shell reports it: 128 + n for signal n."""
    stdout: Output
    stderr: Output = Output()
    killed_by: KilledBy | None = None
    """What ended it, where it did not end itself."""
    duration_s: float

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and self.killed_by is None


class ShellRequest(Record):
    """A persistent shell on a terminal of its own."""

    workdir: str | None = None
    env: dict[str, str] = {}
    rows: int = 50
    columns: int = 200
    """Size of its terminal."""
    head_bytes: int = Field(default=1 << 19, ge=0)
    """Output kept from the start of each result."""
    tail_bytes: int = Field(default=1 << 19, ge=0)
    """Output kept from its end."""


class ShellResult(BytesRecord):
    """How a line in a shell ended, or what it has written so far."""

    running: bool = False
    """The line has not ended: poll, type, interrupt or wait."""
    exit_code: int | None = None
    """None while it runs."""
    workdir: str = "/"
    """Where the shell stands now."""
    output: Output
    """Both streams in the order written, since the last result."""
    killed_by: KilledBy | None = None
    closed: bool = False
    """The shell itself has ended (`exit`, or it could not be saved); the next line opens another."""
    duration_s: float = 0.0


class Stats(Record):
    """What a sandbox uses now."""

    memory_mib: float
    peak_memory_mib: float
    disk_mib: float
    disk_files: int = 0
    """Files and folders that it has written over its image."""
    pids: int
    cpu_s: float
    memory_kills: int = 0
    """Processes that its memory limit has cost so far."""
    kernel_kills: int | None = None
    """Processes of it that the kernel has killed for want of memory, its limit's or the machine's; None: this machine
    has no cgroups, which count them."""


class PathChange(Record):
    """One path that differs from the image."""

    path: str
    kind: Literal["added", "changed", "removed"]
    type: Literal["file", "directory", "symlink", "other"]
    size_bytes: int = 0


class MemoryKill(Record):
    """A process that was killed for memory, for the answer to the model."""

    command: str
    memory_mib: float
    limit_mib: float
    by: Literal["watchdog", "kernel"] = "watchdog"
