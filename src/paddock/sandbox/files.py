"""Files of a sandbox, by descriptors that its keeper opens inside.

Errors  OSError as of the file, the policy's business. SandboxError `disk_failed` for what only the host's disk can
        refuse: it is full, over its quota or broken; a sandbox over its own limit is killed (`BudgetExceeded`).
        Its `/dev/shm` has a size of its own, and a link may lead there: where the host's disk has room, whose doing
        that was is in doubt.
"""

import asyncio
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TypeVar

from paddock.sandbox.failures import SandboxError, SandboxRequestError

if TYPE_CHECKING:
    from paddock.sandbox.sandbox import Sandbox

T = TypeVar("T")
_OF_THE_HOST = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
_SHM = PurePosixPath("/dev/shm")  # noqa: S108 - a place inside of sandboxes
ROOM_BYTES, ROOM_FILES = 64 << 20, 1000
"""A disk with so much left is not full."""
READ_BYTES = 256 << 20
"""The most that is read of a file where the caller gives no bound."""


async def read(sandbox: "Sandbox", path: str, max_bytes: int | None = None) -> bytes:
    """The file's bytes, at most `max_bytes` of them; None: OSError EFBIG of a file with more than `READ_BYTES`."""
    path_inside = _absolute(sandbox, path)
    with _attributed(sandbox, path_inside):
        fd = await sandbox.keeper.open(path_inside, write=False)
        return await _in_thread(fd, lambda own: _read_all(own, max_bytes))


async def write(sandbox: "Sandbox", path: str, data: bytes, mode: int | None = None) -> None:
    """Replace the file's bytes."""
    path_inside = _absolute(sandbox, path)
    with _attributed(sandbox, path_inside):
        fd = await sandbox.keeper.open(path_inside, write=True, mode=mode)
        await _in_thread(fd, lambda own: _write_all(own, data))


async def _in_thread(fd: int, act: Callable[[int], T]) -> T:
    """Call `act` with a descriptor, which it then owns, in a thread; where it never starts, close the descriptor."""
    unowned = [fd]
    try:
        return await asyncio.to_thread(lambda: act(unowned.pop()))
    finally:
        with suppress(IndexError):
            os.close(unowned.pop())


@contextmanager
def _attributed(sandbox: "Sandbox", path_inside: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in _OF_THE_HOST or _SHM in PurePosixPath(path_inside).parents:
            raise
        doubtful = error.errno == errno.ENOSPC and _has_room(sandbox)
        message = f"{path_inside}: the host's disk: {error.strerror}"
        raise SandboxError(message, kind="disk_failed", doubtful=doubtful) from error


def _has_room(sandbox: "Sandbox") -> bool:
    disk = os.statvfs(sandbox.folder.upper)
    return disk.f_bavail * disk.f_frsize >= ROOM_BYTES and (disk.f_favail >= ROOM_FILES or not disk.f_files)


def _absolute(sandbox: "Sandbox", path: str) -> str:
    if "\0" in path:
        raise SandboxRequestError("a path can't hold a NUL byte", kind="path_invalid")
    return str(PurePosixPath(sandbox.handle.spec.workdir) / path)


def _read_all(fd: int, max_bytes: int | None) -> bytes:
    with os.fdopen(fd, "rb") as file:
        data = file.read(READ_BYTES + 1 if max_bytes is None else max_bytes)
    if max_bytes is None and len(data) > READ_BYTES:
        raise OSError(errno.EFBIG, f"a file of more than {READ_BYTES >> 20} MiB: give max_bytes to read its start")
    return data


def _write_all(fd: int, data: bytes) -> None:
    with os.fdopen(fd, "wb") as file:
        file.write(data)
