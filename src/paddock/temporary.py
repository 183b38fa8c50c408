"""Folders in the system's temporary folder, `paddock-<uid>/<kind>/<name>`, and the locks on them.

Kinds   `turns`, of a model server each; `scratch`, of a program that a harness runs on this machine.
Law     whoever uses one holds a shared lock on it, which the kernel lets go of however the holder ends; the parent of
        an isolated server holds its turns too, over the server's restarts. What nobody holds is left by programs that
        were killed: it holds prompts and code, and the next program to start removes it.
Own     nothing is touched in a place that is not this user's alone.
Needs   the standard library only: every program asks at its start.
"""

import errno
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path


def own_root() -> Path:
    """The folder of this user's; need not be there."""
    return Path(tempfile.gettempdir()) / f"paddock-{os.geteuid()}"


def turns_root() -> Path:
    return own_root() / "turns"


def scratch_root() -> Path:
    return own_root() / "scratch"


def is_private(folder: Path) -> bool:
    """Whether it is a folder of this user alone, and no link to one."""
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


class Hold:
    """A claim on a folder."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder = folder
        self._lock = lock

    def release(self) -> None:
        """Idempotent. The last holder removes a folder without files."""
        lock, self._lock = self._lock, -1
        if lock < 0:
            return
        with suppress(OSError):  # it holds files, or somebody else holds it
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.folder.rmdir()
        os.close(lock)


def hold(folder: Path) -> Hold:
    """Hold a folder, which is made where it is not there."""
    while True:
        folder.mkdir(mode=0o700, exist_ok=True)
        if (claim := hold_existing(folder)) is not None:
            return claim


def hold_scratch() -> Hold:
    """A new folder; whoever releases it removes what is in it before. OSError: there is no private place for it."""
    for folder in (own_root(), scratch_root()):
        folder.mkdir(mode=0o700, exist_ok=True)
    if not is_private(own_root()):
        raise PermissionError(errno.EPERM, "no private folder of this user", str(own_root()))
    while True:
        if (claim := hold_existing(Path(tempfile.mkdtemp(dir=scratch_root())))) is not None:
            return claim


def hold_existing(folder: Path) -> Hold | None:
    """Hold a folder; None: it is not there."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    fcntl.flock(lock, fcntl.LOCK_SH)
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(lock), folder.stat()):
            return Hold(folder, lock)
    os.close(lock)  # its last holder has removed it meanwhile
    return None


def sweep(spared: Collection[str] = ()) -> list[str]:
    """Remove what nobody holds, but for turns of the names `spared`; the names that went. Blocks."""
    return [*_sweep(turns_root(), spared), *_sweep(scratch_root())]


def _sweep(root: Path, spared: Collection[str] = ()) -> list[str]:
    removed = []
    with suppress(OSError):  # there is nothing, or it is not ours
        if is_private(own_root()):
            removed = [folder.name for folder in root.iterdir() if folder.name not in spared and _remove_unheld(folder)]
    return removed


def _remove_unheld(folder: Path) -> bool:
    with suppress(OSError):
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)
            return True
        finally:
            os.close(lock)
    return False
