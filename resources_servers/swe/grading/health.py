"""Whether the machine is well while it grades: a zero that a patch is given counts only where it is.

Asked   at the end of each run of tests, before its sandbox is gone: room on the disk that holds sandboxes (bytes and
        files), a write of `PROBE_BYTES` inside the sandbox, memory, processes. Limits of the container that we are in
        count where they are lower than the machine's.
Own     a disk that the sandbox itself has filled is the patch's doing: it is no shortage of the machine's.
Hints   what a run says of such troubles (`hints`) is written where the policy's code can write it too: it may cost a
        second run, and decides nothing.
Units   MiB where a name says so, else counts.
"""

import contextlib
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import psutil
from pydantic import BaseModel, ConfigDict, Field

from paddock.errors import InfraError
from paddock.resources_servers.swe.grading.sandbox import HOME, GradingSandbox
from paddock.sandbox import BudgetExceeded, SandboxError, SandboxGone
from paddock.sandbox.owner import state_folder

PROBE_BYTES = 1 << 20
"""Written inside a sandbox after its run."""
UNLIMITED = float("inf")
_CGROUPS = Path("/sys/fs/cgroup")
_MEMORY = (
    (_CGROUPS / "memory.max", _CGROUPS / "memory.current", _CGROUPS / "memory.stat"),
    (
        _CGROUPS / "memory/memory.limit_in_bytes",
        _CGROUPS / "memory/memory.usage_in_bytes",
        _CGROUPS / "memory/memory.stat",
    ),
)
_PIDS = (
    (_CGROUPS / "pids.max", _CGROUPS / "pids.current"),
    (_CGROUPS / "pids/pids.max", _CGROUPS / "pids/pids.current"),
)
_HINTS = re.compile(
    r"No space left on device|Disk quota exceeded|Input/output error|Read-only file system|Too many open files"
    r"|Cannot allocate memory|Resource temporarily unavailable|can't start new thread|\bMemoryError\b|\bSIGKILL\b"
    r"|\[Errno (?:5|11|12|23|24|28|30|122)\]|(?:returncode|exit (?:code|status)|exitcode)\W{1,4}(?:-9|137)\b"
)


class MachineFloors(BaseModel):
    """What must be free on the machine that grades for a zero to count; 0: it is not asked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    disk_mib: float = Field(default=64.0, ge=0)
    """MiB that are free on the disk that holds the sandboxes (`PADDOCK_HOME/state`)."""
    files: int = Field(default=1000, ge=0)
    """Files that this disk can still take."""
    memory_mib: float = Field(default=64.0, ge=0)
    """MiB of memory that are free on the machine, or in the container that we are in."""
    pids: int = Field(default=64, ge=0)
    """Processes and threads that the machine, or this container, can still have."""


class FreeResources(NamedTuple):
    """What is free on the machine."""

    disk_mib: float
    files: float
    memory_mib: float
    pids: float
    memory_kills: int
    """Processes that the kernel has killed for want of memory since the machine started, anywhere on it."""


class Shortage(NamedTuple):
    """What the machine lacked at the end of a run."""

    kind: Literal["machine_disk", "machine_memory", "machine_pids"]
    detail: str

    def error(self, test_result: str) -> InfraError:
        """Make the failure of a grading that came to `test_result`."""
        return InfraError(f"{self.detail}; what the tests came to does not count: {test_result}", kind=self.kind)


Measure = Callable[[], FreeResources]


def measure_of(home: Path) -> Measure:
    """Return what measures this machine, with the disk below `home` that sandboxes write to."""
    return partial(_measure, state_folder(home))


def _measure(folder: Path) -> FreeResources:
    disk = os.statvfs(folder if folder.is_dir() else folder.parent)
    return FreeResources(
        disk_mib=disk.f_bavail * disk.f_frsize / 2**20,
        files=disk.f_favail if disk.f_files else UNLIMITED,
        memory_mib=min([psutil.virtual_memory().available / 2**20, *_container_memory()]),
        pids=min([_number(Path("/proc/sys/kernel/pid_max")) - _tasks(), *_container_pids()]),
        memory_kills=_memory_kills(),
    )


def shortage(usage: FreeResources, floors: MachineFloors) -> Shortage | None:
    """Return what is below its floor; None: nothing."""
    if usage.disk_mib < floors.disk_mib:
        return Shortage(
            "machine_disk", f"the disk of the sandboxes has {usage.disk_mib:.1f} MiB free, under {floors.disk_mib:g}"
        )
    if usage.files < floors.files:
        return Shortage(
            "machine_disk", f"the disk of the sandboxes can take {usage.files:.0f} files, under {floors.files}"
        )
    if usage.memory_mib < floors.memory_mib:
        return Shortage(
            "machine_memory", f"the machine has {usage.memory_mib:.0f} MiB of memory free, under {floors.memory_mib:g}"
        )
    if usage.pids < floors.pids:
        return Shortage("machine_pids", f"the machine can start {usage.pids:.0f} processes, under {floors.pids}")
    return None


async def check_machine(sandbox: GradingSandbox, usage: FreeResources, floors: MachineFloors) -> Shortage | None:
    """Return what the machine lacks by `usage` and a write in a sandbox that still lives; None: nothing."""
    lack = shortage(usage, floors)
    try:
        if lack is None and floors.disk_mib:
            lack = await _probe_disk(sandbox)
        if lack is not None and lack.kind == "machine_disk" and await sandbox.disk_mib() >= floors.disk_mib:
            return None
    except (BudgetExceeded, SandboxGone):
        return lack  # it ended after its tests: nothing more can be learnt there
    return lack


def has_hints(output: str) -> bool:
    """Say whether a run's output speaks of a machine's troubles."""
    return _HINTS.search(output) is not None


async def _probe_disk(sandbox: GradingSandbox) -> Shortage | None:
    try:
        await sandbox.write(f"{HOME}/.probe", bytes(PROBE_BYTES))
    except SandboxError as error:
        if error.kind != "disk_failed":
            raise
        if error.doubtful:
            return None  # likewise: the machine's disk has room
        return Shortage("machine_disk", f"a sandbox could not write {PROBE_BYTES} bytes: {error.message}")
    except OSError:
        return None  # what the tests made of that place
    return None


def _container_memory() -> list[float]:
    """Return the MiB free below the container's limits; file caches that can be given up are free."""
    free = []
    for limit, current, stat in _MEMORY:
        most, used = _number(limit), _number(current)
        if most < UNLIMITED and used < UNLIMITED:
            free.append((most - used + _inactive(stat)) / 2**20)
    return free


def _inactive(stat: Path) -> float:
    with contextlib.suppress(OSError, ValueError):
        for line in stat.read_text().splitlines():
            if line.startswith(("inactive_file ", "total_inactive_file ")):
                return float(line.split()[1])
    return 0.0


def _container_pids() -> list[float]:
    limits = [(_number(most), _number(used)) for most, used in _PIDS]
    return [most - used for most, used in limits if most < UNLIMITED and used < UNLIMITED]


def _number(path: Path) -> float:
    """Read a kernel file's number; unlimited where it says `max`, or is not there."""
    with contextlib.suppress(OSError, ValueError):
        return float(path.read_text())
    return UNLIMITED


def _tasks() -> float:
    """Count the processes and threads of the machine; 0 where it does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return float(Path("/proc/loadavg").read_text().split()[3].split("/")[1])
    return 0.0


def _memory_kills() -> int:
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
