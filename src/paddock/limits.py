"""Limits of this process on its machine: open files, processes, address space, free disk space.

Law     the soft limit of open files is raised to the hard one, which is there for that. What is then still too little
        for what was asked is refused at the start, in one line: rollouts that can't have a file or a process each fail.
Counts  are the least with which it can work at all: what is let pass may still run short, what is refused would.
Units   in the names. Standard library only: where there is little memory, this is asked before anything is imported.
"""

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

OPEN_FILES_MAX = 1 << 20
"""No more is asked for: some programs look at each number that they may use."""
_OPEN_MAX = 10_240
"""What macOS grants a process (`OPEN_MAX`) whose hard limit it calls infinite; it refuses more."""
OPEN_FILES_BASE = 32
"""Open files of a process that has nothing in flight."""
PROCESSES_BASE = 8
PROCESSES_OF_WORKER = 6
"""Processes and threads of a worker that has nothing in flight, its supervisor included."""
MEMORY_MIB = 150
"""Address space below which the imports alone do not fit."""


def raise_open_files() -> int:
    """The number of files that this process may have open from here on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        for number in (wanted, _OPEN_MAX):
            with suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, number), hard))
                return max(soft, number)
        return soft
    return OPEN_FILES_MAX if soft == resource.RLIM_INFINITY else soft


def lack_of_memory() -> str | None:
    """An error text where the address space is too small to start; None: it suffices."""
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    if soft == resource.RLIM_INFINITY or soft >= MEMORY_MIB << 20:
        return None
    return f"needs at least {MEMORY_MIB} MiB of address space, has {soft >> 20}: raise it with `ulimit -v`"


def lack_of_open_files(concurrency: int, per_rollout: int, workers: int = 1) -> str | None:
    """An error text, or None. `per_rollout`: open files of one rollout; `workers`: processes that have them."""
    share = -(-concurrency // workers)
    has, needs = raise_open_files(), OPEN_FILES_BASE + per_rollout * share
    if has >= needs:
        return None
    fits = max(0, has - OPEN_FILES_BASE) // per_rollout * workers
    lower = f", or lower --concurrency to {fits}" if fits else ""
    where = f" in each of {workers} workers" if workers > 1 else ""
    return (
        f"needs about {needs} open files{where} for concurrency {concurrency}, has {has}: raise it with `ulimit -n`"
        f"{lower}"
    )


def lack_of_processes(concurrency: int, per_rollout: int, workers: int = 1) -> str | None:
    """An error text, or None. `per_rollout`: processes of one rollout in flight; `workers`: processes that run them."""
    of_workers = PROCESSES_OF_WORKER * workers if workers > 1 else 0
    needs = PROCESSES_BASE + per_rollout * concurrency + of_workers
    soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    limits = [(most, f"{path} is {most}") for path, most in _cgroup_maxima()]
    if soft != resource.RLIM_INFINITY:
        limits.append((soft, f"`ulimit -u` is {soft}"))
    least = min(limits, default=None)
    if least is None or least[0] >= needs:
        return None
    what, lower = (f" in {workers} workers", " or --workers") if workers > 1 else ("", "")
    return (
        f"needs about {needs} processes for concurrency {concurrency}{what}: {least[1]}; raise it, or lower "
        f"--concurrency{lower}"
    )


def lack_of_disk(folder: Path, least_mib: int) -> str | None:
    """An error text, or None. `folder` need not be there yet. `least_mib` 0: any free space will do."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    disk = os.statvfs(there)
    free_mib = disk.f_bavail * disk.f_frsize >> 20
    if free_mib >= least_mib:
        return None
    return f"{folder}: {free_mib} MiB are free on its disk, and {least_mib} are to be"


def _cgroup_maxima() -> Iterator[tuple[Path, int]]:
    """`pids.max` of each cgroup that this process is in; of none where there are no cgroups."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "pids" not in controllers.split(","):
            continue
        mount = Path("/sys/fs/cgroup", "pids" if controllers else "")
        own = mount / path.lstrip("/")
        for folder in (own, *own.parents):
            if folder.is_relative_to(mount) and (most := _maximum(folder / "pids.max")) is not None:
                yield folder / "pids.max", most


def _maximum(file: Path) -> int | None:
    try:
        text = file.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None
