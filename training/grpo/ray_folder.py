"""Temporary folders of a run's processes, which the next run removes where a process was killed."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

_PREFIX = "paddock-ray-"
_LOCK = "driver.lock"
"""Held while its Ray is in use."""


@contextmanager
def ray_folder(home: Path) -> Iterator[Path]:
    """A folder of this process, with a short name because paths of sockets are bounded. Folders of processes that were
    killed are removed."""
    for attempts_left in home.glob(f"{_PREFIX}*"):
        pid = attempts_left.name.removeprefix(_PREFIX).partition("-")[0]
        # Process ids are used again, in containers soon: a folder with ours is not of this process.
        if pid.isdecimal() and (int(pid) == os.getpid() or not psutil.pid_exists(int(pid))):
            _remove_stale(attempts_left)
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=home))
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _remove_stale(folder: Path) -> None:
    """Remove a folder, unless it is in use by a process of that id elsewhere (in another container)."""
    with suppress(OSError):
        if folder.stat().st_uid != os.geteuid():
            return
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)
