"""Monitor of one watched sandbox: its last figures, and the events that each look at it leads to.

Memory  over the threshold, and still when the largest process is found, that one is killed, and none other until its
        memory is back or has had its time; still over after the grace, the budget is used up. CPU seconds and disk are
        used up at once; processes (only where no cgroup limits them) when two looks in a row find too many.
Kernel  what it kills in the cgroup is the sandbox's doing where the cgroup was at its limit; else the machine is short
        of memory, and the sandbox is lost.
Disk    what is in the upper folder, and what is deleted and still open.
Thread  `look` runs in the watchdog's one thread, `walk` in its other; `disk`, `spare_pids` and `cpu_requested` are set
        from the event loop.
"""

import contextlib
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from paddock.sandbox.failures import Budget
from paddock.sandbox.records import MemoryKill
from paddock.sandbox.watchdog import victim
from paddock.sandbox.watchdog.deleted import deleted_use, overlay_of
from paddock.sandbox.watchdog.disk import DiskUse, disk_use
from paddock.sandbox.watchdog.meters import CgroupMeter, ProcessMeter, UsageMeter
from paddock.sandbox.watchdog.period import Growth, next_period
from paddock.sandbox.watchdog.settings import WatchdogSettings
from paddock.sandbox.watchdog.watched_sandbox import ResourceUse, UsageReading, WatchedSandbox

MIB = 2**20
SUSPECT_SHARE = 0.7
"""Share of the threshold from which the largest process is remembered, in case the kernel kills it first."""
HIT_S = 5.0
"""Seconds after the limit was met within which the kernel may kill for it."""
UNKNOWN = "(a process that the kernel chose)"


class BudgetOverrun(NamedTuple):
    """The sandbox used up a budget of its own."""

    budget: Budget
    message: str


class HostShortage(NamedTuple):
    """The machine is short of memory, and the sandbox is lost by that."""

    message: str


Event = MemoryKill | BudgetOverrun | HostShortage


