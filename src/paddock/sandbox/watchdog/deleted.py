"""Disk use of files that are deleted and still open: they take blocks of the disk, and are in no folder.

Found   through the descriptors of each thread (one may have a table of its own), and, where we are root, through
        mappings (`map_files` is open to root alone).
Which   have no link left, and are on the sandbox's own overlay: files that are memory (`/dev/shm`, memfd) are not, nor
        those of a process that came to have the id of one of the sandbox's. Counted once each, by allocated blocks.
Missed  a file whose last descriptor is on its way through a unix socket; where we are not root, one that is held by
        nothing but a mapping.
"""

# One call for each of a million descriptors: strings, not paths.
# ruff: noqa: PTH116, PTH208

import os
from collections.abc import Collection
from contextlib import suppress

from paddock.sandbox.watchdog.disk import DiskUse
from paddock.sandbox.watchdog.proc import read_whole

MOST_LOOKS = 1 << 21
"""Descriptors and mappings of one sandbox: several times what honest processes have under usual limits."""
_MARK = b" (deleted)"


def overlay_of(pid: int) -> int:
    """Device number of the root file system that a process sees; 0: it has ended."""
    try:
        return os.stat(f"/proc/{pid}/root/").st_dev
    except OSError:
        return 0


def deleted_use(
    pids: Collection[int], overlay: int, upper: str | os.PathLike[str], *, most_bytes: float = float("inf")
) -> DiskUse:
    """What processes hold of the overlay that writes to `upper`; the search ends once that is over `most_bytes`.

    `whole=False`: they have more descriptors and mappings than are looked at.
    """
    search = _Search(most_bytes)
    devices = {overlay}
    for pid in pids:
        search.descriptors(pid, devices)
    if os.geteuid() == 0:
        with suppress(OSError):
            devices.add(os.stat(upper).st_dev)  # older kernels say of a mapping what lies below the overlay
        for pid in pids:
            search.mappings(pid, devices)
    return DiskUse(search.bytes, len(search.inodes), search.looks <= MOST_LOOKS)


class _Search:
    def __init__(self, most_bytes: float) -> None:
        self.bytes = 0
        self.looks = 0
        self.inodes: set[int] = set()
        self._most_bytes = most_bytes

    def descriptors(self, pid: int, devices: set[int]) -> None:
        for thread in _list_names(f"/proc/{pid}/task"):
            folder = f"/proc/{pid}/task/{thread}/fd"
            names = _list_names(folder)
            self.looks += len(names)
            if self._ended():
                return
            for name in names:
                self._look(f"{folder}/{name}", devices)

    def mappings(self, pid: int, devices: set[int]) -> None:
        if self._ended():
            return
        lines = (read_whole(f"/proc/{pid}/maps") or b"").splitlines()
        self.looks += len(lines)
        for line in lines:
            if line.endswith(_MARK):
                start, end = line.split(b" ", 1)[0].split(b"-")
                self._look(f"/proc/{pid}/map_files/{int(start, 16):x}-{int(end, 16):x}", devices)

    def _ended(self) -> bool:
        return self.bytes > self._most_bytes or self.looks > MOST_LOOKS

    def _look(self, path: str, devices: set[int]) -> None:
        try:
            status = os.stat(path)
        except OSError:
            return  # closed by now
        if status.st_nlink == 0 and status.st_dev in devices and status.st_ino not in self.inodes:
            self.inodes.add(status.st_ino)
            self.bytes += status.st_blocks * 512


def _list_names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []  # it has ended
