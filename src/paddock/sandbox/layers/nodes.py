"""One name in one directory of one layer, and how to read it safely.

Place   `where` is a path of this machine whose last component is never followed. Above it lie only directories that
        were looked at (image layers, which nobody writes to) or one held open (`/proc/self/fd/N`): so what runs in
        the sandbox can swap any directory for a link at any time and leads nobody anywhere.
Files   are opened by a handle that reads nothing (O_PATH), checked, then reopened: no FIFO blocks, no device reacts.
Gone    what is no more what it was when it was looked at is FileNotFoundError.
Closed  where we are not root, what the payload closed to itself (mode 000) is ours to open: for that moment only.
"""

# Paths are bytes, which pathlib does not take.
# ruff: noqa: PTH101, PTH115, PTH116

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import NamedTuple


class Node(NamedTuple):
    """What a layer has at a name."""

    where: bytes
    stat: os.stat_result

    @property
    def is_dir(self) -> bool:
        return stat.S_ISDIR(self.stat.st_mode)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.stat.st_mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.stat.st_mode)

    def target(self) -> bytes:
        """Of a symbolic link."""
        try:
            return os.readlink(self.where)
        except OSError as error:
            if error.errno == errno.EINVAL:
                raise FileNotFoundError(f"not a link: {os.fsdecode(self.where)}") from None
            raise


def look(where: bytes) -> Node | None:
    """None: nothing is there."""
    try:
        return Node(where, os.lstat(where))
    except (FileNotFoundError, NotADirectoryError):
        return None


def join(folder: bytes, name: bytes) -> bytes:
    return folder + b"/" + name


@contextlib.contextmanager
def hold_open(node: Node) -> Iterator[bytes]:
    """Hold a directory open; the path that it yields leads to that directory until the end of the block."""
    fd = os.open(node.where, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    handle_path = b"/proc/self/fd/%d" % fd
    try:
        with _with_permission(handle_path, 0o500):
            yield handle_path
    finally:
        os.close(fd)


@contextlib.contextmanager
def reader(node: Node) -> Iterator[int]:
    """A descriptor to read a regular file by; FileNotFoundError when it is none any more."""
    handle = os.open(node.where, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    handle_path = b"/proc/self/fd/%d" % handle
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise FileNotFoundError(f"not a regular file: {os.fsdecode(node.where)}")
        with _with_permission(handle_path, 0o400):
            fd = os.open(handle_path, os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(handle)
    try:
        yield fd
    finally:
        os.close(fd)


def content(node: Node, max_bytes: int | None = None) -> bytes:
    """A regular file's bytes, the first `max_bytes` of them."""
    with reader(node) as fd:
        parts = []
        left = max_bytes
        while left is None or left > 0:
            part = os.read(fd, 1 << 20 if left is None else min(left, 1 << 20))
            if not part:
                break
            parts.append(part)
            left = None if left is None else left - len(part)
        return b"".join(parts)


def same_content(first_node: Node, second_node: Node) -> bool:
    """Of two regular files, read a piece at a time."""
    if first_node.stat.st_size != second_node.stat.st_size:
        return False
    with reader(first_node) as first, reader(second_node) as second:
        while True:
            piece = os.read(first, 1 << 18)
            if piece != _exactly(second, len(piece) or 1):
                return False
            if not piece:
                return True


def _exactly(fd: int, count: int) -> bytes:
    data = b""
    while len(data) < count and (part := os.read(fd, count - len(data))):
        data += part
    return data


def attribute_names(where: bytes) -> list[str]:
    """Extended attributes of a name itself; none where the file system has none."""
    try:
        return os.listxattr(where, follow_symlinks=False)
    except OSError:
        return []


def attribute(node: Node, name: str) -> bytes:
    """An extended attribute; empty where there is none (any more)."""
    try:
        return os.getxattr(node.where, name, follow_symlinks=False)
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.ENOENT):
            return b""
        if error.errno not in (errno.EACCES, errno.EPERM):
            raise
    fd = os.open(node.where, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        handle_path = b"/proc/self/fd/%d" % fd
        with _with_permission(handle_path, 0o400):
            return os.getxattr(handle_path, name)
    finally:
        os.close(fd)


@contextlib.contextmanager
def _with_permission(handle_path: bytes, bits: int) -> Iterator[None]:
    """Our own file or directory with `bits` of permission for the block; root needs none."""
    now = os.stat(handle_path)
    mode = stat.S_IMODE(now.st_mode)
    if os.geteuid() == 0 or now.st_uid != os.geteuid() or mode & bits == bits:
        yield
        return
    os.chmod(handle_path, mode | bits)
    try:
        yield
    finally:
        os.chmod(handle_path, mode)
