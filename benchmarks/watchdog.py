"""One look of the watchdog at 64 sandboxes, and what it costs at rest.

Floor: a raw pass over `/proc`, readlink of each process's pid namespace and its `statm`. Ours: a look at all sandboxes,
by their processes, and by their cgroups where this machine has any. Ratios are of CPU time, medians over rounds. At
rest: share of one core over some seconds of a running watchdog with default settings. Target: under 1 %.
"""

import asyncio
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from paddock.sandbox.cgroups import Cgroup, Cgroups, find_cgroups
from paddock.sandbox.records import SandboxLimits
from paddock.sandbox.watchdog import Census, Watchdog, WatchedSandbox
from paddock.sandbox.watchdog.monitor import SandboxMonitor
from paddock.sandbox.watchdog.proc import pids as pids_of_host
from paddock.sandbox.watchdog.settings import WatchdogSettings

SANDBOXES = 64
PROCESSES = 4
"""In each, beside the first of its namespace."""
ROUNDS = 30
REST_S = 10.0
LIMITS = SandboxLimits(disk_mib=None)
ENTER = 'for file in "$@"; do echo 0 > "$file"; done; exec unshare -Urpf --kill-child --mount-proc sh -c "$INSIDE"'
INSIDE = f"i=1; while [ $i -lt {PROCESSES} ]; do sleep 600 & i=$((i+1)); done; echo up; sleep 600; :"


def run() -> dict[str, Any]:
    cgroups = find_cgroups()
    with ExitStack() as stack:
        groups: list[Cgroup | None] = [None] * SANDBOXES
        if cgroups:
            groups = stack.enter_context(_groups(cgroups))
        pids = [stack.enter_context(_sandbox(group)) for group in groups]
        plain = [_watched(index, pid, None) for index, pid in enumerate(pids)]
        figures: dict[str, Any] = {
            "sandboxes": SANDBOXES,
            "processes_on_host": len(pids_of_host()),
            "by_processes": _looks(plain),
            "by_processes_at_rest": asyncio.run(_rest(plain)),
        }
        if cgroups:
            grouped = [_watched(index, pid, group) for index, (pid, group) in enumerate(zip(pids, groups, strict=True))]
            figures |= {"by_cgroups": _looks(grouped), "by_cgroups_at_rest": asyncio.run(_rest(grouped))}
        return figures


def _looks(all_watched: list[WatchedSandbox]) -> dict[str, float]:
    census = Census()
    keys = [None if watched.cgroup else census.add(watched.pid) for watched in all_watched]
    settings = WatchdogSettings()
    cases = [SandboxMonitor(one, settings, now=0.0, swap=False, belongs=lambda _: False) for one in all_watched]

    def look() -> None:
        counted = census.take() if any(keys) else {}
        for key, case in zip(keys, cases, strict=True):
            case.look(counted.get(key or 0, []), time.monotonic())

    look()
    pairs = [(_cpu_ms(look), _cpu_ms(_floor)) for _ in range(ROUNDS)]
    for case in cases:
        case.close()
    census.close()
    return {
        "cpu_ms": median(ours for ours, _ in pairs),
        "floor_cpu_ms": median(floor for _, floor in pairs),
        "ratio": median(ours / floor for ours, floor in pairs),
    }


async def _rest(all_watched: list[WatchedSandbox]) -> dict[str, float]:
    async with Watchdog() as dog:
        for watched in all_watched:
            await dog.watch(watched)
        await asyncio.sleep(1.0)
        started, cpu = time.monotonic(), time.process_time()
        await asyncio.sleep(REST_S)
        return {"core_percent": 100 * (time.process_time() - cpu) / (time.monotonic() - started)}


def _floor() -> None:
    for name in os.listdir("/proc"):  # noqa: PTH208 - a floor has no comfort
        if name.isdigit():
            try:
                os.readlink(f"/proc/{name}/ns/pid")  # noqa: PTH115 - as above
                with open(f"/proc/{name}/statm", "rb", buffering=0) as file:  # noqa: PTH123 - as above
                    file.read(128).split()
            except OSError:
                continue


def _cpu_ms(act: Callable[[], None]) -> float:
    started = time.process_time()
    act()
    return (time.process_time() - started) * 1e3


@contextmanager
def _groups(cgroups: Cgroups) -> Iterator[list[Cgroup | None]]:
    owner = f"bench-{uuid.uuid4().hex[:8]}"
    try:
        yield [cgroups.make(owner, str(index), LIMITS) for index in range(SANDBOXES)]
    finally:
        cgroups.remove_owner(owner)


@contextmanager
def _sandbox(group: Cgroup | None) -> Iterator[int]:
    """The first process of a pid namespace with a few that sleep."""
    files = [str(file) for file in group.procs_files] if group else []
    command = ["/bin/sh", "-c", ENTER, "sh", *files]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env={**os.environ, "INSIDE": INSIDE}
    ) as process:
        try:
            assert process.stdout
            if process.stdout.readline() != b"up\n":
                sys.exit("no pid namespace can be made here: unshare failed")
            yield int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
        finally:
            process.kill()


def _watched(index: int, pid: int, group: Cgroup | None) -> WatchedSandbox:
    def ignore(*_: object) -> None:
        """Nothing is near a limit."""

    return WatchedSandbox(str(index), LIMITS, pid, ignore, ignore, ignore, cgroup=group)