class SandboxMonitor:
    """Figures and decisions of one sandbox. `belongs`: whether a process is this sandbox's at the moment."""

    def __init__(
        self,
        watched: WatchedSandbox,
        settings: WatchdogSettings,
        *,
        now: float,
        swap: bool,
        belongs: Callable[[int], bool],
    ) -> None:
        self.watched = watched
        self.settings = settings
        self.use = ResourceUse()
        self.disk = DiskUse(0, 0, True)
        """With what is deleted and still open."""
        self.next_look_at = now
        self.spare_pids: Collection[int] = ()
        """Processes that are killed only when nothing else is large."""
        self.cpu_requested = False
        """The next look counts CPU seconds though nothing limits them."""
        self.ended = False
        """The sandbox was given up: there are no more looks at it."""
        self._belongs = belongs
        limits = watched.limits
        self._limit = None if limits.memory_mib is None else limits.memory_mib * MIB
        self._threshold = None if self._limit is None else settings.memory_threshold(self._limit)
        self._protected = victim.lineage(watched.inside_pid or watched.pid, watched.pid)
        self._overlay = overlay_of(watched.inside_pid or watched.pid)
        self._census_pids: Sequence[int] = ()
        self._deleted = DiskUse(0, 0, True)
        self._growth = Growth()
        self._peak = 0
        self._kills = 0
        self._kernel_kills = self._kernel_kills_before = watched.cgroup.oom_kills() if watched.cgroup else 0
        self._hits = watched.cgroup.limit_hits() if watched.cgroup else 0
        self._hit_at = float("-inf")
        self._suspect: victim.Victim | None = None
        self._dying: victim.Victim | None = None
        self._dying_since = 0.0
        self._over_since: float | None = None
        self._crowded = False
        self._meter: UsageMeter = CgroupMeter(watched.cgroup) if watched.cgroup else self._process_meter(swap)

    @property
    def reading(self) -> UsageReading:
        kernel_kills = self._kernel_kills - self._kernel_kills_before if self.watched.cgroup else None
        return UsageReading(self.use, self._peak, self.disk, self._kills, kernel_kills)

    def members(self, census_pids: Sequence[int]) -> Sequence[int]:
        """Process ids: `counted` is what the census found."""
        return self.watched.cgroup.members() if self.watched.cgroup else census_pids

    def look(self, census_pids: Sequence[int], now: float) -> list[Event]:
        """Measure, decide, and kill; sets `next_look_at`. OSError: the sandbox is ending."""
        self._census_pids = census_pids
        cpu, self.cpu_requested = self.cpu_requested or self.watched.limits.cpu_s is not None, False
        self.use = self._meter.use(census_pids, now, cpu=cpu)
        self._peak = max(self._peak, self.use.memory_bytes)
        growth = self._growth.read(self.use.memory_bytes, now)
        events = self._killed_by_kernel(now)
        if self._threshold is not None and self.use.memory_bytes > self._threshold:
            events += self._over(census_pids, now)
        else:
            self._over_since = None
            self._remember_largest(census_pids)
        events += self._used_up()
        settings = self.settings
        self.next_look_at = now + next_period(
            settings.period_s,
            used=self.use.memory_bytes,
            limit=self._threshold,
            growth_per_s=growth,
            finest_share=settings.finest_share,
        )
        return events

    def walk(self, *, open_too: bool) -> DiskUse:
        """Measure what it has on disk, for `disk`. Without `open_too`, deleted files count as they were found last."""
        upper, limits = self.watched.upper, self.watched.limits
        if upper is None or self.ended:
            return self.disk
        most_files = float("inf") if limits.disk_files is None else limits.disk_files
        walked = disk_use(upper, most_files=most_files)
        if open_too:
            self._search_deleted(upper)
        use = _sum(walked, self._deleted)
        if self._deleted.files and self._disk_overrun(use):
            # A file that was deleted between walk and search counted twice, or the search was of an earlier walk. After
            # this search none of what it found is in a folder any more.
            self._search_deleted(upper)
            use = _sum(disk_use(upper, most_files=most_files), self._deleted)
        return use

    def _search_deleted(self, upper: Path) -> None:
        limits = self.watched.limits
        most_bytes = float("inf") if limits.disk_mib is None else limits.disk_mib * MIB
        # A sandbox whose cgroup is gone is ending.
        with contextlib.suppress(OSError):
            members = self.members(self._census_pids)
            self._deleted = deleted_use(members, self._overlay, upper, most_bytes=most_bytes)

    def disk_verdict(self) -> BudgetOverrun | None:
        return self._disk_overrun(self.disk)

    def _disk_overrun(self, disk: DiskUse) -> BudgetOverrun | None:
        limits = self.watched.limits
        if limits.disk_mib is not None and disk.bytes > limits.disk_mib * MIB:
            wrote = f"it has {disk.bytes / MIB:.0f} MiB on disk, with what is deleted and still open"
            return BudgetOverrun("disk", f"{wrote}, over its limit of {limits.disk_mib} MiB")
        if limits.disk_files is not None and disk.files > limits.disk_files:
            return BudgetOverrun("disk", f"it has more than {limits.disk_files} files and folders on disk, its limit")
        if not disk.whole and (limits.disk_mib is not None or limits.disk_files is not None):
            return BudgetOverrun("disk", "its folders are nested too deep, or its open files too many, to be counted")
        return None

    def close(self) -> None:
        self._meter.close()

    def _process_meter(self, swap: bool) -> ProcessMeter:
        watched = self.watched
        return ProcessMeter(
            watched.inside_pid or watched.pid,
            watched.tmpfs,
            threshold=self._threshold,
            swap=swap,
        )

    def _over(self, census_pids: Sequence[int], now: float) -> list[Event]:
        if self._over_since is None:
            self._over_since = now
        if self._dying and now - self._dying_since < self.settings.dying_s and victim.exists(self._dying.process):
            return []
        largest = self._largest(census_pids)
        # What the first measure found may have ended since, and then it is not among those we chose from.
        self.use = self._meter.use(self.members(census_pids), now, cpu=False)
        if self._threshold is None or self.use.memory_bytes <= self._threshold:
            self._over_since = None
            return []
        if now - self._over_since >= self.settings.grace_s:
            return [BudgetOverrun("memory", self._too_much())]
        if largest is None or victim.is_doomed(largest.process):
            return []  # the kernel killed it first, which its counters report
        if not victim.kill(largest, self._belongs):
            return []
        self._dying, self._dying_since = largest, now
        return [self._killed(largest)]

    def _largest(self, census_pids: Sequence[int]) -> victim.Victim | None:
        """The process to kill; None: none is large, or the largest has ended."""
        sizes = victim.sizes_of(self.members(census_pids), self._protected)
        large = (self._limit or 0) * self.settings.large_share
        pid = victim.choose(sizes, spare=self.spare_pids, large_bytes=large)
        return None if pid is None else victim.identify(pid, sizes[pid])

    def _killed_by_kernel(self, now: float) -> list[Event]:
        cgroup = self.watched.cgroup
        if cgroup is None:
            return []
        # In this order: a limit is met before anything is killed for it.
        before, self._kernel_kills = self._kernel_kills, cgroup.oom_kills()
        hits, self._hits = self._hits, cgroup.limit_hits()
        if self._hits > hits:
            self._hit_at = now
        if self._kernel_kills > before and self._hit_at < now - HIT_S:
            return [HostShortage("the kernel killed in it for want of memory, and not for its own limit")]
        killed: list[Event] = []
        for _ in range(self._kernel_kills - before):
            suspect, self._suspect = self._suspect, None
            if suspect and victim.is_doomed(suspect.process):
                killed.append(self._killed(suspect, by="kernel"))
            else:
                killed.append(self._killed(None, by="kernel"))
        return killed

    def _remember_largest(self, census_pids: Sequence[int]) -> None:
        cgroup = self.watched.cgroup
        if cgroup is None or self._threshold is None or self.use.memory_bytes < SUSPECT_SHARE * self._threshold:
            return
        sizes = victim.sizes_of(self.members(census_pids), self._protected)
        pid = victim.choose(sizes, spare=(), large_bytes=1)
        self._suspect = None if pid is None else victim.identify(pid, sizes[pid])

    def _used_up(self) -> list[Event]:
        limits, use = self.watched.limits, self.use
        if limits.cpu_s is not None and use.cpu_s > limits.cpu_s:
            return [
                BudgetOverrun("cpu", f"it used {use.cpu_s:.0f} s of CPU time, over its limit of {limits.cpu_s:g} s")
            ]
        crowded = self.watched.cgroup is None and limits.pids is not None and use.pids > limits.pids
        was, self._crowded = self._crowded, crowded
        if crowded and was:
            return [BudgetOverrun("pids", f"it ran {use.pids} processes, over its limit of {limits.pids}")]
        return []

    def _too_much(self) -> str:
        limit = (self._limit or 0) / MIB
        return (
            f"it used {self.use.memory_bytes / MIB:.0f} MiB of memory for {self.settings.grace_s:g} s, over its limit "
            f"of {limit:.0f} MiB, and killing its largest processes did not help"
        )

    def _killed(self, largest: victim.Victim | None, by: Literal["watchdog", "kernel"] = "watchdog") -> MemoryKill:
        self._kills += 1
        limit_mib = (self._limit or 0) / MIB
        if largest is None:
            return MemoryKill(command=UNKNOWN, memory_mib=limit_mib, limit_mib=limit_mib, by=by)
        memory_mib = round(largest.memory_bytes / MIB, 1)
        return MemoryKill(command=largest.command, memory_mib=memory_mib, limit_mib=limit_mib, by=by)


def _sum(walked: DiskUse, deleted: DiskUse) -> DiskUse:
    return DiskUse(walked.bytes + deleted.bytes, walked.files + deleted.files, walked.whole and deleted.whole)
