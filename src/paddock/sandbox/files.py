"""Files of a sandbox, by descriptors that its keeper opens inside; and removing what a sandbox has left on the host."""

import asyncio
import os
import shutil
import stat
from pathlib import Path, PurePosixPath
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


def remove_tree(path: Path) -> None:
    """Remove a folder whatever its permissions; what can't be removed now is left for the next clean."""

    def allow(function: object, name: str, _: object) -> None:
        try:
            parent = Path(name).parent
            for one in (parent, Path(name)):
                if not one.is_symlink() and one.is_dir():
                    one.chmod(stat.S_IRWXU)
            shutil.rmtree(name) if Path(name).is_dir() and not Path(name).is_symlink() else Path(name).unlink()
        except OSError:
            return

    shutil.rmtree(path, onerror=allow)


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
