"""The watchdog of a provider: one for all its sandboxes.

Looks   run in one thread of its own, so that nothing inside a sandbox can hold up the event loop, and what they share
        needs no locks; sandboxes that are nearly due are looked at together. Walks of upper folders have another.
Host    when the machine's memory or a disk runs out although each sandbox is within its limit, the largest is given up
        as the machine's failure (`on_lost`), one at a time; it is never the policy's.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

from paddock.sandbox.failures import SandboxError, SandboxGone
from paddock.sandbox.records import MemoryKill
from paddock.sandbox.watchdog.census import Census
from paddock.sandbox.watchdog.disk_floor import DiskFloor, DiskShortage, FreeSpace, free_space
from paddock.sandbox.watchdog.host import HostMemory, host_memory
from paddock.sandbox.watchdog.monitor import Event, HostShortage, SandboxMonitor
from paddock.sandbox.watchdog.period import Growth, next_period
from paddock.sandbox.watchdog.settings import WatchdogSettings
from paddock.sandbox.watchdog.walk_schedule import WalkSchedule
from paddock.sandbox.watchdog.watched_sandbox import UsageReading, WatchedSandbox

TOGETHER_SHARE = 0.25
"""Share of the period: sandboxes that are due within it are looked at together."""
WORTH_SHARE = 0.25
"""Share of the host's floor: giving up a sandbox with less memory would not help the host."""
BACK_S = 30.0
"""Seconds in which what an ended sandbox wrote has to be removed, before another is given up."""
Clock = Callable[[], float]
T = TypeVar("T")
_log = logging.getLogger(__name__)


class _WatchEntry(NamedTuple):
    monitor: SandboxMonitor
    root: int | None
    """Its key in the census; None: it has a cgroup."""


class _LookEvents(NamedTuple):
    monitor: SandboxMonitor
    events: list[Event]


