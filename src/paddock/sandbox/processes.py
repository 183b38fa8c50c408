"""Processes of the host, by id: who descends from whom, and killing all of them.

Law     a process is named by its id and its start time together: an id alone may have come to mean another process.
Order   a tree is stopped from the top before it is killed, so that nothing in it reacts to a part's death, or forks.
"""

import asyncio
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

KILL_TIMEOUT_S = 5.0
"""Seconds in which a tree has to be dead; a fork bomb may multiply faster than it is killed."""


class Process(NamedTuple):
    pid: int
    started: int
    """Clock ticks since boot."""


class ProcessState(NamedTuple):
    """What `/proc` says of a process, which every user may read."""

    ended: bool
    """A zombie, at least its first thread."""
    parent: int
    started: int
    """Clock ticks since boot."""
    stopped: bool
    """By a signal or a tracer."""


def state(pid: int) -> ProcessState | None:
    """None: there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except (OSError, ValueError):
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    return ProcessState(fields[0] == b"Z", int(fields[1]), int(fields[19]), fields[0] in (b"T", b"t"))


def started_at(pid: int) -> int | None:
    """Clock ticks since boot; None: there is no such process, or it is a zombie."""
    process_state = state(pid)
    return None if process_state is None or process_state.ended else process_state.started


def process_of(pid: int) -> Process | None:
    """The living process that has this id now."""
    started = started_at(pid)
    return None if started is None else Process(pid, started)


def descendants(top: Process | None) -> list[Process]:
    """Living processes below one, parents before children; None has none, nor has one that is gone."""
    living: list[Process] = []
    waiting = [] if top is None else [top]
    while waiting:
        parent = waiting.pop()
        children = _children(parent.pid)
        now = state(parent.pid)
        if now is None or now.started != parent.started:
            continue  # its id may have come to mean another, whose children those are
        for child in children:
            below = state(child)
            # An orphan goes to the nearest that adopts, most often the top.
            if top is None or below is None or below.parent not in (parent.pid, top.pid):
                continue
            process = Process(child, below.started)
            if not below.ended:
                living.append(process)
            waiting.append(process)
    return living


def signal_process(process: Process, number: int) -> bool:
    """Send a signal, if it is still that process; whether it was sent."""
    try:
        fd = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        if started_at(process.pid) != process.started:
            return False
        signal.pidfd_send_signal(fd, number)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


async def kill_tree(top: Process | None) -> bool:
    """Kill a process and all below it; False when it multiplied faster. None: a process that has ended."""
    dead = await _kill_stopped(top, ())
    if top:
        signal_process(top, signal.SIGKILL)
    return dead


async def kill_below(top: Process | None, *, spare: Collection[Process] = ()) -> bool:
    """Kill all below `top` but `spare` and its descendants, and let `top` go on. False: they multiplied faster."""
    dead = await _kill_stopped(top, spare)
    if top:
        signal_process(top, signal.SIGCONT)
    return dead


async def _kill_stopped(top: Process | None, spare: Collection[Process]) -> bool:
    deadline = time.monotonic() + KILL_TIMEOUT_S
    if top:
        signal_process(top, signal.SIGSTOP)
    stopped: set[Process] = set()
    while running := [process for process in _outside(descendants(top), spare) if process not in stopped]:
        if time.monotonic() > deadline:
            return False
        for process in running:
            signal_process(process, signal.SIGSTOP)
        stopped.update(running)
        await asyncio.sleep(0)
    while victims := _outside(descendants(top), spare):
        if time.monotonic() > deadline:
            return False
        for victim in victims:
            signal_process(victim, signal.SIGKILL)
        await asyncio.sleep(0.002)
    return True


def _outside(all_below: list[Process], spare: Collection[Process]) -> list[Process]:
    spared = {process for process in spare if process in all_below}
    for process in list(spared):
        spared.update(descendants(process))
    return [process for process in all_below if process not in spared]


def _children(pid: int) -> list[int]:
    children: list[int] = []
    try:
        tasks = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - names are all that is wanted
    except OSError:
        return children
    for task in tasks:
        try:
            children += map(int, Path(f"/proc/{pid}/task/{task}/children").read_bytes().split())
        except OSError:
            continue
    return children
