"""Measures what a layer takes on disk, and removes trees.

Use     allocated bytes, hard links counted once, whatever the modes; what is deleted but still held open by a process
        of the sandbox is in no folder (its blocks are freed with the sandbox).
Remove  any depth, any modes, any kind of file; nothing is followed. Folders are moved up as they are met, so no path
        is longer than two names and no more than two descriptors are open.
"""

import contextlib
import itertools
import os
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path

from paddock.sandbox.failures import SandboxError
from paddock.sandbox.layers.privileges import LayerOwner, run_as

_TIMEOUT_S = 300.0
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def disk_use(upper: Path) -> int:
    """Bytes."""
    status = upper.lstat()
    done = run_as(["du", "-sx", "-B1", "--", str(upper)], LayerOwner(status.st_uid, status.st_gid), _TIMEOUT_S)
    # Files that vanish while it looks make it end with 1; what it counted stands.
    figure = done.stdout.split(b"\t")[0]
    if not figure.isdigit():
        error_text = done.stderr.decode(errors="replace").strip()[-500:]
        raise SandboxError(f"du failed ({done.returncode}): {error_text}", kind="disk_use")
    return int(figure)


def remove_tree(path: Path) -> None:
    """Remove a folder and all in it, or whatever else is there; nothing there is no error."""
    try:
        _give_rights(os.fsencode(path))
        top = os.open(path, _FOLDER)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        path.unlink(missing_ok=True)
        return
    prefix = uuid.uuid4().hex.encode()
    try:
        fresh = (b"%s.%d" % (prefix, number) for number in itertools.count())
        pending = _empty(top, top, fresh)
        while pending:
            name = pending.pop()
            fd = os.open(name, _FOLDER, dir_fd=top)
            try:
                pending += _empty(fd, top, fresh)
            finally:
                os.close(fd)
            os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    path.rmdir()


def _empty(fd: int, top: int, fresh: Iterator[bytes]) -> list[bytes]:
    """Unlink all files of a folder and move its folders to the top; their names there."""
    here = b"/proc/self/fd/%d/" % fd
    with os.scandir(here) as entries:
        names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    moved: list[bytes] = []
    for name, is_folder in names:
        if is_folder:
            _give_rights(here + name)
            moved.append(next(fresh))
            os.rename(name, moved[-1], src_dir_fd=fd, dst_dir_fd=top)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=fd)
    return moved


def _give_rights(folder: bytes) -> None:
    """Give ourselves all rights on a folder of our own; root has them."""
    if os.geteuid() == 0:
        return
    fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if stat.S_IMODE(os.fstat(fd).st_mode) & 0o700 != 0o700:
            os.chmod(b"/proc/self/fd/%d" % fd, 0o700)  # noqa: PTH101
    finally:
        os.close(fd)
