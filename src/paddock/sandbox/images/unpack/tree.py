"""A root file system that is written entry by entry, from names that may lie. Everything lands inside, or is refused.

Paths   absolute names, `..`, empty ones and what no tool could walk (`MAX_DEPTH` and its like) are refused. Links on
        the way are followed as a container would: an absolute target starts at this root; one that climbs above the
        root is refused. The last part is never followed.
Owner   every entry is given to one user. Setuid and setgid go (they would lend that user's rights to any other); a
        folder's owner may always enter, list and write it, a file's owner read it, as root can where images are made.
Left out device nodes and sockets: a sandbox has its own. Extended attributes are not kept.
Replace an entry takes the place of what was there, hard links apart; a folder over a folder keeps its contents.
"""

import errno
import os
import shutil
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from paddock.sandbox.failures import ImageInvalid
from paddock.sandbox.images.unpack.limits import Budget, ImageLimits, full_disk, shorten

MAX_PART_BYTES = 255
"""Linux's, of one part of a path."""
MAX_PATH_BYTES = 3072
"""From the image's root: leaves room, in Linux's 4096, for the folder that the image lies in."""
MAX_DEPTH = 256
"""Folders in each other, with those that a link leads through."""
_MAX_LINKS = 40
_CHUNK = 1 << 20


