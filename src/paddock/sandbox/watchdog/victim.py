"""Chooses the process of a sandbox that is killed for memory, and kills that one and no other.

Law     never the processes that hold the sandbox up; a session's shell only where nothing else is large; none at all
        where no process is large, for then its memory is not any process's.
"""

import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from paddock.sandbox.processes import Process, signal_process, started_at
from paddock.sandbox.watchdog import proc


class Victim(NamedTuple):
    process: Process
    command: str
    memory_bytes: int


def choose(sizes: Mapping[int, int], *, spare: Collection[int], large_bytes: float) -> int | None:
    """The largest of those not spared, else the largest; None where that is not large."""
    for candidates in ([pid for pid in sizes if pid not in spare], list(sizes)):
        largest = max(candidates, key=lambda pid: (sizes[pid], pid), default=None)
        if largest is not None and sizes[largest] >= large_bytes:
            return largest
    return None


def sizes_of(members: Sequence[int], protected: Collection[int]) -> dict[int, int]:
    """Bytes that each is charged with, without those that must live."""
    return {pid: proc.charged_bytes(pid) for pid in members if pid not in protected}


def identify(pid: int, memory_bytes: int) -> Victim | None:
    """None: it has ended."""
    started = started_at(pid)
    if started is None:
        return None
    return Victim(Process(pid, started), proc.command(pid), memory_bytes)


def kill(victim: Victim, belongs: Callable[[int], bool]) -> bool:
    """SIGKILL, if its id still means the process that was chosen, and that one is the sandbox's."""
    return belongs(victim.process.pid) and signal_process(victim.process, signal.SIGKILL)


def exists(process: Process) -> bool:
    """Until its memory is free."""
    return started_at(process.pid) == process.started


def is_doomed(process: Process) -> bool:
    """It has ended, or will: it was killed, by whomever."""
    return not exists(process) or proc.is_doomed(process.pid)


def lineage(pid: int, top: int) -> frozenset[int]:
    """`pid` and its ancestors up to `top`."""
    pids = {top}
    while pid > 1 and pid not in pids:
        pids.add(pid)
        times = proc.times(pid)
        if times is None:
            break
        pid = times.parent
    return frozenset(pids)
