"""A folder of this machine as an image's tree: copied, or taken over where it lies.

Copied  files, folders, links and hard links, times of files; never through a link, never out of the folder.
Adopted what other tools have unpacked gets the owner and the modes of `tree`; nodes and sockets go.
"""

import os
import stat
from pathlib import Path

from paddock.sandbox.images.unpack.tree import UnpackTree


def copy_folder(source: Path, tree: UnpackTree) -> None:
    """Copy everything below `source` into a tree."""
    names: dict[tuple[int, int], str] = {}
    """The first name of a file that has several, by device and inode."""
    todo = [""]
    while todo:
        below = todo.pop()
        with os.scandir(source / below) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                name = f"{below}/{entry.name}" if below else entry.name
                tree.budget.entry(name)
                if entry.is_dir(follow_symlinks=False):
                    tree.folder(name, entry.stat(follow_symlinks=False).st_mode)
                    todo.append(name)
                else:
                    _copy_entry(entry, name, tree, names)


def _copy_entry(entry: os.DirEntry[str], name: str, tree: UnpackTree, names: dict[tuple[int, int], str]) -> None:
    info = entry.stat(follow_symlinks=False)
    if stat.S_ISLNK(info.st_mode):
        tree.symlink(name, os.readlink(entry.path))
        return
    if stat.S_ISFIFO(info.st_mode):
        tree.fifo(name, info.st_mode)
        return
    if not stat.S_ISREG(info.st_mode):
        tree.left_out += 1
        return
    key = (info.st_dev, info.st_ino)
    if info.st_nlink > 1 and key in names:
        tree.hardlink(name, names[key])
        return
    names[key] = name
    with os.fdopen(os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as content:
        tree.file(name, info.st_mode, info.st_mtime, content, info.st_size)


def adopt(root: Path, *, owner: int | None) -> int:
    """Give a tree its owner and modes; returns how many entries were removed."""
    owner = owner if os.geteuid() == 0 else None
    removed = 0
    for folder, folders, files in os.walk(root):
        for path in (folder, *(f"{folder}/{name}" for name in [*folders, *files])):
            mode = os.lstat(path).st_mode
            if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISFIFO(mode)):
                os.unlink(path)
                removed += 1
                continue
            if owner is not None:
                os.chown(path, owner, owner, follow_symlinks=False)
            if not stat.S_ISLNK(mode):
                os.chmod(path, (mode & 0o1777) | 0o700 if stat.S_ISDIR(mode) else (mode & 0o777) | 0o400)
    return removed
