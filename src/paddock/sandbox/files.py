"""Files of a sandbox, by descriptors that its keeper opens inside."""

import asyncio
import os
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from paddock.sandbox.failures import SandboxRequestError

if TYPE_CHECKING:
    from paddock.sandbox.box import Box


async def read(box: "Box", path: str, max_bytes: int | None = None) -> bytes:
    """The file's bytes, at most `max_bytes` of them."""
    fd = await box.link.open(_absolute(box, path), write=False)
    return await asyncio.to_thread(_read_all, fd, max_bytes)


async def write(box: "Box", path: str, data: bytes, mode: int | None = None) -> None:
    """Replace the file's bytes."""
    fd = await box.link.open(_absolute(box, path), write=True, mode=mode)
    await asyncio.to_thread(_write_all, fd, data)


def _absolute(box: "Box", path: str) -> str:
    if "\0" in path:
        raise SandboxRequestError("a path can't hold a NUL byte", kind="path_invalid")
    return str(PurePosixPath(box.handle.spec.workdir) / path)


def _read_all(fd: int, max_bytes: int | None) -> bytes:
    with os.fdopen(fd, "rb") as file:
        return file.read(-1 if max_bytes is None else max_bytes)


def _write_all(fd: int, data: bytes) -> None:
    with os.fdopen(fd, "wb") as file:
        file.write(data)
