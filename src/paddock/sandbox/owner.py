"""Who owns a sandbox on this machine: one folder per provider, locked while the provider lives.

Layout  `<home>/state/<owner>/lock` held by flock (the kernel lets go of it however the owner ends), and one folder per
        sandbox: `upper`, `work`, `merged`.
Clean   folders, cgroups and containers of an owner whose lock is free are left-overs; a living owner's are not touched.
"""

import fcntl
import os
import shutil
import uuid
from pathlib import Path


class Owner:
    """This provider's folder."""

    def __init__(self, home: Path) -> None:
        self.id = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.folder = home / "state" / self.id
        for folder in (home, home / "state", self.folder):
            folder.mkdir(parents=True, exist_ok=True)
            os.chmod(folder, 0o711)  # noqa: PTH101, S103 - the payload's uid must be able to pass
        self._lock = os.open(self.folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)


def dead_owners(home: Path) -> list[Path]:
    """Folders that nobody holds any more."""
    state = home / "state"
    return [folder for folder in sorted(state.iterdir()) if _is_free(folder)] if state.exists() else []


def _is_free(folder: Path) -> bool:
    try:
        fd = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False  # being made, or another user's
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True
