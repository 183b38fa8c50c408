"""Where the vLLM servers of one server write their logs.

Law     one server writes into a folder at a time: it holds the lock of a file there, which goes with its process.
        Where the config names the folder, another one that wants it is refused; else it takes the next free one, named
        after the server: `policy`, `policy.2`, ...
Errors  ConfigError `launch_folder`: it can't be made, is another user's, or is taken.
"""

import fcntl
import os
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from paddock.errors import ConfigError

LOCK = ".lock"


class LogFolder:
    """A folder for logs, locked until it is closed."""

    def __init__(self, given: Path | None, name: str, temporary: Path) -> None:
        """`given`: by the config; None: below `temporary`, the folder of all users."""
        self._lock = -1
        if given is not None:
            self.path = _make_folder(given)
            if not self._take():
                raise ConfigError(
                    f"launch.folder: {self.path}: another server writes there: set another one", kind="launch_folder"
                )
            return
        # By itself: parents that are made along the way are open to all, and other things of this user are kept there.
        home = _make_folder(temporary / f"paddock-{os.geteuid()}") / "vllm"
        for nth in count(1):
            self.path = _make_folder(home / (name if nth == 1 else f"{name}.{nth}"))
            if self._take():
                return

    def close(self) -> None:
        """Release the lock; a second time changes nothing."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _take(self) -> bool:
        try:
            lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _folder_error(self.path, error) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        self._lock = lock
        return True


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        owner = folder.stat().st_uid
    except OSError as error:
        raise _folder_error(folder, error) from error
    if owner != os.geteuid():
        raise ConfigError(f"launch.folder: {folder} is another user's: set one", kind="launch_folder")
    return folder.resolve()


def _folder_error(folder: Path, error: OSError) -> ConfigError:
    return ConfigError(f"launch.folder: {folder}: {error.strerror}", kind="launch_folder")
