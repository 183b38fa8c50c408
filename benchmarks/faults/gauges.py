"""What a campaign's own process and its keepers use, and what is there when its provider has closed.

Samples each `PERIOD_S`, in a thread: resident memory and descriptors, of this process and of each keeper (children of
        our children that are called as the keepers' parent is); how late the event loop is, in the loop itself.
Left    processes below this one or with the campaign's mark, mounts, cgroups, folders, loop devices, descriptors.
"""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from paddock.sandbox.cgroups import find_cgroups
from paddock.sandbox.owner import owners

PERIOD_S = 2.0
BEAT_S = 0.05
"""The event loop is asked whether it is late so often."""
END_S = 20.0
"""For what is ending to be gone."""
ZYGOTE = "zygote.serve"
_PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20


class Gauges(threading.Thread):
    """Peaks, from `start` to `close`; `beat` runs in the event loop."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peaks: dict[str, float] = {}
        self.late_s: list[float] = []
        self._closed = threading.Event()

    def run(self) -> None:
        while not self._closed.wait(PERIOD_S):
            self._peak("owner", os.getpid())
            for pid in _keepers():
                self._peak("keeper", pid)

    def close(self) -> None:
        self._closed.set()
        self.join()

    async def probe_loop(self) -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(BEAT_S)
            self.late_s.append(time.monotonic() - before - BEAT_S)

    def _peak(self, who: str, pid: int) -> None:
        with contextlib.suppress(OSError):
            mib = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_MIB
            for name, value in ((f"{who}_mib", mib), (f"{who}_fds", float(_descriptors(pid)))):
                self.peaks[name] = max(self.peaks.get(name, 0.0), value)


class Baseline:
    """What was there before a provider was opened; `leftovers` is what is there after it was closed."""

    def __init__(self, home: Path, mark: str) -> None:
        self._home = home
        self._mark = mark.encode()
        self._spared = set(_below(os.getpid()))
        self._mounts = _mounts()
        self._fds = _descriptors(os.getpid())

    def leftovers(self) -> list[str]:
        end = time.monotonic() + END_S
        while (remaining := list(self._leftovers())) and time.monotonic() < end:
            time.sleep(0.2)
        return remaining

    def _leftovers(self) -> Iterator[str]:
        for pid in set(_below(os.getpid())) - self._spared:
            yield f"process {pid}: {_words(pid)[:200]}"
        for pid in psutil.pids():
            with contextlib.suppress(OSError):
                if self._mark in Path(f"/proc/{pid}/environ").read_bytes():
                    yield f"process {pid} of a sandbox: {_words(pid)[:200]}"
        for line in sorted(_mounts() - self._mounts):
            yield f"mount {line}"
        cgroups = find_cgroups()
        for name in cgroups.owners() if cgroups else ():
            if name.startswith(f"{os.getpid()}-"):
                yield f"cgroups of {name}"
        for folder in owners(self._home):
            if folder.name.startswith(f"{os.getpid()}-"):
                yield f"folder {folder}"
        for file in Path("/sys/block").glob("loop*/loop/backing_file"):
            with contextlib.suppress(OSError):
                if file.read_text().startswith(f"{self._home}/state/"):
                    yield f"loop device {file.parents[1].name}"
        if (fds := _descriptors(os.getpid())) > self._fds:
            yield f"{fds - self._fds} descriptors"


def _keepers() -> list[int]:
    return [pid for zygote in _children(os.getpid()) if ZYGOTE in _words(zygote) for pid in _children(zygote)]


def _below(pid: int) -> list[int]:
    children = _children(pid)
    return [*children, *(below for child in children for below in _below(child))]


def _children(pid: int) -> list[int]:
    pids: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                pids += map(int, (task / "children").read_text().split())
    return pids


def _descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def _words(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def _mounts() -> set[str]:
    return set(Path("/proc/self/mounts").read_text().splitlines())
