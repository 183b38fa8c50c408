"""Which sandbox a pid namespace belongs to: the namespace it was watched with, or any below that.

Law     an inode names a namespace only as long as the namespace lives: an inode that is remembered is held open, and
        one that can't be held is asked for anew each time.
Reads   NS_GET_PARENT of the namespace, as often as it takes; it needs no privilege over a namespace that our user made.
"""

import contextlib
import fcntl
import os
from collections.abc import Collection
from typing import NamedTuple

NS_GET_PARENT = 0xB702
MOST_HELD = 256
"""Namespaces that are neither a sandbox's own nor held belong to whoever made very many."""
DEEPEST = 33
"""The kernel allows 32 levels."""


class _NamespaceFd(NamedTuple):
    fd: int
    root: int
    """Inode of the watched namespace above it; 0: none."""


class Namespaces:
    """Watched namespaces and those below them."""

    def __init__(self) -> None:
        self._roots: dict[int, int] = {}
        self._below: dict[int, _NamespaceFd] = {}

    def add(self, pid: int) -> int | None:
        """Watch the namespace that `pid` is in: its inode; None where it can't be read."""
        try:
            fd = _open(pid)
        except OSError:
            return None
        inode = os.fstat(fd).st_ino
        if inode in self._roots:
            os.close(fd)
        else:
            self._roots[inode] = fd
            self._forget_all()
        return inode

    def remove(self, inode: int) -> None:
        fd = self._roots.pop(inode, None)
        if fd is not None:
            os.close(fd)
            self._forget_all()

    def root_of(self, inode: int, pid: int) -> int:
        """The watched namespace at or above that one, which `pid` is in; 0: none."""
        if inode in self._roots:
            return inode
        if inode in self._below:
            return self._below[inode].root
        try:
            fd = _open(pid)
        except OSError:
            return 0
        if os.fstat(fd).st_ino != inode:
            os.close(fd)
            return 0  # another process has that id by now
        root = self._climb(fd)
        if len(self._below) < MOST_HELD:
            self._below[inode] = _NamespaceFd(fd, root)
        else:
            os.close(fd)
        return root

    def keep_only(self, inodes: Collection[int]) -> None:
        """Let go of namespaces without processes."""
        for inode in [inode for inode in self._below if inode not in inodes]:
            os.close(self._below.pop(inode).fd)

    def close(self) -> None:
        self._forget_all()
        for fd in self._roots.values():
            os.close(fd)
        self._roots.clear()

    def _climb(self, start: int) -> int:
        fd = os.dup(start)
        try:
            for _ in range(DEEPEST):
                inode = os.fstat(fd).st_ino
                if inode in self._roots:
                    return inode
                above = fcntl.ioctl(fd, NS_GET_PARENT)
                os.close(fd)
                fd = above
        except OSError:
            return 0  # above it there is only what we may not see
        finally:
            with contextlib.suppress(OSError):
                os.close(fd)
        return 0

    def _forget_all(self) -> None:
        self.keep_only(())


def _open(pid: int) -> int:
    return os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
