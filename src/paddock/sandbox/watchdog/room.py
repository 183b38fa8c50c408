"""Room on the disks that hold what sandboxes write, and the floor under it: below, a sandbox has to be given up."""

import os
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from paddock.sandbox.watchdog.period import Growth, next_period
from paddock.sandbox.watchdog.settings import WatchdogSettings

MIB = 2**20
NEAR_MIB = 4096.0
NEAR_FILES = 100_000.0
"""Room over the floor that counts as plenty: no writer at full speed is through with it before the next look."""


class Room(NamedTuple):
    """What a disk can still take."""

    bytes: float
    files: float
    """Infinite where its file system has no such limit."""
    device: int


class Short(NamedTuple):
    """A disk below its floor."""

    device: int
    files: bool
    """Of files, else of bytes."""
    text: str
    worth: float
    """Giving up a sandbox that has less than so much would not help."""


class Floor:
    """What disks have to have free, and when to ask again."""

    def __init__(self, settings: WatchdogSettings) -> None:
        self.period_s = settings.period_s
        """Until the next look."""
        self._settings = settings
        self._least = (settings.host_disk_floor_mib * MIB, float(settings.host_disk_floor_files))
        self._growth: dict[tuple[int, int], Growth] = {}

    def look(self, rooms: Collection[Room], now: float) -> list[Short]:
        """Disks that are short now, one entry each."""
        disks = {room.device: room for room in rooms}
        self._growth = {
            key: self._growth.get(key) or Growth() for key in ((device, at) for device in disks for at in (0, 1))
        }
        self.period_s = self._settings.period_s
        short: dict[int, Short] = {}
        for device, disk in disks.items():
            for at, near in ((1, NEAR_FILES), (0, NEAR_MIB * MIB)):
                if not self._least[at] or disk[at] == float("inf"):
                    continue
                over = min(disk[at] - self._least[at], near)
                growth = self._growth[device, at].read(-disk[at], now)
                self.period_s = min(self.period_s, self._period(near - over, near, growth))
                if over < 0:
                    short[device] = Short(device, at == 1, self._text(disk, at), self._least[at] / 4)
        return list(short.values())

    def _period(self, used: float, near: float, growth: float) -> float:
        rest, finest = self._settings.period_s, self._settings.finest_share
        return next_period(rest, used=used, limit=near, growth_per_s=growth, finest_share=finest)

    def _text(self, disk: Room, at: int) -> str:
        if at == 1:
            return f"the disk of the sandboxes can take {disk.files:.0f} more files, under {self._least[1]:.0f}"
        return f"the disk of the sandboxes has {disk.bytes / MIB:.0f} MiB free, under {self._least[0] / MIB:.0f} MiB"


def room_of(folders: Collection[Path]) -> dict[Path, Room]:
    """On the disks of folders; a folder that is gone is left out."""
    found = {}
    for folder in folders:
        try:
            disk, device = os.statvfs(folder), folder.stat().st_dev
        except OSError:
            continue
        files = disk.f_favail if disk.f_files else float("inf")
        found[folder] = Room(disk.f_bavail * disk.f_frsize, files, device)
    return found
