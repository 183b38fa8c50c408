"""Who owns a sandbox on this machine: one folder per provider, locked while the provider lives.

Layout  `<home>/state/<owner>/lock` held by flock (the kernel lets go of it however the owner ends), and one folder per
        sandbox: `sandbox.json` (its handle), `upper`, `work`, `merged`. An owner's id starts with its process id.
Start   a folder has a name with a dot until it is locked: one without a dot whose lock is free is a dead owner's.
"""

import contextlib
import fcntl
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from paddock.sandbox.records import SandboxHandle

UNLOCKED_S = 60.0
"""Age in seconds past which a folder, or a control group, that is still not locked is a dead owner's."""
HANDLE = "sandbox.json"


class OwnerFolder:
    """This provider's folder."""

    def __init__(self, home: Path) -> None:
        self.id = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
        state = state_folder(home)
        unlocked = state / f".{self.id}"
        self.folder = state / self.id
        for folder in (home, state, unlocked):
            folder.mkdir(parents=True, exist_ok=True)
            os.chmod(folder, 0o711)  # noqa: PTH101, S103 - the payload's uid must be able to pass
        self._lock = os.open(unlocked / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unlocked.rename(self.folder)

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)


def state_folder(home: Path) -> Path:
    return home / "state"


def owners(home: Path) -> list[Path]:
    """Folders of owners, living and dead."""
    try:
        folders = [folder for folder in state_folder(home).iterdir() if folder.is_dir()]
    except FileNotFoundError:
        return []
    return sorted(folder for folder in folders if not folder.name.startswith(".") or age_s(folder) > UNLOCKED_S)


def sandboxes(owner: Path) -> list[Path]:
    """Folders of an owner's sandboxes."""
    with contextlib.suppress(OSError):
        return sorted(folder for folder in owner.iterdir() if folder.is_dir())
    return []


def handle_of(sandbox: Path) -> SandboxHandle | None:
    """The handle that a sandbox's folder records; None: the sandbox was never complete."""
    try:
        return SandboxHandle.model_validate_json((sandbox / HANDLE).read_bytes())
    except (OSError, ValueError):
        return None


def is_alive(owner: Path) -> bool:
    with try_lock(owner) as dead:
        return not dead


@contextlib.contextmanager
def try_lock(owner: Path) -> Iterator[bool]:
    """Hold an owner's lock for the block: True where the owner is dead, False where somebody else holds it."""
    try:
        fd = os.open(owner / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield False  # another user's, or gone
        return
    with try_flock(fd) as dead:
        yield dead


@contextlib.contextmanager
def try_flock(fd: int) -> Iterator[bool]:
    """Hold the lock of an open file for the block, and close it: False where somebody else holds it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        yield False
    else:
        yield True
    finally:
        os.close(fd)


def age_s(folder: Path) -> float:
    try:
        return time.time() - folder.stat().st_mtime
    except OSError:
        return 0.0
