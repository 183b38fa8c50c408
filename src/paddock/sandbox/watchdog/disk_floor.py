"""Free space on the disks that sandboxes write to, and the floor below which a sandbox has to be given up."""

import os
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from paddock.sandbox.watchdog.period import Growth, next_period
from paddock.sandbox.watchdog.settings import WatchdogSettings

MIB = 2**20
NEAR_MIB = 4096.0
NEAR_FILES = 100_000.0
"""Space over the floor that counts as plenty: no writer at full speed uses it up before the next look."""


class FreeSpace(NamedTuple):
    """What a disk can still take: bytes and files."""

    bytes: float
    files: float
    """Infinite where its file system has no such limit."""
    device: int


class DiskShortage(NamedTuple):
    """A disk below its floor."""

    device: int
    files: bool
    """True: short of files; False: short of bytes."""
    text: str
    min_use: float
    """Bytes or files: giving up a sandbox that has less than this would not help."""


class DiskFloor:
    """The free space that each disk has to have, and when to look again."""

    def __init__(self, settings: WatchdogSettings) -> None:
        self.period_s = settings.period_s
        """Until the next look."""
        self._settings = settings
        self._floors = (settings.host_disk_floor_mib * MIB, float(settings.host_disk_floor_files))
        self._growth: dict[tuple[int, int], Growth] = {}

    def look(self, spaces: Collection[FreeSpace], now: float) -> list[DiskShortage]:
        """Disks that are short now, one entry each."""
        disks = {space.device: space for space in spaces}
        self._growth = {
            key: self._growth.get(key) or Growth() for key in ((device, at) for device in disks for at in (0, 1))
        }
        self.period_s = self._settings.period_s
        shortages: dict[int, DiskShortage] = {}
        for device, disk in disks.items():
            for at, plenty in ((1, NEAR_FILES), (0, NEAR_MIB * MIB)):
                if not self._floors[at] or disk[at] == float("inf"):
                    continue
                over = min(disk[at] - self._floors[at], plenty)
                growth = self._growth[device, at].read(-disk[at], now)
                self.period_s = min(self.period_s, self._period(plenty - over, plenty, growth))
                if over < 0:
                    shortages[device] = DiskShortage(device, at == 1, self._text(disk, at), self._floors[at] / 4)
        return list(shortages.values())

    def _period(self, used: float, plenty: float, growth: float) -> float:
        rest, finest = self._settings.period_s, self._settings.finest_share
        return next_period(rest, used=used, limit=plenty, growth_per_s=growth, finest_share=finest)

    def _text(self, disk: FreeSpace, at: int) -> str:
        if at == 1:
            return f"the disk of the sandboxes can take {disk.files:.0f} more files, under {self._floors[1]:.0f}"
        return f"the disk of the sandboxes has {disk.bytes / MIB:.0f} MiB free, under {self._floors[0] / MIB:.0f} MiB"


def free_space(folders: Collection[Path]) -> dict[Path, FreeSpace]:
    """Free space on the disk of each folder; a folder that is gone is left out."""
    spaces = {}
    for folder in folders:
        try:
            disk, device = os.statvfs(folder), folder.stat().st_dev
        except OSError:
            continue
        files = disk.f_favail if disk.f_files else float("inf")
        spaces[folder] = FreeSpace(disk.f_bavail * disk.f_frsize, files, device)
    return spaces
