"""One sandbox's control group: what it uses, freezing and killing it, and its removal.

Units   bytes, seconds, counts. Memory is anonymous and shared pages (and what of them was swapped out): page cache
        never counts, so the kernel's own usage and peak figures are of no use here.
Blocks  `kill_all` and `remove` wait, bounded: call them in a thread.
"""

import errno
import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from paddock.sandbox.cgroups.kernel import CgroupKernel, RereadFile, field, read_text

Controller = Literal["memory", "pids", "cpu", "cpuacct", "freezer"]
POLL_S = 0.005


class Cgroup(ABC):
    """Made by `Cgroups.make`. A figure whose controller is missing is 0."""

    def __init__(self, folders: tuple[Path, ...], kernel: CgroupKernel) -> None:
        self.folders = folders
        """One per hierarchy."""
        self.peak = 0
        """The highest `memory()` that was read."""
        self._kernel = kernel
        self._files: dict[Path, RereadFile] = {}

    @property
    def procs_files(self) -> list[Path]:
        """A process that writes "0" into each belongs to the group; opened as who made the group."""
        return [folder / "cgroup.procs" for folder in self.folders]

    def memory(self) -> int:
        used = self._memory()
        self.peak = max(self.peak, used)
        return used

    @abstractmethod
    def _memory(self) -> int: ...

    @abstractmethod
    def pids(self) -> int:
        """Processes and threads."""

    @abstractmethod
    def pids_refused(self) -> int:
        """Number of processes and threads that were not started because of the process limit."""

    @abstractmethod
    def cpu_s(self) -> float: ...

    @abstractmethod
    def oom_kills(self) -> int:
        """Processes that the kernel killed for want of memory: of this group, or of the machine or a group above."""

    @abstractmethod
    def limit_hits(self) -> int:
        """Times that this group itself was at its hard limit: on version 2 with nothing left to reclaim, on version 1
        with caches too."""

    @abstractmethod
    def freeze(self) -> bool:
        """Stop every process where it stands; False where there is no freezer."""

    @abstractmethod
    def thaw(self) -> None: ...

    def members(self) -> list[int]:
        """Process ids, those that this process can name."""
        # Opened anew: version 1 answers the same list for as long as the file is open.
        return [pid for pid in map(int, self.procs_files[0].read_bytes().split()) if pid > 0]

    def kill_all(self, timeout_s: float = 5.0) -> bool:
        """SIGKILL to every process until there is none; False when some outlived the time."""
        deadline = time.monotonic() + timeout_s
        while pids := self._pids_or_none():
            if time.monotonic() > deadline:
                return False
            self.freeze()
            for pid in pids:
                _kill(pid)
            self.thaw()
            time.sleep(POLL_S)
        return True

    def remove(self, timeout_s: float = 5.0) -> bool:
        """Remove the folders once they are empty; False when a process stayed past the time. Idempotent."""
        self.close()
        deadline = time.monotonic() + timeout_s
        removed = [remove_folder(folder, self._kernel, deadline) for folder in self.folders]
        return all(removed)

    def close(self) -> None:
        """Close the files that are read again and again; the group stays."""
        for reread in self._files.values():
            reread.close()
        self._files.clear()

    def _pids_or_none(self) -> list[int]:
        try:
            return self.members()
        except OSError:
            return []

    def _read(self, file: Path) -> bytes:
        reread = self._files.get(file)
        if reread is None:
            reread = self._files[file] = RereadFile(file)
        return reread.read()


class V1Cgroup(Cgroup):
    """A folder per controller."""

    def __init__(self, by_controller: Mapping[Controller, Path], kernel: CgroupKernel) -> None:
        super().__init__(tuple(dict.fromkeys(by_controller.values())), kernel)
        self._by_controller = by_controller
        self._stat = by_controller["memory"] / "memory.stat"
        self._oom = by_controller["memory"] / "memory.oom_control"
        self._failures = by_controller["memory"] / "memory.failcnt"

    def _memory(self) -> int:
        stat = self._read(self._stat)
        return field(stat, b"total_rss") + field(stat, b"total_shmem") + field(stat, b"total_swap")

    def pids(self) -> int:
        folder = self._by_controller.get("pids")
        return int(self._read(folder / "pids.current")) if folder else 0

    def pids_refused(self) -> int:
        folder = self._by_controller.get("pids")
        return field(self._read(folder / "pids.events"), b"max") if folder else 0

    def cpu_s(self) -> float:
        folder = self._by_controller.get("cpuacct")
        return int(self._read(folder / "cpuacct.usage")) / 1e9 if folder else 0.0

    def oom_kills(self) -> int:
        return field(self._read(self._oom), b"oom_kill")

    def limit_hits(self) -> int:
        return int(self._read(self._failures))

    def freeze(self) -> bool:
        folder = self._by_controller.get("freezer")
        if folder is None:
            return False
        self._kernel.write(folder / "freezer.state", "FROZEN")
        return _wait_for(folder / "freezer.state", "FROZEN")

    def thaw(self) -> None:
        if folder := self._by_controller.get("freezer"):
            self._kernel.write(folder / "freezer.state", "THAWED")


class V2Cgroup(Cgroup):
    """One folder."""

    def __init__(self, folder: Path, kernel: CgroupKernel) -> None:
        super().__init__((folder,), kernel)
        self._folder = folder
        self._swap = folder / "memory.swap.current"
        self._has_swap = self._swap.exists()

    def _memory(self) -> int:
        stat = self._read(self._folder / "memory.stat")
        swapped = int(self._read(self._swap)) if self._has_swap else 0
        return field(stat, b"anon") + field(stat, b"shmem") + swapped

    def pids(self) -> int:
        return int(self._read(self._folder / "pids.current"))

    def pids_refused(self) -> int:
        return field(self._read(self._folder / "pids.events"), b"max")

    def cpu_s(self) -> float:
        return field(self._read(self._folder / "cpu.stat"), b"usage_usec") / 1e6

    def oom_kills(self) -> int:
        return field(self._read(self._folder / "memory.events"), b"oom_kill")

    def limit_hits(self) -> int:
        return field(self._read(self._folder / "memory.events"), b"oom")

    def freeze(self) -> bool:
        if not (self._folder / "cgroup.freeze").exists():
            return False
        self._kernel.write(self._folder / "cgroup.freeze", "1")
        return _wait_for(self._folder / "cgroup.events", "frozen 1")

    def thaw(self) -> None:
        if (self._folder / "cgroup.freeze").exists():
            self._kernel.write(self._folder / "cgroup.freeze", "0")

    def kill_all(self, timeout_s: float = 5.0) -> bool:
        if (self._folder / "cgroup.kill").exists():
            self._kernel.write(self._folder / "cgroup.kill", "1")
        return super().kill_all(timeout_s)


def remove_folder(folder: Path, kernel: CgroupKernel, deadline: float) -> bool:
    """Retried while processes are leaving it."""
    while True:
        try:
            kernel.rmdir(folder)
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno not in (errno.EBUSY, errno.ENOTEMPTY) or time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        else:
            return True


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _wait_for(file: Path, word: str, timeout_s: float = 1.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while word not in read_text(file):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S / 5)
    return True
