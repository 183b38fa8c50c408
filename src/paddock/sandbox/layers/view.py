"""A sandbox's file system as its layers say it: the image, the merged whole, and what differs between them.

Paths   in: str as the sandbox knows them (undecodable bytes as surrogates) or bytes; out, in records: undecodable bytes
        as `\\xNN`, so that they can cross a wire.
Image   the layers below the upper one, never written to while a view is used; the upper one may be.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from paddock.sandbox.failures import BudgetExceeded
from paddock.sandbox.layers.marks import Attributes, Marks
from paddock.sandbox.layers.nodes import Node
from paddock.sandbox.layers.tree import LayerTree, parts
from paddock.sandbox.layers.walk import LayerChange, LayerWalk
from paddock.sandbox.records import PathChange

MOST_NAME_BYTES = 128 << 20
"""Of all paths in one list: several times what half a million files of a source tree have."""


class View:
    """Reads layers; holds nothing between calls."""

    def __init__(self, layers: Sequence[Path], upper: Path, *, attributes: Attributes = "user") -> None:
        """`layers`: the image's, lowest first. `attributes`: where the overlay keeps its marks."""
        self._marks = Marks(attributes)
        self.upper = upper
        self.image = LayerTree(list(reversed(layers)), self._marks)
        """Without the upper layer."""
        self.merged = LayerTree([upper, *reversed(layers)], self._marks, live=True)
        """As the sandbox sees it, mounts aside."""

    def read(self, path: str | bytes, *, max_bytes: int | None = None) -> bytes:
        """A file's bytes; links are followed inside the tree."""
        return self.merged.read(os.fsencode(path), max_bytes=max_bytes)

    def names(self, path: str | bytes) -> list[bytes]:
        """Of a directory, sorted."""
        return self.merged.names(os.fsencode(path))

    def stat(self, path: str | bytes, *, follow: bool = True) -> os.stat_result:
        with self.merged.at(os.fsencode(path), follow=follow) as lookup:
            return lookup.node.stat

    def candidates(
        self, under: str | bytes = "/", *, skip: Callable[[bytes], bool] | None = None
    ) -> Iterator[LayerChange]:
        """Paths that may differ at and below `under` (its links as the image has them), each good until the next."""
        yield from LayerWalk(self._marks, skip).run(
            os.fsencode(self.upper), self.image.roots, parts(self.resolve(under))
        )

    def resolve(self, path: str | bytes) -> bytes:
        """A path without links, as the image resolves them; one that is not in the image is only normalized."""
        encoded = os.fsencode(path)
        try:
            with self.image.at(encoded) as lookup:
                return lookup.path
        except OSError:
            return os.path.normpath(b"/" + encoded.lstrip(b"/"))

    def changes(self, under: str = "/", *, most_bytes: int = MOST_NAME_BYTES) -> list[PathChange]:
        """What differs from the image at and below `under`, sorted; contents are compared.

        BudgetExceeded where the paths are more than `most_bytes`: only a sandbox that means harm makes such names.
        """
        records = []
        for change in self.candidates(under):
            if not _differs(change):
                continue
            most_bytes -= len(change.path)
            if most_bytes < 0:
                raise BudgetExceeded("disk", f"the paths that it changed below {under} are too long to be listed")
            records.append(_record(change))
        return sorted(records, key=lambda change: change.path)


def _differs(change: LayerChange) -> bool:
    try:
        return change.differs()
    except FileNotFoundError:
        # Gone between two looks at it: it differs.
        return True


def _record(change: LayerChange) -> PathChange:
    node = change.after or change.before
    assert node is not None
    kind: Literal["added", "changed", "removed"] = "changed"
    if change.after is None:
        kind = "removed"
    elif change.before is None:
        kind = "added"
    return PathChange(
        path=readable(change.path),
        kind=kind,
        type=_type(node),
        size_bytes=node.stat.st_size if node.is_file and change.after else 0,
    )


def _type(node: Node) -> Literal["file", "directory", "symlink", "other"]:
    if node.is_file:
        return "file"
    if node.is_dir:
        return "directory"
    return "symlink" if node.is_link else "other"


def readable(path: bytes) -> str:
    """A path as records hold it."""
    return path.decode("utf-8", "backslashreplace")
