"""Opening a regular file inside, for the host to read or write by its descriptor: nothing of the image is needed.

Errors  OSError as of the file inside; EINVAL for what is no regular file (a FIFO blocks, a device may be anything).
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def open_regular(message: dict[str, Any]) -> Iterator[int]:
    """The descriptor of `message["path"]`; for writing, folders and file are made where missing, and it is emptied."""
    path: str = message["path"]
    flags = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    if message["write"]:
        os.makedirs(os.path.dirname(path) or "/", exist_ok=True)
        file = os.open(path, flags | os.O_WRONLY | os.O_CREAT, 0o644 if message["mode"] is None else message["mode"])
    else:
        file = os.open(path, flags | os.O_RDONLY)
    try:
        kind = os.fstat(file).st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, f"{path}: is a directory")
        if not stat.S_ISREG(kind):
            raise OSError(errno.EINVAL, f"{path}: is no regular file")
        if message["write"]:
            os.ftruncate(file, 0)
            if message["mode"] is not None:
                os.fchmod(file, message["mode"])
        yield file
    finally:
        os.close(file)
