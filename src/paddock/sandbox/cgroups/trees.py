"""Paddock's trees of control groups on this machine: makes groups, and finds those of owners.

Owner   who makes groups holds a lock on its folder while it lives, which is seen from any home and any pid namespace.
Limits  the hard memory limit is the sandbox's limit (the watchdog acts a little below it); swap is barred, on version 1
        but for `SWAP_BYTES`, so that the limit is of memory and nothing hides in it. The process limit counts threads.
"""

import contextlib
import errno
import fcntl
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from paddock.sandbox.cgroups.group import POLL_S, Cgroup, Controller, V1Cgroup, V2Cgroup, remove_folder
from paddock.sandbox.cgroups.kernel import CgroupKernel, read_text
from paddock.sandbox.failures import SandboxError
from paddock.sandbox.owner import try_flock
from paddock.sandbox.records import SandboxLimits

SWAP_BYTES = 1 << 20
"""Of the limit with swap above the one without: the kernel counts only how often the latter is met."""
LOCK_TIMEOUT_S = 30.0
"""A sweep holds the lock of what it removes for some seconds."""
FOLDER = "paddock"
REQUIRED_CONTROLLERS = ("memory", "pids")
OPTIONAL_CONTROLLERS = ("cpu",)
"""Used where the machine has them."""


class Cgroups(ABC):
    """What this machine offers; see `find_cgroups`."""

    version: Literal[1, 2]

    def __init__(self, roots: tuple[Path, ...], kernel: CgroupKernel) -> None:
        self.roots = roots
        """Our folder in each hierarchy."""
        self._kernel = kernel
        self._locks: dict[str, int] = {}
        """A descriptor of the folder of each owner that makes groups here."""
        self._locking = threading.Lock()

    def make(self, owner_id: str, sandbox_id: str, limits: SandboxLimits) -> Cgroup:
        """A group with these limits; what an earlier try left of it is taken over. SandboxError where refused."""
        try:
            for root in self.roots:
                self._make_folder(root)
                self._pass_down(root)
            self._lock(owner_id)
            for root in self.roots:
                owner = root / owner_id
                self._make_folder(owner)
                self._pass_down(owner)
                self._make_folder(owner / sandbox_id)
                self._weigh(root, owner_id)
            group = self._group(owner_id, sandbox_id)
            self._limit(group, limits)
        except OSError as error:
            self._abandon(owner_id, sandbox_id)
            raise SandboxError(f"no cgroup for sandbox {sandbox_id}: {error}", kind="cgroup") from error
        return group

    def owners(self) -> list[str]:
        """Ids that have groups here, living or dead."""
        return sorted({name for root in self.roots for name in _folders(root) if not name.startswith(".")})

    def remove_owner(self, owner_id: str, timeout_s: float = 5.0) -> bool:
        """Kill what is in the owner's groups and remove them; False when something stayed."""
        names = {name for root in self.roots for name in _folders(root / owner_id)}
        groups = [self._group(owner_id, name) for name in sorted(names)]
        for group in groups:
            with contextlib.suppress(OSError):
                # Who was killed frozen ends when it wakes, also where no process here can name it.
                group.thaw()
        done = [group.kill_all(timeout_s) and group.remove(timeout_s) for group in groups]
        deadline = time.monotonic() + timeout_s
        removed = [remove_folder(root / owner_id, self._kernel, deadline) for root in self.roots]
        self._unlock(owner_id)
        return all(done) and all(removed)

    @contextlib.contextmanager
    def try_lock(self, owner_id: str) -> Iterator[bool]:
        """Hold an owner's lock for the block: True where nobody does, False where its owner lives."""
        try:
            fd = os.open(self.roots[0] / owner_id, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            yield True  # what is left of it lies in other hierarchies
            return
        except OSError:
            yield False  # another user's
            return
        with try_flock(fd) as unlocked:
            yield unlocked

    def _make_folder(self, folder: Path) -> None:
        with contextlib.suppress(FileExistsError):
            self._kernel.mkdir(folder)

    def _lock(self, owner_id: str) -> None:
        """Make the owner's folder and hold its lock. OSError where somebody else holds it for `LOCK_TIMEOUT_S`."""
        folder = self.roots[0] / owner_id
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        with self._locking:
            while (fd := self._locks.get(owner_id)) is None or not _is_at(fd, folder):
                self._unlock(owner_id)
                self._make_folder(folder)
                # Who removes it holds the lock meanwhile: then it is made anew.
                if (fd := _shared_lock(folder)) is not None:
                    self._locks[owner_id] = fd
                elif time.monotonic() > deadline:
                    raise BlockingIOError(errno.EWOULDBLOCK, "somebody else holds its lock", str(folder))
                else:
                    time.sleep(POLL_S)

    def _unlock(self, owner_id: str) -> None:
        fd = self._locks.pop(owner_id, None)
        if fd is not None:
            os.close(fd)

    @abstractmethod
    def describe(self) -> str:
        """For people: version, controllers, where."""

    @abstractmethod
    def _group(self, owner_id: str, sandbox_id: str) -> Cgroup: ...

    @abstractmethod
    def _pass_down(self, folder: Path) -> None:
        """Let the folder's children have the controllers."""

    def _weigh(self, root: Path, owner_id: str) -> None:
        """A group's weight is divided among the processors that it is busy on; an owner has that of its sandboxes."""
        owner = root / owner_id
        for folder, times in ((root, os.cpu_count() or 1), (owner, len(_folders(owner)))):
            for name, default, most in (("cpu.shares", 1024, 1 << 18), ("cpu.weight", 100, 10_000)):
                self._write_where_present(folder / name, str(min(default * times, most)))

    @abstractmethod
    def _limit(self, group: Cgroup, limits: SandboxLimits) -> None: ...

    def _abandon(self, owner_id: str, sandbox_id: str) -> None:
        for root in self.roots:
            for folder in (root / owner_id / sandbox_id, root / owner_id):
                with contextlib.suppress(OSError):
                    self._kernel.rmdir(folder)

    def _write_where_present(self, file: Path, text: str) -> None:
        if file.exists():
            self._kernel.write(file, text)


def _shared_lock(folder: Path) -> int | None:
    """A descriptor of the folder that holds its lock, as others may beside it; None: it is gone, or locked."""
    fd = -1
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (FileNotFoundError, BlockingIOError):
        if fd >= 0:
            os.close(fd)
        return None
    return fd


def _is_at(fd: int, folder: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), folder.stat())
    except FileNotFoundError:
        return False


