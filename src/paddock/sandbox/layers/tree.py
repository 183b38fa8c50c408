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
from paddock.sandbox.layers.nodes import Node, content, entered, look

_LINKS = 40
_PATH_BYTES = 4096


class Folder(NamedTuple):
    """A merged directory on the way to a path."""

    name: bytes
    node: Node
    folders: tuple[bytes, ...]
    """Its directories, top first."""


class Found(NamedTuple):
    """Where a path leads; valid while the lookup's block lasts."""

    path: bytes
    """Without links, from the root; `/` for the root itself."""
    node: Node
    folders: tuple[bytes, ...]
    """Empty: it is no directory."""


class Tree:
    """Layers, top first."""

    def __init__(self, layers: Sequence[Path], marks: Marks, *, live: bool = False) -> None:
        self.roots = tuple(os.fsencode(layer) for layer in layers)
        self.marks = marks
        self._live = live

    @contextlib.contextmanager
    def at(self, path: bytes, *, follow: bool = True) -> Iterator[Found]:
        """Look a path up; `follow`: also a link that is its last component."""
        with contextlib.ExitStack() as held:
            yield self._resolve(path, follow, held)

    def read(self, path: bytes, *, follow: bool = True, max_bytes: int | None = None) -> bytes:
        with self.at(path, follow=follow) as found:
            if found.folders:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fsdecode(path))
            return content(found.node, max_bytes)

    def names(self, path: bytes) -> list[bytes]:
        """Of a directory, sorted."""
        with self.at(path) as found:
            if not found.folders:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fsdecode(path))
            return sorted(self.marks.names(found.folders))

    def _resolve(self, path: bytes, follow: bool, held: contextlib.ExitStack) -> Found:
        if len(path) > _PATH_BYTES:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        todo = parts(path)[::-1]
        way = [self._root(held)]
        links = 0
        while todo:
            name = todo.pop()
            if name == b"..":
                del way[max(1, len(way) - 1) :]
                continue
            nodes = self.marks.find(way[-1].folders, name)
            if not nodes:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fsdecode(path))
            top = nodes[0]
            if top.is_dir:
                way.append(Folder(name, top, self._enter(nodes, held)))
            elif top.is_link and (todo or follow):
                links += 1
                if links > _LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fsdecode(path))
                target = top.target()
                if target.startswith(b"/"):
                    del way[1:]
                todo.extend(parts(target)[::-1])
            elif todo:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fsdecode(path))
            else:
                return Found(_spelled([*(folder.name for folder in way[1:]), name]), top, ())
        return Found(_spelled([folder.name for folder in way[1:]]), way[-1].node, way[-1].folders)

    def _root(self, held: contextlib.ExitStack) -> Folder:
        nodes = [node for root in self.roots if (node := look(root))]
        if not nodes:
            raise FileNotFoundError(errno.ENOENT, "no layer is there", os.fsdecode(self.roots[0]))
        return Folder(b"", nodes[0], self._enter(nodes, held))

    def _enter(self, nodes: list[Node], held: contextlib.ExitStack) -> tuple[bytes, ...]:
        if not self._live:
            return tuple(node.where for node in nodes)
        return tuple(held.enter_context(entered(node)) for node in nodes)


def parts(path: bytes) -> list[bytes]:
    """The components that say something."""
    return [part for part in path.split(b"/") if part not in (b"", b".")]


def _spelled(names: list[bytes]) -> bytes:
    return b"/" + b"/".join(names)
