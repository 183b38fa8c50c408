"""All operations on a cgroup tree, in one class that tests replace; the rest of this package only decides.

Reading goes through descriptors that stay open (a look at 64 groups is 64 `pread`s); a group that was removed answers
OSError, ENODEV.
"""

import os
import subprocess
from pathlib import Path

READ_BYTES = 1 << 16


class CgroupKernel:
    """The operations on the real file system."""

    def mkdir(self, folder: Path) -> None:
        folder.mkdir(mode=0o755)

    def rmdir(self, folder: Path) -> None:
        folder.rmdir()

    def write(self, file: Path, text: str) -> None:
        fd = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)

    def enter(self, procs_file: Path) -> None:
        """A process that ends at once moves itself there; OSError where it may not."""
        argv = ["/bin/sh", "-c", 'echo 0 > "$1"', "sh", str(procs_file)]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False)
        if done.returncode:
            raise PermissionError(f"no process may enter {procs_file}: {done.stderr.decode(errors='replace').strip()}")


class RereadFile:
    """A file that is read again and again by one descriptor."""

    __slots__ = ("_fd", "_path")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def read(self) -> bytes:
        if self._fd < 0:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        return os.pread(self._fd, READ_BYTES, 0)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def read_text(file: Path) -> str:
    """A small file's text; empty where there is none or we may not."""
    try:
        return file.read_text()
    except OSError:
        return ""


def field(table: bytes, name: bytes) -> int:
    """A number of a `name value` table; 0 where it has no such line."""
    start = 0 if table.startswith(name + b" ") else table.find(b"\n" + name + b" ") + 1
    if start == 0 and not table.startswith(name + b" "):
        return 0
    start += len(name) + 1
    end = table.find(b"\n", start)
    return int(table[start : end if end >= 0 else len(table)])