class UnpackTree:
    """One tree below `root`, which only we write."""

    def __init__(
        self,
        root: Path,
        *,
        owner: int | None = None,
        stop: threading.Event | None = None,
        limits: ImageLimits | None = None,
    ) -> None:
        """`owner`: user and group id of every entry, where we may give it; None: ours. `stop` ends the work. `limits`
        of all that is written to it, None: the default ones."""
        self.root = str(root)
        self.budget = Budget(limits or ImageLimits(), self.root)
        self._stop = stop or threading.Event()
        self._owner = owner if os.geteuid() == 0 else None
        self._folders: dict[tuple[str, ...], str] = {(): self.root}
        self.left_out = 0
        """Entries that were no file, folder or link."""
        self.bytes = 0
        """Of the files written."""

    def folder(self, name: str, mode: int) -> str:
        path = self.path_of(name)
        if not _is_folder(path):
            self.remove(path)
            with _writing(name):
                os.mkdir(path)
        self._finish(path, (mode & 0o1777) | 0o700)
        return path

    def file(self, name: str, mode: int, mtime_s: float, content: BinaryIO, size: int) -> str:
        """`size`: bytes that the content says it has; more are counted as they come."""
        path = self.path_of(name)
        self.budget.reserve(size, shorten(name))
        self.remove(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with _writing(name), os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            while chunk := content.read(_CHUNK):
                file.write(chunk)
                self.bytes += len(chunk)
                self.budget.wrote(len(chunk), shorten(name))
        self._finish(path, (mode & 0o777) | 0o400)
        os.utime(path, (mtime_s, mtime_s))
        return path

    def symlink(self, name: str, target: str) -> str:
        path = self.path_of(name)
        if not target:
            raise ImageInvalid(f"{shorten(name)} is a link to nothing", kind="image_unsafe")
        self.remove(path)
        with _writing(name):
            os.symlink(target, path)
        self._own(path)
        return path

    def hardlink(self, name: str, target: str) -> str:
        """Another name for what `target` (from the root) is."""
        source, path = self.path_of(target), self.path_of(name)
        if not os.path.lexists(source) or _is_folder(source):
            raise ImageInvalid(
                f"{shorten(name)} is a hard link to {shorten(target)}, which is no file here", kind="image_unsafe"
            )
        if source != path:
            self.remove(path)
            with _writing(name):
                os.link(source, path, follow_symlinks=False)
        return path

    def fifo(self, name: str, mode: int) -> str:
        path = self.path_of(name)
        self.remove(path)
        with _writing(name):
            os.mkfifo(path, 0o600)
        self._finish(path, mode & 0o777)
        return path

    def whiteout(self, name: str) -> None:
        """Overlayfs's mark that a lower layer's entry is removed."""
        path = self.path_of(name)
        self.remove(path)
        with _writing(name):
            os.mknod(path, stat.S_IFCHR, os.makedev(0, 0))
        self._own(path)

    def path_of(self, name: str) -> str:
        """Where a name is, below the root; its folders are made where they are missing."""
        if self._stop.is_set():
            raise InterruptedError("stopped")
        *above, last = parts_of(name)
        with _writing(name):
            return f"{self._enter(tuple(above), name)}/{last}" if last else self.root

    def remove(self, path: str) -> None:
        """Remove a path of ours, whatever it is."""
        if _is_folder(path):
            self._forget()
            shutil.rmtree(path)
        elif os.path.lexists(path):
            if os.path.islink(path):
                self._forget()
            os.unlink(path)

    def _enter(self, above: tuple[str, ...], name: str) -> str:
        """The real folder that a name's folders lead to."""
        if (folder := self._folders.get(above)) is not None:
            return folder
        path, depth, links = self.root, 0, 0
        todo = list(reversed(above))
        while todo:
            part = todo.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if depth == 0:
                    raise ImageInvalid(f"{shorten(name)} leads out of the image through a link", kind="image_unsafe")
                path, depth = os.path.dirname(path), depth - 1
                continue
            here = f"{path}/{part}"
            try:
                mode = os.lstat(here).st_mode
            except FileNotFoundError:
                if depth == MAX_DEPTH:
                    raise _too_long(name, f"more than {MAX_DEPTH} folders to lead through") from None
                self.budget.entry(name)
                os.mkdir(here, 0o755)
                self._finish(here, 0o755)
                mode = stat.S_IFDIR
            if stat.S_ISLNK(mode):
                links += 1
                if links > _MAX_LINKS:
                    raise ImageInvalid(f"{shorten(name)} goes through links without end", kind="image_unsafe")
                target = os.readlink(here)
                if target.startswith("/"):
                    path, depth = self.root, 0
                todo.extend(reversed(target.split("/")))
            elif stat.S_ISDIR(mode):
                path, depth = here, depth + 1
            else:
                raise ImageInvalid(f"{shorten(name)} has a file where a folder must be", kind="image_unsafe")
        self._folders[above] = path
        return path

    def _finish(self, path: str, mode: int) -> None:
        self._own(path)
        os.chmod(path, mode)

    def _own(self, path: str) -> None:
        if self._owner is not None:
            os.chown(path, self._owner, self._owner, follow_symlinks=False)

    def _forget(self) -> None:
        """Where names lead may have changed."""
        self._folders = {(): self.root}


def parts_of(name: str) -> list[str]:
    """The parts of an entry's name; the root itself is one empty part."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name:
        raise ImageInvalid(f"{shorten(name)} is no path inside an image", kind="image_unsafe")
    encoded = os.fsencode(name)
    if len(encoded) > MAX_PATH_BYTES:
        raise _too_long(name, f"{len(encoded)} bytes, and a path may have {MAX_PATH_BYTES}")
    if len(encoded) > MAX_PART_BYTES and (longest := max(map(len, encoded.split(b"/")))) > MAX_PART_BYTES:
        raise _too_long(name, f"{longest} bytes in one part, and a part may have {MAX_PART_BYTES}")
    if len(parts) > MAX_DEPTH:
        raise _too_long(name, f"{len(parts)} parts, and a path may have {MAX_DEPTH}")
    return parts or [""]


def _too_long(name: str, why: str) -> ImageInvalid:
    return ImageInvalid(f"{shorten(name)} has {why}", kind="image_unsafe")


@contextmanager
def _writing(name: str) -> Iterator[None]:
    """What the file system refuses an entry for is the image's fault, or the disk's."""
    try:
        yield
    except OSError as error:
        match error.errno:
            case errno.ENAMETOOLONG:
                raise _too_long(name, "a path or a target that is too long for this machine's file systems") from None
            case errno.EMLINK:
                raise ImageInvalid(
                    f"{shorten(name)}: its file has as many names as this disk's file system gives one",
                    kind="image_unsafe",
                ) from None
            case errno.ENOSPC | errno.EDQUOT:
                raise full_disk(f"{shorten(name)}: {error}") from None
        raise


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False
