"""When to walk a sandbox's files again: a walk costs time with each of them.

Rest    every `disk_period_s`, sooner the nearer it is to a limit and the faster it grows (see `period`).
Fall    no sandbox can have written more than the disk has lost since its last walk: where that is half of what a
        sandbox has left, it is looked at, however short a time it is. The disk is asked for this many times a second.
Open    files that are deleted and still open are looked for in a walk where the disk has since lost an eighth of what
        the sandbox has left, and else in one period of four.
Cost    walks of one sandbox take at most a tenth of the time; half of it, where it may be over a limit by now.
"""

from paddock.sandbox.records import SandboxLimits
from paddock.sandbox.watchdog.disk import DiskUse
from paddock.sandbox.watchdog.disk_floor import FreeSpace
from paddock.sandbox.watchdog.period import Growth, next_period
from paddock.sandbox.watchdog.settings import WatchdogSettings

MIB = 2**20
WALK_SHARE = 0.1
"""Of the time, for walks of one sandbox."""
PRESSED_SHARE = 0.5
"""The same of a sandbox that may be over a limit."""
LOSS_SHARE = 0.5
"""Of what a sandbox has left: so much less on the disk since its last walk calls for the next."""

OPEN_SHARE = 0.125
"""The same of a search for files that are deleted and still open."""
OPEN_PERIODS = 4
"""Between two such searches at rest."""


class WalkSchedule:
    """The schedule of one sandbox."""

    def __init__(self, limits: SandboxLimits, settings: WatchdogSettings) -> None:
        self._settings = settings
        self._limits = (
            float("inf") if limits.disk_mib is None else limits.disk_mib * MIB,
            float("inf") if limits.disk_files is None else limits.disk_files,
        )
        self._use = DiskUse(0, 0, True)
        self._free: FreeSpace | None = None
        """Free space of the disk when the last walk began."""
        self._free_open: FreeSpace | None = None
        """The same when the last search for open files began, at `_open_at`."""
        self._open_at = float("-inf")
        self._growth = (Growth(), Growth())
        self._next_walk_at = float("-inf")
        self._rest_until = self._pressed_until = float("-inf")
        """Not before, for the sake of the time that walks take."""

    def due(self, free: FreeSpace, now: float) -> bool:
        """Whether a walk is due. `free`: the free space of its disk at the moment."""
        share_lost = self._share_lost(self._free, free)
        if share_lost >= 1:
            return now >= self._pressed_until
        return now >= (self._rest_until if share_lost >= LOSS_SHARE else max(self._next_walk_at, self._rest_until))

    def due_open(self, free: FreeSpace, now: float) -> bool:
        """Whether a walk that begins now has to look for open files; it is taken to do so."""
        since = now - self._open_at
        rest = OPEN_PERIODS * self._settings.disk_period_s
        if since < rest and self._share_lost(self._free_open, free) < OPEN_SHARE:
            return False
        self._free_open, self._open_at = free, now
        return True

    def record(self, use: DiskUse, free: FreeSpace, started: float, now: float) -> None:
        """A walk has found `use`; `free`: on its disk when it began."""
        self._use, self._free = use, free
        self._next_walk_at = now + min(self._period(at, now) for at in (0, 1))
        self._rest_until = now + (now - started) / WALK_SHARE
        self._pressed_until = now + (now - started) / PRESSED_SHARE

    def _share_lost(self, before: FreeSpace | None, free: FreeSpace) -> float:
        """Share of what it has left that the disk has lost, of bytes or of files."""
        if before is None:
            return 0.0
        lost = (before.bytes - free.bytes, 0.0 if free.files == float("inf") else before.files - free.files)
        return max(lost[at] / max(1.0, self._limits[at] - self._use[at]) for at in (0, 1))

    def _period(self, at: int, now: float) -> float:
        most = self._limits[at]
        return next_period(
            self._settings.disk_period_s,
            used=self._use[at],
            limit=None if most == float("inf") else most,
            growth_per_s=self._growth[at].read(self._use[at], now),
            finest_share=self._settings.finest_share,
        )