class V1Cgroups(Cgroups):
    """`mounts` by controller; two controllers may share one."""

    version = 1

    def __init__(self, mounts: Mapping[Controller, Path], kernel: CgroupKernel) -> None:
        super().__init__(tuple(dict.fromkeys(mount / FOLDER for mount in mounts.values())), kernel)
        self._mounts = mounts

    def describe(self) -> str:
        return f"v1: {' '.join(self._mounts)} (below {self._mounts['memory'].parent})"

    def _group(self, owner_id: str, sandbox_id: str) -> Cgroup:
        folders = {name: mount / FOLDER / owner_id / sandbox_id for name, mount in self._mounts.items()}
        return V1Cgroup(folders, self._kernel)

    def _pass_down(self, folder: Path) -> None:
        """Here every child has its parent's controller."""

    def _limit(self, group: Cgroup, limits: SandboxLimits) -> None:
        for folder in group.folders:
            if limits.memory_mib is not None and (folder / "memory.limit_in_bytes").exists():
                most = str(limits.memory_mib << 20)
                # The limit with swap may never be below the one without: raise it before, lower it after.
                self._write_where_present(folder / "memory.memsw.limit_in_bytes", "-1")
                self._kernel.write(folder / "memory.limit_in_bytes", most)
                above = str((limits.memory_mib << 20) + SWAP_BYTES)
                self._write_where_present(folder / "memory.memsw.limit_in_bytes", above)
                self._write_where_present(folder / "memory.swappiness", "0")
            if (folder / "pids.max").exists():
                self._kernel.write(folder / "pids.max", _or_max(limits.pids))


class V2Cgroups(Cgroups):
    """Below `base`, a cgroup that we may write."""

    version = 2

    def __init__(self, base: Path, kernel: CgroupKernel) -> None:
        super().__init__((base / FOLDER,), kernel)
        self._base = base

    def describe(self) -> str:
        return f"v2: {' '.join(read_text(self._base / 'cgroup.subtree_control').split())} (below {self._base})"

    def _group(self, owner_id: str, sandbox_id: str) -> Cgroup:
        return V2Cgroup(self.roots[0] / owner_id / sandbox_id, self._kernel)

    def _pass_down(self, folder: Path) -> None:
        pass_down(folder, self._kernel)

    def _limit(self, group: Cgroup, limits: SandboxLimits) -> None:
        folder = group.folders[0]
        most = None if limits.memory_mib is None else limits.memory_mib << 20
        self._kernel.write(folder / "memory.max", _or_max(most))
        self._write_where_present(folder / "memory.swap.max", "max" if most is None else "0")
        self._kernel.write(folder / "pids.max", _or_max(limits.pids))


def pass_down(folder: Path, kernel: CgroupKernel) -> None:
    """Let a v2 cgroup's children have what we need; OSError where it may not (it holds processes, or is not ours)."""
    enabled = read_text(folder / "cgroup.subtree_control").split()
    if missing := [name for name in REQUIRED_CONTROLLERS if name not in enabled]:
        kernel.write(folder / "cgroup.subtree_control", " ".join(f"+{name}" for name in missing))
    for name in OPTIONAL_CONTROLLERS:
        if name not in enabled:
            with contextlib.suppress(OSError):
                kernel.write(folder / "cgroup.subtree_control", f"+{name}")


def _folders(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir() if entry.is_dir()]
    except OSError:
        return []


def _or_max(number: int | None) -> str:
    return "max" if number is None else str(number)
