"""A sandbox as the watchdog is given it, with the callbacks for what happens to it.

Calls   come in the event loop and must not block, never after `unwatch` has returned; `on_exhausted` and `on_lost` come
        at most once, either of them, and nothing after.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from paddock.sandbox.cgroups import Cgroup
from paddock.sandbox.failures import Budget, SandboxError
from paddock.sandbox.records import MemoryKill, SandboxLimits
from paddock.sandbox.watchdog.disk import DiskUse


def _none() -> Collection[int]:
    return ()


@dataclass(frozen=True, slots=True)
class WatchedSandbox:
    """A sandbox. Process ids are the host's."""

    sandbox_id: str
    limits: SandboxLimits
    pid: int
    """A process that lives as long as the sandbox; its pid namespace, and those below it, are the sandbox."""
    on_killed: Callable[[MemoryKill], None]
    """A process was killed for memory, by us or by the kernel."""
    on_exhausted: Callable[[Budget, str], None]
    """The policy used up a budget: the whole sandbox has to be killed; the text is for people and models."""
    on_lost: Callable[[SandboxError], None]
    """The machine's memory or disk is short, and this sandbox has to be given up."""
    inside_pid: int | None = None
    """A process that sees the sandbox's mounts; it and its ancestors up to `pid` are never killed. None: `pid`."""
    cgroup: Cgroup | None = None
    """None: figures come from `/proc`, and there is no hard limit."""
    upper: Path | None = None
    """Folder of what it wrote. None: its disk use is not watched."""
    tmpfs: tuple[str, ...] = ("/dev/shm",)  # noqa: S108 - where a sandbox has memory that looks like files
    """Mount points inside whose content is memory; a cgroup knows without."""
    spare: Callable[[], Collection[int]] = _none
    """Processes killed only when nothing else is large: the shells of sessions."""


class ResourceUse(NamedTuple):
    """What a sandbox uses, at one look."""

    memory_bytes: int = 0
    pids: int = 0
    """With a cgroup processes and threads, else processes."""
    cpu_s: float = 0.0


class UsageReading(NamedTuple):
    """The last figures of a sandbox."""

    use: ResourceUse
    peak_memory_bytes: int
    disk: DiskUse
    memory_kills: int
    kernel_kills: int | None = None
    """As in `Stats`."""
