"""Mounts in which the files of one user of the disk belong to a sandbox's own.

Why     layers are shared by sandboxes of different users. What is written through such a mount is on the disk the
        stored user's again: snapshots, changes and counts are the same whoever wrote.
When    made by root in the host's namespaces, attached over the folders themselves in the sandbox's outer mount
        namespace: each path stays what it was.
Needs   Linux 5.19, for overlays over such mounts, and a file system that has them (ext4, xfs, btrfs, ...).
"""

import os
from collections.abc import Sequence
from typing import NamedTuple

from . import child, syscalls


class IdMappedMount(NamedTuple):
    """A mount that is not attached anywhere yet."""

    fd: int
    folder: str


def idmapped_mounts(stored: int, uid: int, layers: "Sequence[str]", own: str) -> "list[IdMappedMount]":
    """Mounts of the layers, read-only, and of `own`, the sandbox's folder."""
    user_ns = _user_namespace(stored, uid)
    try:
        mounts = [IdMappedMount(syscalls.idmapped(layer, user_ns, read_only=True), layer) for layer in layers]
        return [*mounts, IdMappedMount(syscalls.idmapped(own, user_ns), own)]
    finally:
        os.close(user_ns)


def attach(mounts: "Sequence[IdMappedMount]") -> None:
    for mount in mounts:
        syscalls.move_mount(mount.fd, mount.folder)
        os.close(mount.fd)


def _user_namespace(stored: int, uid: int) -> int:
    """Descriptor of one in which `stored` stands for `uid`."""
    with child.child_after(lambda: syscalls.unshare(syscalls.CLONE_NEWUSER)) as pid:
        for name in ("uid_map", "gid_map"):
            fd = os.open(f"/proc/{pid}/{name}", os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(fd, f"{stored} {uid} 1".encode())
            finally:
                os.close(fd)
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
