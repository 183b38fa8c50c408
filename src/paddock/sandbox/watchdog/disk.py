"""Disk use of a folder that belongs to somebody we do not trust, who changes it while we look.

Counts  allocated blocks, hard links once; symbolic links are never followed, not even ones that were folders a moment
        ago. What was deleted and is still open is in no folder (see `deleted`). Depth is no hiding place: folders too
        deep for one walk are walked from themselves; more of them than can be held open makes the answer `whole=False`.
"""

import os
import stat
from typing import NamedTuple

MOST_DEPTH = 100
"""Descriptors that one walk holds."""
MOST_DEEP = 100
"""Folders at that depth that are held open for a walk of their own."""
FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class DiskUse(NamedTuple):
    bytes: int
    files: int
    """Entries of any kind, without the folder itself."""
    whole: bool
    """False: folders are nested so deep, and so many, that not all were counted."""


class _DiskWalk:
    def __init__(self, most_files: float) -> None:
        self._most_files = most_files
        self.bytes = 0
        self.files = 0
        self.whole = True
        self.deep: list[int] = []
        self._linked: set[tuple[int, int]] = set()

    @property
    def ended(self) -> bool:
        return self.files > self._most_files

    def below(self, top: int) -> None:
        """Depth first; takes `top`."""
        stack = [(top, self._folders(top))]
        try:
            while stack:
                fd, names = stack[-1]
                if not names or self.ended:
                    os.close(fd)
                    stack.pop()
                    continue
                try:
                    child = os.open(names.pop(), FLAGS, dir_fd=fd)
                except OSError:
                    continue  # it is gone, or no folder any more
                if len(stack) < MOST_DEPTH:
                    stack.append((child, self._folders(child)))
                elif len(self.deep) < MOST_DEEP:
                    self.deep.append(child)
                else:
                    os.close(child)
                    self.whole = False
        finally:
            for fd, _ in stack:
                os.close(fd)

    def _folders(self, fd: int) -> list[str]:
        folders = []
        try:
            with os.scandir(fd) as entries:
                for entry in entries:
                    if self._count(entry):
                        folders.append(entry.name)
                    if self.ended:
                        break
        except OSError:
            return folders
        return folders

    def _count(self, entry: "os.DirEntry[str]") -> bool:
        """Whether it is a folder."""
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            return False
        is_folder = stat.S_ISDIR(status.st_mode)
        self.files += 1
        if status.st_nlink > 1 and not is_folder:
            key = (status.st_dev, status.st_ino)
            if key in self._linked:
                return False
            self._linked.add(key)
        self.bytes += status.st_blocks * 512
        return is_folder


def disk_use(folder: str | os.PathLike[str], *, most_files: float = float("inf")) -> DiskUse:
    """Nothing where the folder is gone; the walk ends once it has counted more than `most_files`."""
    walk = _DiskWalk(most_files)
    try:
        walk.deep.append(os.open(folder, FLAGS))
    except OSError:
        return DiskUse(0, 0, True)
    try:
        while walk.deep and not walk.ended:
            walk.below(walk.deep.pop())
    finally:
        for fd in walk.deep:
            os.close(fd)
    return DiskUse(walk.bytes, walk.files, walk.whole)
