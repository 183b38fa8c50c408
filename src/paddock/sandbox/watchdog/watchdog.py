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
from paddock.sandbox.watchdog.case import Case, Event, Lost
from paddock.sandbox.watchdog.census import Census
from paddock.sandbox.watchdog.host import HostMemory, host_memory
from paddock.sandbox.watchdog.period import Growth, next_period
from paddock.sandbox.watchdog.room import Floor, Room, Short, room_of
from paddock.sandbox.watchdog.settings import WatchdogSettings
from paddock.sandbox.watchdog.walks import Walks
from paddock.sandbox.watchdog.watched import Reading, Watched

TOGETHER_SHARE = 0.25
"""Of the period: who is due so soon is looked at now."""
WORTH_SHARE = 0.25
"""Of the host's floor: giving up a smaller sandbox would not help the host."""
BACK_S = 30.0
"""How long the owner of a sandbox that has ended may take to remove what it wrote before another is given up."""
Clock = Callable[[], float]
T = TypeVar("T")
_log = logging.getLogger(__name__)


class _Entry(NamedTuple):
    case: Case
    root: int | None
    """Its key in the census; None: it has a cgroup."""


class _Found(NamedTuple):
    case: Case
    events: list[Event]


class Watchdog:
    """`async with Watchdog() as dog: await dog.watch(...)`."""

    def __init__(
        self,
        settings: WatchdogSettings | None = None,
        *,
        clock: Clock = time.monotonic,
        host: Callable[[], HostMemory] = host_memory,
        room: Callable[[Collection[Path]], dict[Path, Room]] = room_of,
    ) -> None:
        self.settings = settings or WatchdogSettings()
        self._clock = clock
        self._host = host
        self._room = room
        self._host_growth = Growth()
        self._host_due = 0.0
        self._entries: dict[str, _Entry] = {}
        self._census = Census()
        self._looker = ThreadPoolExecutor(1, thread_name_prefix="watchdog")
        self._walker = ThreadPoolExecutor(1, thread_name_prefix="watchdog-disk")
        self._woken = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def start(self) -> None:
        """Look from now on."""
        steps = (self._looking, self._walking, self._guarding)
        self._tasks = [asyncio.create_task(self._forever(step)) for step in steps]

    async def close(self) -> None:
        """Stop; no call comes any more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for sandbox_id in list(self._entries):
            await self.unwatch(sandbox_id)
        await self._in_thread(self._census.close)
        self._looker.shutdown(wait=False)
        self._walker.shutdown(wait=False, cancel_futures=True)

    async def watch(self, watched: Watched) -> None:
        """From now until `unwatch`; its process must live. SandboxGone where its cgroup does not."""
        opening = asyncio.get_running_loop().run_in_executor(self._looker, self._open, watched)
        try:
            self._entries[watched.sandbox_id] = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(self._shut_unwanted)
            raise
        except OSError as error:
            raise SandboxGone(watched.sandbox_id, str(error)) from error
        self._woken.set()

    async def unwatch(self, sandbox_id: str) -> None:
        """Idempotent; call it before the sandbox's cgroup is removed."""
        entry = self._entries.pop(sandbox_id, None)
        if entry:
            await self._in_thread(lambda: self._shut(entry))

    def reading(self, sandbox_id: str) -> Reading:
        """What the last looks found."""
        return self._entry(sandbox_id).case.reading

    async def measure(self, sandbox_id: str) -> Reading:
        """Look at one sandbox now, at its CPU seconds and at what it has on disk."""
        entry = self._entry(sandbox_id)
        entry.case.cpu_wanted = True
        await self.look(sandbox_id)
        if not entry.case.ended and entry.case.watched.upper:
            await self._walk(entry.case)
        return entry.case.reading

    async def look(self, sandbox_id: str) -> None:
        """Look at one sandbox now: what happened to it so far has been told when this returns."""
        entry = self._entry(sandbox_id)
        if not entry.case.ended:
            self._tell(await self._look([entry]))

    def _entry(self, sandbox_id: str) -> _Entry:
        try:
            return self._entries[sandbox_id]
        except KeyError:
            raise SandboxGone(sandbox_id) from None

    async def _in_thread(self, act: Callable[[], T]) -> T:
        """To its end, whoever stops waiting for it."""
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._looker, act))

    def _open(self, watched: Watched) -> _Entry:
        root = None if watched.cgroup else self._census.add(watched.pid)
        cgroup = watched.cgroup

        def belongs(pid: int) -> bool:
            return pid in cgroup.members() if cgroup else self._census.belongs(pid, root or 0)

        case = Case(watched, self.settings, now=self._clock(), swap=self._host().swap > 0, belongs=belongs)
        return _Entry(case, root)

    def _shut_unwanted(self, opened: asyncio.Future[_Entry]) -> None:
        """Its `watch` was cancelled."""
        if opened.exception() is None:
            self._looker.submit(self._shut, opened.result())

    def _shut(self, entry: _Entry) -> None:
        entry.case.ended = True
        entry.case.close()
        if entry.root is not None:
            self._census.remove(entry.root)

    async def _forever(self, step: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await step()
            except Exception:  # noqa: BLE001 - a watchdog that ended would be missed by nobody
                _log.exception("the watchdog stumbled, and goes on")
                await asyncio.sleep(self.settings.period_s)

    async def _looking(self) -> None:
        while True:
            now = self._clock()
            soon = now + TOGETHER_SHARE * self.settings.period_s
            due = [entry for entry in self._live() if entry.case.due <= soon]
            if due and min(entry.case.due for entry in due) <= now:
                self._tell(await self._look(due))
            if self._host_due <= now:
                self._look_at_host(now)
            next_due = min([self._host_due, *(entry.case.due for entry in self._live())])
            self._woken.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), max(0.001, next_due - self._clock()))

    async def _look(self, entries: list[_Entry]) -> list[_Found]:
        for entry in entries:
            entry.case.spared = entry.case.watched.spare()
        return await self._in_thread(lambda: self._look_at(entries))

    def _look_at(self, entries: list[_Entry]) -> list[_Found]:
        entries = [entry for entry in entries if not entry.case.ended]
        counted = self._census.take() if any(entry.root is not None for entry in entries) else {}
        found = []
        for entry in entries:
            now = self._clock()
            try:
                events = entry.case.look(counted.get(entry.root or 0, []), now)
            except (OSError, ValueError):
                entry.case.due = now + self.settings.period_s  # it is ending: its provider will tell
                continue
            if events:
                found.append(_Found(entry.case, events))
        return found

    def _tell(self, found: list[_Found]) -> None:
        for case, events in found:
            for event in events:
                entry = self._entries.get(case.watched.sandbox_id)
                if entry is None or entry.case is not case or case.ended:
                    break
                self._tell_one(case, event)

    def _tell_one(self, case: Case, event: Event) -> None:
        if isinstance(event, MemoryKill):
            self._call(case, lambda: case.watched.on_killed(event))
        elif isinstance(event, Lost):
            case.ended = True
            error = SandboxError(f"sandbox {case.watched.sandbox_id}: {event.message}", kind="host_memory")
            self._call(case, lambda: case.watched.on_lost(error))
        else:
            case.ended = True
            self._call(case, lambda: case.watched.on_exhausted(event.budget, event.message))

    def _call(self, case: Case, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception:  # noqa: BLE001 - one sandbox's trouble must not blind us to the others
            _log.exception("the provider of sandbox %s could not be told", case.watched.sandbox_id)

    def _look_at_host(self, now: float) -> None:
        host = self._host()
        floor = self.settings.host_floor_mib * 2**20
        used, most = host.total - host.available, host.total - floor
        growth = self._host_growth.read(used, now)
        finest = self.settings.finest_share
        self._host_due = now + next_period(
            self.settings.period_s, used=used, limit=most, growth_per_s=growth, finest_share=finest
        )
        if not floor or host.available >= floor:
            return
        largest = max(self._live(), key=lambda entry: entry.case.use.memory_bytes, default=None)
        if largest is None or largest.case.use.memory_bytes < WORTH_SHARE * floor:
            return
        case = largest.case
        case.ended = True
        self._host_due = now + self.settings.dying_s
        message = (
            f"the machine has {host.available / 2**20:.0f} MiB of memory left, under {floor / 2**20:.0f} MiB; sandbox "
            f"{case.watched.sandbox_id} was given up, with {case.use.memory_bytes / 2**20:.0f} MiB the largest"
        )
        self._call(case, lambda: case.watched.on_lost(SandboxError(message, kind="host_memory")))

    async def _walking(self) -> None:
        walks: dict[str, Walks] = {}
        while True:
            cases = {entry.case.watched.sandbox_id: entry.case for entry in self._live()}
            walks = {name: walks.get(name) or Walks(case.watched.limits, self.settings) for name, case in cases.items()}
            free = await self._in_walker(self._rooms)
            for name, case in cases.items():
                upper = case.watched.upper
                if upper not in free or not walks[name].due(free[upper], self._clock()):
                    continue
                started = self._clock()
                await self._walk(case, open_too=walks[name].due_open(free[upper], started))
                walks[name].walked(case.disk, free[upper], started, self._clock())
            # A new sandbox is found within the shortest period.
            await asyncio.sleep(self.settings.disk_period_s * self.settings.finest_share)

    async def _walk(self, case: Case, *, open_too: bool = True) -> None:
        case.disk = await self._in_walker(lambda: case.walk(open_too=open_too))
        if verdict := case.disk_verdict():
            self._tell([_Found(case, [verdict])])

    async def _guarding(self) -> None:
        """Give sandboxes up, one at a time, where a disk is below its floor."""
        floor = Floor(self.settings)
        since: dict[int, float] = {}
        while True:
            free = await self._in_thread(self._rooms)
            now = self._clock()
            short = floor.look(free.values(), now)
            since = {one.device: since.get(one.device, now) for one in short}
            for one in short:
                there = [
                    entry.case
                    for entry in self._entries.values()
                    if (upper := entry.case.watched.upper) in free and free[upper].device == one.device
                ]
                coming_back = any(case.ended and _has(case, one) >= one.worth for case in there)
                if coming_back and self._clock() < since[one.device] + BACK_S:
                    continue
                await self._relieve(one, [case for case in there if not case.ended])
                since[one.device] = self._clock()
            await asyncio.sleep(floor.period_s)

    async def _relieve(self, short: Short, cases: list[Case]) -> None:
        """End one over its own limit, else the largest."""
        for case in sorted(cases, key=lambda case: _has(case, short), reverse=True):
            await self._walk(case)
            if case.ended:
                return
        largest = max(cases, key=lambda case: _has(case, short), default=None)
        if largest is None or largest.ended or _has(largest, short) < short.worth:
            return
        largest.ended = True
        message = (
            f"{short.text}; sandbox {largest.watched.sandbox_id} was given up, with {largest.disk.bytes / 2**20:.0f} "
            f"MiB in {largest.disk.files} files the largest"
        )
        self._call(largest, lambda: largest.watched.on_lost(SandboxError(message, kind="host_disk")))

    def _rooms(self) -> dict[Path, Room]:
        entries = list(self._entries.values())
        return self._room([entry.case.watched.upper for entry in entries if entry.case.watched.upper])

    async def _in_walker(self, act: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._walker, act)

    def _live(self) -> list[_Entry]:
        return [entry for entry in self._entries.values() if not entry.case.ended]


def _has(case: Case, short: Short) -> int:
    """Of what the disk is short of."""
    return case.disk.files if short.files else case.disk.bytes