class Watchdog:
    """`async with Watchdog() as dog: await dog.watch(...)`."""

    def __init__(
        self,
        settings: WatchdogSettings | None = None,
        *,
        clock: Clock = time.monotonic,
        host: Callable[[], HostMemory] = host_memory,
        free_space_of: Callable[[Collection[Path]], dict[Path, FreeSpace]] = free_space,
    ) -> None:
        self.settings = settings or WatchdogSettings()
        self._clock = clock
        self._host = host
        self._measure_space = free_space_of
        self._host_growth = Growth()
        self._host_look_at = 0.0
        self._entries: dict[str, _WatchEntry] = {}
        self._census = Census()
        self._looker = ThreadPoolExecutor(1, thread_name_prefix="watchdog")
        self._walker = ThreadPoolExecutor(1, thread_name_prefix="watchdog-disk")
        self._wakeup = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def start(self) -> None:
        """Start the loops."""
        steps = (self._look_loop, self._walk_loop, self._disk_floor_loop)
        self._tasks = [asyncio.create_task(self._forever(step)) for step in steps]

    async def close(self) -> None:
        """Stop the loops; no callback is called after this."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for sandbox_id in list(self._entries):
            await self.unwatch(sandbox_id)
        await self._in_thread(self._census.close)
        self._looker.shutdown(wait=False)
        self._walker.shutdown(wait=False, cancel_futures=True)

    async def watch(self, watched: WatchedSandbox) -> None:
        """Watch a sandbox until `unwatch`; its process must live. SandboxGone where its cgroup is gone."""
        opening = asyncio.get_running_loop().run_in_executor(self._looker, self._open, watched)
        try:
            self._entries[watched.sandbox_id] = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(self._shut_unwanted)
            raise
        except OSError as error:
            raise SandboxGone(watched.sandbox_id, str(error)) from error
        self._wakeup.set()

    async def unwatch(self, sandbox_id: str) -> None:
        """Idempotent; call it before the sandbox's cgroup is removed."""
        entry = self._entries.pop(sandbox_id, None)
        if entry:
            await self._in_thread(lambda: self._shut(entry))

    def reading(self, sandbox_id: str) -> UsageReading:
        """What the last looks found."""
        return self._entry(sandbox_id).monitor.reading

    async def measure(self, sandbox_id: str) -> UsageReading:
        """Look at one sandbox now, at its CPU seconds and at what it has on disk."""
        entry = self._entry(sandbox_id)
        entry.monitor.cpu_requested = True
        await self.look(sandbox_id)
        if not entry.monitor.ended and entry.monitor.watched.upper:
            await self._walk(entry.monitor)
        return entry.monitor.reading

    async def look(self, sandbox_id: str) -> None:
        """Look at one sandbox now: what happened to it so far has been reported when this returns."""
        entry = self._entry(sandbox_id)
        if not entry.monitor.ended:
            self._report(await self._look([entry]))

    def _entry(self, sandbox_id: str) -> _WatchEntry:
        try:
            return self._entries[sandbox_id]
        except KeyError:
            raise SandboxGone(sandbox_id) from None

    async def _in_thread(self, act: Callable[[], T]) -> T:
        """Run `act` in the watchdog's thread, to its end also where the caller is cancelled."""
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._looker, act))

    def _open(self, watched: WatchedSandbox) -> _WatchEntry:
        root = None if watched.cgroup else self._census.add(watched.pid)
        cgroup = watched.cgroup

        def belongs(pid: int) -> bool:
            return pid in cgroup.members() if cgroup else self._census.belongs(pid, root or 0)

        monitor = SandboxMonitor(watched, self.settings, now=self._clock(), swap=self._host().swap > 0, belongs=belongs)
        return _WatchEntry(monitor, root)

    def _shut_unwanted(self, opening: asyncio.Future[_WatchEntry]) -> None:
        """Its `watch` was cancelled."""
        if opening.exception() is None:
            self._looker.submit(self._shut, opening.result())

    def _shut(self, entry: _WatchEntry) -> None:
        entry.monitor.ended = True
        entry.monitor.close()
        if entry.root is not None:
            self._census.remove(entry.root)

    async def _forever(self, step: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await step()
            except Exception:  # noqa: BLE001 - a watchdog that ended would be missed by nobody
                _log.exception("a pass of the watchdog failed; it goes on")
                await asyncio.sleep(self.settings.period_s)

    async def _look_loop(self) -> None:
        while True:
            now = self._clock()
            soon = now + TOGETHER_SHARE * self.settings.period_s
            ready = [entry for entry in self._live() if entry.monitor.next_look_at <= soon]
            if ready and min(entry.monitor.next_look_at for entry in ready) <= now:
                self._report(await self._look(ready))
            if self._host_look_at <= now:
                self._look_at_host(now)
            next_look = min([self._host_look_at, *(entry.monitor.next_look_at for entry in self._live())])
            self._wakeup.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wakeup.wait(), max(0.001, next_look - self._clock()))

    async def _look(self, entries: list[_WatchEntry]) -> list[_LookEvents]:
        for entry in entries:
            entry.monitor.spare_pids = entry.monitor.watched.spare()
        return await self._in_thread(lambda: self._look_at(entries))

    def _look_at(self, entries: list[_WatchEntry]) -> list[_LookEvents]:
        entries = [entry for entry in entries if not entry.monitor.ended]
        census_pids = self._census.take() if any(entry.root is not None for entry in entries) else {}
        reports = []
        for entry in entries:
            now = self._clock()
            try:
                events = entry.monitor.look(census_pids.get(entry.root or 0, []), now)
            except (OSError, ValueError):
                entry.monitor.next_look_at = now + self.settings.period_s  # it is ending, as its keeper reports
                continue
            if events:
                reports.append(_LookEvents(entry.monitor, events))
        return reports

    def _report(self, reports: list[_LookEvents]) -> None:
        for monitor, events in reports:
            for event in events:
                entry = self._entries.get(monitor.watched.sandbox_id)
                if entry is None or entry.monitor is not monitor or monitor.ended:
                    break
                self._report_event(monitor, event)

    def _report_event(self, monitor: SandboxMonitor, event: Event) -> None:
        if isinstance(event, MemoryKill):
            self._call(monitor, lambda: monitor.watched.on_killed(event))
        elif isinstance(event, HostShortage):
            monitor.ended = True
            error = SandboxError(f"sandbox {monitor.watched.sandbox_id}: {event.message}", kind="host_memory")
            self._call(monitor, lambda: monitor.watched.on_lost(error))
        else:
            monitor.ended = True
            self._call(monitor, lambda: monitor.watched.on_exhausted(event.budget, event.message))

    def _call(self, monitor: SandboxMonitor, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception:  # noqa: BLE001 - one sandbox's trouble must not blind us to the others
            _log.exception("a callback of the provider failed for sandbox %s", monitor.watched.sandbox_id)

    def _look_at_host(self, now: float) -> None:
        host = self._host()
        floor = self.settings.host_floor_mib * 2**20
        used, most = host.total - host.available, host.total - floor
        growth = self._host_growth.read(used, now)
        finest = self.settings.finest_share
        self._host_look_at = now + next_period(
            self.settings.period_s, used=used, limit=most, growth_per_s=growth, finest_share=finest
        )
        if not floor or host.available >= floor:
            return
        largest = max(self._live(), key=lambda entry: entry.monitor.use.memory_bytes, default=None)
        if largest is None or largest.monitor.use.memory_bytes < WORTH_SHARE * floor:
            return
        monitor = largest.monitor
        monitor.ended = True
        self._host_look_at = now + self.settings.dying_s
        message = (
            f"the machine has {host.available / 2**20:.0f} MiB of memory left, under {floor / 2**20:.0f} MiB; sandbox "
            f"{monitor.watched.sandbox_id} was given up, with {monitor.use.memory_bytes / 2**20:.0f} MiB the largest"
        )
        self._call(monitor, lambda: monitor.watched.on_lost(SandboxError(message, kind="host_memory")))

    async def _walk_loop(self) -> None:
        schedules: dict[str, WalkSchedule] = {}
        while True:
            monitors = {entry.monitor.watched.sandbox_id: entry.monitor for entry in self._live()}
            schedules = {
                name: schedules.get(name) or WalkSchedule(monitor.watched.limits, self.settings)
                for name, monitor in monitors.items()
            }
            free = await self._in_walker(self._free_spaces)
            for name, monitor in monitors.items():
                upper = monitor.watched.upper
                if upper not in free or not schedules[name].due(free[upper], self._clock()):
                    continue
                started = self._clock()
                await self._walk(monitor, open_too=schedules[name].due_open(free[upper], started))
                schedules[name].record(monitor.disk, free[upper], started, self._clock())
            # So a new sandbox is walked within the shortest period.
            await asyncio.sleep(self.settings.disk_period_s * self.settings.finest_share)

    async def _walk(self, monitor: SandboxMonitor, *, open_too: bool = True) -> None:
        monitor.disk = await self._in_walker(lambda: monitor.walk(open_too=open_too))
        if verdict := monitor.disk_verdict():
            self._report([_LookEvents(monitor, [verdict])])

    async def _disk_floor_loop(self) -> None:
        """Give sandboxes up, one at a time, where a disk is below its floor."""
        floor = DiskFloor(self.settings)
        since: dict[int, float] = {}
        while True:
            free = await self._in_thread(self._free_spaces)
            now = self._clock()
            shortages = floor.look(free.values(), now)
            since = {shortage.device: since.get(shortage.device, now) for shortage in shortages}
            for shortage in shortages:
                there = [
                    entry.monitor
                    for entry in self._entries.values()
                    if (upper := entry.monitor.watched.upper) in free and free[upper].device == shortage.device
                ]
                coming_back = any(monitor.ended and _has(monitor, shortage) >= shortage.min_use for monitor in there)
                if coming_back and self._clock() < since[shortage.device] + BACK_S:
                    continue
                await self._relieve(shortage, [monitor for monitor in there if not monitor.ended])
                since[shortage.device] = self._clock()
            await asyncio.sleep(floor.period_s)

    async def _relieve(self, shortage: DiskShortage, monitors: list[SandboxMonitor]) -> None:
        """End one over its own limit, else the largest."""
        for monitor in sorted(monitors, key=lambda monitor: _has(monitor, shortage), reverse=True):
            await self._walk(monitor)
            if monitor.ended:
                return
        largest = max(monitors, key=lambda monitor: _has(monitor, shortage), default=None)
        if largest is None or largest.ended or _has(largest, shortage) < shortage.min_use:
            return
        largest.ended = True
        message = (
            f"{shortage.text}; sandbox {largest.watched.sandbox_id} was given up, with "
            f"{largest.disk.bytes / 2**20:.0f} MiB in {largest.disk.files} files the largest"
        )
        self._call(largest, lambda: largest.watched.on_lost(SandboxError(message, kind="host_disk")))

    def _free_spaces(self) -> dict[Path, FreeSpace]:
        entries = list(self._entries.values())
        return self._measure_space([entry.monitor.watched.upper for entry in entries if entry.monitor.watched.upper])

    async def _in_walker(self, act: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._walker, act)

    def _live(self) -> list[_WatchEntry]:
        return [entry for entry in self._entries.values() if not entry.monitor.ended]


def _has(monitor: SandboxMonitor, shortage: DiskShortage) -> int:
    """How much a sandbox has of what the disk is short of."""
    return monitor.disk.files if shortage.files else monitor.disk.bytes
