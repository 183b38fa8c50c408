"""Directory trees merged as overlayfs merges them, with lookups that never leave them.

Paths   bytes, below the tree's root; a symbolic link is resolved inside the tree, `..` stops at its root, after 40
        links it is ELOOP. Errors are those of the file: FileNotFoundError, NotADirectoryError, IsADirectoryError.
Live    a tree whose top layer is being written to holds each of its directories open while it is used.
"""

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from paddock.sandbox.layers.marks import Marks
from paddock.sandbox.layers.nodes import Node, content, hold_open, look

_LINKS = 40
_PATH_BYTES = 4096


class MergedFolder(NamedTuple):
    """A merged directory on the way to a path."""

    name: bytes
    node: Node
    folders: tuple[bytes, ...]
    """Its directories, top first."""


class PathLookup(NamedTuple):
    """Where a path leads; valid within the block of `LayerTree.at`."""

    path: bytes
    """Without links, from the root; `/` for the root itself."""
    node: Node
    folders: tuple[bytes, ...]
    """Empty: it is no directory."""


class LayerTree:
    """Layers, top first."""

    def __init__(self, layers: Sequence[Path], marks: Marks, *, live: bool = False) -> None:
        self.roots = tuple(os.fsencode(layer) for layer in layers)
        self.marks = marks
        self._live = live

    @contextlib.contextmanager
    def at(self, path: bytes, *, follow: bool = True) -> Iterator[PathLookup]:
        """Look a path up; `follow`: also a link that is its last component."""
        with contextlib.ExitStack() as stack:
            yield self._resolve(path, follow, stack)

    def read(self, path: bytes, *, follow: bool = True, max_bytes: int | None = None) -> bytes:
        with self.at(path, follow=follow) as lookup:
            if lookup.folders:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fsdecode(path))
            return content(lookup.node, max_bytes)

    def names(self, path: bytes) -> list[bytes]:
        """Of a directory, sorted."""
        with self.at(path) as lookup:
            if not lookup.folders:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fsdecode(path))
            return sorted(self.marks.names(lookup.folders))

    def _resolve(self, path: bytes, follow: bool, stack: contextlib.ExitStack) -> PathLookup:
        if len(path) > _PATH_BYTES:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        todo = parts(path)[::-1]
        trail = [self._root(stack)]
        links = 0
        while todo:
            name = todo.pop()
            if name == b"..":
                del trail[max(1, len(trail) - 1) :]
                continue
            nodes = self.marks.find(trail[-1].folders, name)
            if not nodes:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fsdecode(path))
            top = nodes[0]
            if top.is_dir:
                trail.append(MergedFolder(name, top, self._enter(nodes, stack)))
            elif top.is_link and (todo or follow):
                links += 1
                if links > _LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fsdecode(path))
                target = top.target()
                if target.startswith(b"/"):
                    del trail[1:]
                todo.extend(parts(target)[::-1])
            elif todo:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fsdecode(path))
            else:
                return PathLookup(_absolute([*(folder.name for folder in trail[1:]), name]), top, ())
        return PathLookup(_absolute([folder.name for folder in trail[1:]]), trail[-1].node, trail[-1].folders)

    def _root(self, stack: contextlib.ExitStack) -> MergedFolder:
        nodes = [node for root in self.roots if (node := look(root))]
        if not nodes:
            raise FileNotFoundError(errno.ENOENT, "no layer is there", os.fsdecode(self.roots[0]))
        return MergedFolder(b"", nodes[0], self._enter(nodes, stack))

    def _enter(self, nodes: list[Node], stack: contextlib.ExitStack) -> tuple[bytes, ...]:
        if not self._live:
            return tuple(node.where for node in nodes)
        return tuple(stack.enter_context(hold_open(node)) for node in nodes)


def parts(path: bytes) -> list[bytes]:
    """The components of a path, without empty ones and `.`."""
    return [part for part in path.split(b"/") if part not in (b"", b".")]


def _absolute(names: list[bytes]) -> bytes:
    return b"/" + b"/".join(names)
