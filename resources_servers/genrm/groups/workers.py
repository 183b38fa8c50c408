"""Which server processes live: each holds a lock on a file of its own, and the kernel lets go of it however one ends.

Layout  `<state_dir>/workers/<id>`, locked by flock. It is made under another name and renamed when locked: a file
        whose lock is free is a dead worker's.
"""

import fcntl
import os
import uuid
from pathlib import Path


class WorkerLock:
    """This server process, as others see it."""

    def __init__(self, state_dir: Path) -> None:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)  # conversations are nobody else's business
        self._folder = state_dir / "workers"
        self._folder.mkdir(exist_ok=True)
        self.id = f"{os.getpid()}-{uuid.uuid4().hex[:12]}"
        unlocked = self._folder / f".{self.id}"
        self._lock: int | None = os.open(unlocked, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unlocked.rename(self._folder / self.id)

    def is_alive(self, worker: str) -> bool:
        """Say whether the process of that worker lives; this one does."""
        if worker == self.id:
            return True
        try:
            descriptor = os.open(self._folder / worker, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        else:
            return False
        finally:
            os.close(descriptor)

    def sweep(self) -> None:
        """Remove what dead workers left."""
        for path in self._folder.iterdir():
            if not path.name.startswith(".") and not self.is_alive(path.name):
                path.unlink(missing_ok=True)

    def close(self) -> None:
        if self._lock is not None:
            (self._folder / self.id).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None
