"""Folders of programs that a sandbox sees read-only below `/opt/paddock`.

How     each is an overlay without an upper layer, over the folder and an empty one: nothing can be written to it, pages
        are shared by all sandboxes, and its entry among the mounts names no folder of the host but its own.
When    made before joining, where the host's folders can be seen; attached after, when the runtime's own mounts are
        gone.
"""

import contextlib
import os
from typing import NamedTuple

from . import syscalls

MOUNT_ROOT = "/opt/paddock"
EMPTY = ".empty"
"""An empty folder beside the programs'."""


class ProgramMount(NamedTuple):
    """A mount that is not attached anywhere yet."""

    fd: int
    name: str


def detached_mounts(folders: "list[str]") -> "list[ProgramMount]":
    """Mounts of folders of the host, each beside one called `EMPTY`."""
    here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        mounts = []
        for folder in folders:
            # Relative: the options can be read inside.
            parent, name = os.path.split(folder)
            os.chdir(parent)
            mounts.append(ProgramMount(syscalls.read_only_overlay(f"{name}:{EMPTY}"), name))
        return mounts
    finally:
        os.fchdir(here)
        os.close(here)


def attach(mounts: "list[ProgramMount]", uid: "int | None" = None) -> None:
    """Attach the mounts. `uid`: owner of the mount points; None: this process's."""
    for mount in mounts:
        path = ""
        for part in f"{MOUNT_ROOT}/{mount.name}".strip("/").split("/"):
            path = f"{path}/{part}"
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o755)
                if uid is not None:
                    os.chown(path, uid, uid)
        syscalls.move_mount(mount.fd, path)
        os.close(mount.fd)
