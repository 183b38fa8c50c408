"""The watchdog over processes that are in a cgroup with a hard limit, where this machine lets us make one."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paddock.sandbox.records import SandboxLimits
from paddock.sandbox.watchdog import Watchdog, WatchdogSettings

pytestmark = pytest.mark.sandbox
MIB = 2**20
LIMITS = SandboxLimits(memory_mib=100, pids=64, disk_mib=None)
SLOW = WatchdogSettings(period_s=30.0)
QUICK = WatchdogSettings(period_s=0.1, grace_s=0.5, margin_share=0.2)
"""It acts at 80 MiB, the kernel at 100."""


async def until(claim: Callable[[], Any]) -> None:
    due = time.monotonic() + 60
    while not claim():
        assert time.monotonic() < due, "it did not come true"
        await asyncio.sleep(0.01)


async def test_it_acts_before_the_kernel_does(make_cgroup: Any, make_space: Any, told: Any) -> None:
    group = make_cgroup(LIMITS)
    space = make_space(group.procs_files)
    async with Watchdog(QUICK) as dog:
        await dog.watch(told.watched(space, LIMITS, cgroup=group))
        space.python('import time; hog = bytearray(b"h") * (86 << 20); time.sleep(60)')
        await until(lambda: told.killed)
        space.say("alive")
        assert group.oom_kills() == 0
        assert "hog" in told.killed[0].command
        await until(lambda: dog.reading("one").use.memory_bytes < 60 * MIB)
        assert dog.reading("one").use.cpu_s > 0
        assert told.exhausted == []


async def test_what_the_kernel_kills_is_told_too(make_cgroup: Any, make_space: Any, told: Any) -> None:
    group = make_cgroup(LIMITS)
    space = make_space(group.procs_files)
    async with Watchdog(SLOW) as dog:
        await dog.watch(told.watched(space, LIMITS, cgroup=group))
        await dog.measure("one")
        space.python('hog = bytearray(b"h") * (300 << 20)', background=False)
        space.say("alive")
        assert told.killed == []
        await dog.measure("one")
        assert [(killed.limit_mib, killed.command) for killed in told.killed] == [
            (100.0, "(a process that the kernel chose)")
        ]
        assert (dog.reading("one").memory_kills, dog.reading("one").kernel_kills) == (1, 1)


async def test_what_the_kernel_kills_elsewhere_is_not_its_own(make_cgroup: Any, make_space: Any, told: Any) -> None:
    one, other = make_cgroup(LIMITS), make_cgroup(LIMITS, "other")
    space, beside = make_space(one.procs_files), make_space(other.procs_files)
    async with Watchdog(SLOW) as dog:
        await dog.watch(told.watched(space, LIMITS, cgroup=one))
        beside.python('hog = bytearray(b"h") * (300 << 20)', background=False)
        beside.say("alive")
        assert other.oom_kills() == 1
        assert (await dog.measure("one")).kernel_kills == 0


async def test_what_the_kernel_kills_below_the_limit_is_the_machines(
    make_cgroup: Any, make_space: Any, told: Any
) -> None:
    group = make_cgroup(SandboxLimits(memory_mib=1024, disk_mib=None))
    space = make_space(group.procs_files)
    above = group.folders[0].parent
    [limit] = [path for name in ("memory.limit_in_bytes", "memory.max") if (path := above / name).exists()]
    limit.write_text(str(100 * MIB))
    async with Watchdog(SLOW) as dog:
        await dog.watch(told.watched(space, SandboxLimits(memory_mib=1024, disk_mib=None), cgroup=group))
        await dog.measure("one")
        space.python('hog = bytearray(b"h") * (300 << 20)', background=False)
        space.say("alive")
        await dog.measure("one")
        assert [error.kind for error in told.lost] == ["host_memory"]
        assert (told.killed, told.exhausted) == ([], [])


async def test_whom_the_kernel_killed_is_named_where_we_saw_it_grow(
    make_cgroup: Any, make_space: Any, told: Any, tmp_path: Path
) -> None:
    group = make_cgroup(LIMITS)
    space = make_space(group.procs_files)
    async with Watchdog(SLOW) as dog:
        await dog.watch(told.watched(space, LIMITS, cgroup=group))
        go = tmp_path / "go"
        grow = f'import os, time; [time.sleep(0.01) for _ in iter(lambda: os.path.exists("{go}"), True)]; '
        space.hold(75, then=grow + 'hog = b"h" * (300 << 20)')
        await dog.measure("one")
        go.touch()
        await until(group.oom_kills)
        space.say("alive")
        await dog.measure("one")
        assert [(killed.limit_mib, killed.memory_mib > 75) for killed in told.killed] == [(100.0, True)]
        assert "75 << 20" in told.killed[0].command


async def test_memory_without_a_process_exhausts_the_budget(make_cgroup: Any, make_space: Any, told: Any) -> None:
    group = make_cgroup(LIMITS)
    space = make_space(group.procs_files)
    async with Watchdog(QUICK) as dog:
        await dog.watch(told.watched(space, LIMITS, cgroup=group))
        space.do("head -c 88M /dev/zero > /dev/shm/file")
        await until(lambda: told.exhausted)
        assert [budget for budget, _ in told.exhausted] == ["memory"]


async def test_a_group_that_goes_away_is_no_crash(make_cgroup: Any, make_space: Any, told: Any) -> None:
    group = make_cgroup(LIMITS)
    space = make_space(group.procs_files)
    async with Watchdog(QUICK) as dog:
        await dog.watch(told.watched(space, LIMITS, cgroup=group))
        await dog.measure("one")
        group.kill_all()
        assert group.remove()
        await asyncio.sleep(0.3)
        await dog.measure("one")
        await dog.unwatch("one")
    assert told.killed == [] and told.exhausted == [] and told.lost == []
