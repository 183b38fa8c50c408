"""Makes all runtimes' sandboxes the same: mounts beside the root file system, and leftovers in the upper layer.

Law     inside there are `/proc`, `/dev` and the image, nothing else. What the payload may write outside its upper layer
        is `/dev/shm` alone, of the size that its limits say; terminals can be opened; settings of the kernel can only
        be read. The upper layer is as empty as before the runtime started, but for `/proc` and `/dev`, where the image
        has none.
When    after joining, before the first command: nothing inside can race us. Needs rights over the mount namespace.
"""

import contextlib
import os
import re
import stat
from typing import NamedTuple

from . import masks, syscalls

_STAYS = re.compile(r"/|/proc(/.*)?|/dev|/dev/pts|/dev/(null|zero|full|random|urandom|tty|console|ptmx)")
_SETTINGS = "/proc/sys"
_SHM = "/dev/shm"  # noqa: S108 - the sandbox's own


_TERMINALS = 256
"""Of one sandbox; the machine has 3072 for all of them (`kernel.pty.max` less `kernel.pty.reserve`)."""


class LeftoverPath(NamedTuple):
    """A path that the runtime left in the upper layer."""

    path: str
    is_dir: bool


def leftover_paths(upper: str, layers: "list[str]") -> "list[LeftoverPath]":
    """Paths that the runtime made, deepest first; called before joining, where the layers can be seen."""
    leftovers = []
    for folder, folders, names in os.walk(upper, topdown=False):
        for name in names + folders:
            path = os.path.join(folder, name)
            inside = os.path.relpath(path, upper)
            if not any(os.path.lexists(os.path.join(layer, inside)) for layer in layers):
                leftovers.append(LeftoverPath("/" + inside, stat.S_ISDIR(os.lstat(path).st_mode)))
    return leftovers


def settle(shm_bytes: int, leftovers: "list[LeftoverPath]") -> None:
    for point in reversed(_mount_points()):
        if not _STAYS.fullmatch(point):
            syscalls.unmount(point)
    # Read-only: some settings below belong to namespaces, and so to the payload's user.
    syscalls.mount(_SETTINGS, _SETTINGS, "", syscalls.MS_BIND)
    flags = syscalls.MS_REMOUNT | syscalls.MS_BIND | syscalls.MS_RDONLY
    syscalls.mount("none", _SETTINGS, "", flags | syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)
    masks.mount_masks()
    os.makedirs(_SHM, exist_ok=True)
    flags = syscalls.MS_NOSUID | syscalls.MS_NODEV
    syscalls.mount("tmpfs", _SHM, "tmpfs", flags, f"size={shm_bytes},mode=1777")
    if os.path.ismount("/dev/pts"):
        flags = syscalls.MS_REMOUNT | syscalls.MS_NOSUID | syscalls.MS_NOEXEC
        syscalls.mount("none", "/dev/pts", "", flags, f"ptmxmode=0666,mode=0620,max={_TERMINALS}")
    flags = syscalls.MS_REMOUNT | syscalls.MS_BIND | syscalls.MS_RDONLY | syscalls.MS_NOSUID
    syscalls.mount("none", "/dev", "", flags)
    for leftover in leftovers:
        # Mount points that stay are busy.
        with contextlib.suppress(OSError):
            (os.rmdir if leftover.is_dir else os.unlink)(leftover.path)


def _mount_points() -> "list[str]":
    """Of this mount namespace, in the order mounted. Read by a child: a process is not in the sandbox's `/proc` unless
    it was born in its pid namespace."""
    read, write = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        try:
            with open("/proc/self/mountinfo", "rb") as file:
                data = file.read()
            while data:
                data = data[os.write(write, data) :]
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        lines = file.read().decode(errors="surrogateescape").splitlines()
    os.waitpid(child, 0)
    if not lines:
        raise OSError("the runtime has made no /proc")
    return [re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), line.split()[4]) for line in lines]
