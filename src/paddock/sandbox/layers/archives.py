"""An archive of some paths of a sandbox, made from its layers by the host alone: nothing of the sandbox runs.

Form    a gzipped tar (ustar with pax headers): names are absolute paths without the first slash, owners are root, times
        are 0, so equal trees give equal bytes. Files, folders and symbolic links; a hard link is a file of its own.
Asked   links above a path are followed as in the sandbox; a path that is itself a link travels as one. One that is not
        there, or beyond links in a circle, is `missing`. FIFOs, sockets and devices, what lies too deep
        (`LEVELS`, `PATH_BYTES`), and what changes while it is read, are left out and counted.
Bound   contents and names; an archive that would hold more is not made.
"""

import errno
import gzip
import io
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from paddock.sandbox.layers.nodes import content
from paddock.sandbox.layers.tree import LayerTree
from paddock.sandbox.layers.view import View, readable
from paddock.sandbox.records import BytesRecord

ENTRY_BYTES = 512
"""What a path counts beside its name and content: a header of the tar."""
LEVELS = 200
"""Folders below those that are deeper are left out."""
PATH_BYTES = 3500
"""What is in folders of a longer path is left out: a program can't name it at once."""


class Archive(BytesRecord):
    """What was asked for, as far as it is there."""

    data: bytes
    """Empty: it would hold too much."""
    missing: list[str] = []
    """Paths that were asked for and are not there."""
    left_out: int = 0
    """Number of special files and unsteady ones."""
    too_large: bool = False
    """The bound was met: there is no data."""


class _TooLargeError(Exception):
    """The bound is met."""


class _TreeEntry(NamedTuple):
    path: bytes
    level: int


class _Writer:
    """Writes entries until the bound is met."""

    def __init__(self, tree: LayerTree, excluded: Callable[[bytes], bool], max_bytes: int) -> None:
        self.left_out = 0
        self._tree = tree
        self._excluded = excluded
        self._left = max_bytes
        self._written: set[bytes] = set()
        self._buffer = io.BytesIO()
        self._gzip = gzip.GzipFile(fileobj=self._buffer, mode="wb", mtime=0)
        self._tar = tarfile.open(fileobj=self._gzip, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115 - see `close`

    def add(self, start: bytes) -> None:
        """Add a path and all below it. FileNotFoundError, NotADirectoryError, ELOOP: it is not there."""
        with self._tree.at(start, follow=False):
            pass
        todo = [_TreeEntry(start, 0)]
        while todo:
            entry = todo.pop()
            if entry.path in self._written or (entry.level and self._excluded(entry.path)):
                continue
            self._written.add(entry.path)
            try:
                names = self._add_entry(entry.path)
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                    raise
                self.left_out += 1
                continue
            if entry.level >= LEVELS or len(entry.path) > PATH_BYTES:
                self.left_out += len(names)
                continue
            below = entry.path.rstrip(b"/")
            todo += [_TreeEntry(below + b"/" + name, entry.level + 1) for name in reversed(names)]

    def close(self) -> bytes:
        self._tar.close()
        self._gzip.close()
        return self._buffer.getvalue()

    def _add_entry(self, path: bytes) -> Sequence[bytes]:
        """Write one entry; returns the names in it."""
        with self._tree.at(path, follow=False) as lookup:
            status = lookup.node.stat
            info = tarfile.TarInfo(path.lstrip(b"/").decode("utf-8", "surrogateescape"))
            info.mode = stat.S_IMODE(status.st_mode)
            if lookup.folders:
                self._take(len(path))
                info.type = tarfile.DIRTYPE
                if info.name:
                    self._tar.addfile(info)
                return sorted(self._tree.marks.names(lookup.folders))
            if lookup.node.is_link:
                target = lookup.node.target()
                self._take(len(path) + len(target))
                info.type, info.linkname = tarfile.SYMTYPE, target.decode("utf-8", "surrogateescape")
                self._tar.addfile(info)
            elif lookup.node.is_file:
                self._take(len(path) + status.st_size)
                data = content(lookup.node, status.st_size)
                info.size = len(data)
                self._tar.addfile(info, io.BytesIO(data))
            else:
                self.left_out += 1
            return ()

    def _take(self, n_bytes: int) -> None:
        self._left -= n_bytes + ENTRY_BYTES
        if self._left < 0:
            raise _TooLargeError


def archive(view: View, paths: Sequence[str], *, exclude: Sequence[str] = (), max_bytes: int) -> Archive:
    """Make the archive of absolute `paths`. `exclude`: shell patterns of what stays behind below them."""
    writer = _Writer(view.merged, lambda path: _matches(path, exclude), max_bytes)
    missing = []
    try:
        for path in _each_once(paths):
            try:
                writer.add(path)
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                    raise
                missing.append(readable(path))
    except _TooLargeError:
        return Archive(data=b"", missing=missing, left_out=writer.left_out, too_large=True)
    finally:
        data = writer.close()
    return Archive(data=data, missing=missing, left_out=writer.left_out)


def _each_once(paths: Iterable[str]) -> Iterator[bytes]:
    yield from dict.fromkeys(b"/" + path.strip("/").encode("utf-8", "surrogateescape") for path in paths)


def _matches(path: bytes, patterns: Sequence[str]) -> bool:
    text = path.decode("utf-8", "surrogateescape")
    name = text.rpartition("/")[2]
    return any(fnmatchcase(text if "/" in pattern else name, pattern) for pattern in patterns)
