"""How much a sandbox uses: from its cgroup, or from its processes.

Cgroup  exact: anonymous and shared memory, processes and threads, CPU seconds of all that ever ran in it.
Else    memory = the sum over its processes of resident pages without mapped files and shared memory, from `statm`, plus
        what is in its tmpfs. Too high by what processes share since a fork; so where the highest that it could be (all
        resident pages) comes near the limit, the exact shares are read (`smaps_rollup`), for that sandbox alone, and
        the larger of mapped shared memory and tmpfs is added. What is left unseen: memory files that nobody maps, and
        up to the size of the tmpfs where both kinds of shared memory are used. CPU seconds are those of processes that
        live or were waited for. The process count has no threads.
"""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from paddock.sandbox.cgroups import Cgroup
from paddock.sandbox.watchdog import proc
from paddock.sandbox.watchdog.watched_sandbox import ResourceUse

EXACT_SHARE = 0.6
"""Share of the threshold from which exact figures are worth their cost."""
EXACT_EVERY_S = 2.0
"""Seconds that exact figures hold, corrected by the growth of the cheap ones, while these are below the threshold."""


class UsageMeter(Protocol):
    """Not safe for threads."""

    def use(self, members: Sequence[int], now: float, *, cpu: bool) -> ResourceUse:
        """`cpu`: count CPU seconds too; otherwise they may be those of the last time."""
        ...

    def close(self) -> None: ...


class CgroupMeter:
    """Reads a cgroup's counters; `members` and `cpu` are ignored, because every figure is cheap."""

    def __init__(self, cgroup: Cgroup) -> None:
        self._cgroup = cgroup

    def use(self, members: Sequence[int], now: float, *, cpu: bool) -> ResourceUse:
        return ResourceUse(self._cgroup.memory(), self._cgroup.pids(), self._cgroup.cpu_s())

    def close(self) -> None:
        self._cgroup.close()


class ProcessMeter:
    """Over the members that a census found. `threshold` in bytes, None: no limit."""

    def __init__(self, inside_pid: int, tmpfs: Sequence[str], *, threshold: int | None, swap: bool) -> None:
        self._threshold = threshold
        self._cpu_s = 0.0
        self._resident = proc.resident_and_swapped if swap else proc.resident
        self._mounts = _open_mounts(inside_pid, tmpfs)
        self._exact = 0
        self._highest_at_exact = 0
        self._exact_at: float | None = None

    def use(self, members: Sequence[int], now: float, *, cpu: bool) -> ResourceUse:
        total = private = 0
        for pid in members:
            if pages := self._resident(pid):
                total += pages.total
                private += pages.private
        files = self._tmpfs_bytes()
        memory = private + files
        if self._threshold is not None and total + files >= EXACT_SHARE * self._threshold:
            memory = self._proportional_bytes(members, total + files, files, now)
        if cpu:
            self._cpu_s = max(self._cpu_s, sum(times.cpu_s for pid in members if (times := proc.times(pid))))
        return ResourceUse(memory, len(members), self._cpu_s)

    def close(self) -> None:
        for fd in self._mounts:
            os.close(fd)
        self._mounts = []

    def _proportional_bytes(self, members: Sequence[int], highest: int, files: int, now: float) -> int:
        guess = self._exact + max(0, highest - self._highest_at_exact)
        fresh = self._exact_at is not None and now - self._exact_at < EXACT_EVERY_S
        if fresh and self._threshold is not None and guess < EXACT_SHARE * self._threshold:
            return guess
        private = shared = 0
        for pid in members:
            if share := proc.proportional(pid):
                private += share.private
                shared += share.shared
            else:
                private += proc.charged_bytes(pid)
        self._exact, self._highest_at_exact, self._exact_at = private + max(shared, files), highest, now
        return self._exact

    def _tmpfs_bytes(self) -> int:
        used = 0
        for fd in self._mounts:
            with contextlib.suppress(OSError):
                space = os.statvfs(fd)
                used += (space.f_blocks - space.f_bfree) * space.f_frsize
        return used


def _open_mounts(pid: int, paths: Sequence[str]) -> list[int]:
    """Of those that are mounts of their own; held open, so that nothing inside can put another in its place."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptors: dict[int, int] = {}
    with contextlib.suppress(OSError):
        root = Path(f"/proc/{pid}/root/").stat().st_dev
        for path in paths:
            with contextlib.suppress(OSError):
                fd = os.open(f"/proc/{pid}/root{path}", flags)
                device = os.fstat(fd).st_dev
                if device == root or device in descriptors:
                    os.close(fd)
                else:
                    descriptors[device] = fd
    return list(descriptors.values())
