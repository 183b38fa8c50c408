"""What differs between an image and what a sandbox made of it, found in the upper layer.

Cost    in proportion to the upper layer, and to those image folders that it removed or replaced.
Order   by path, byte by byte per folder; a folder before what is in it.
Skipped names that the caller skips are reported (`cut`), and not entered.
Deep    folders below 200 levels or 3500 bytes of path are reported (`cut`), not entered: nothing that takes a path
        inside could reach much further, and a descriptor is held per level.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from paddock.sandbox.layers.marks import Marks, list_names
from paddock.sandbox.layers.nodes import Node, hold_open, join, look, same_content

_LEVELS = 200
_PATH_BYTES = 3500


class LayerChange(NamedTuple):
    """A path that may differ: both sides, to be looked at before the walk goes on."""

    path: bytes
    """Absolute inside the sandbox."""
    before: Node | None
    """In the image; None: it was not there."""
    after: Node | None
    """None: it was removed."""
    cut: bool = False
    """What is in it was not looked at."""

    def differs(self) -> bool:
        """In type, permission bits, content or target. Times and owners are no difference."""
        if self.before is None or self.after is None:
            return True
        before, after = self.before.stat, self.after.stat
        if before.st_mode != after.st_mode or before.st_rdev != after.st_rdev:
            return True
        if self.after.is_link:
            return self.before.target() != self.after.target()
        return self.after.is_file and not same_content(self.before, self.after)


class _WalkPosition(NamedTuple):
    """A folder on the walk."""

    path: bytes
    """`b""` for the root."""
    level: int
    upper: bytes | None
    """None: not a directory in the upper layer."""
    image: tuple[bytes, ...]
    """The image's directories, top first."""
    hidden: bool
    """The image's children show through nowhere: what the upper layer lacks is gone."""


class LayerWalk:
    """One comparison of an upper layer with the image below it."""

    def __init__(self, marks: Marks, skip: Callable[[bytes], bool] | None = None) -> None:
        """`skip`: names to pass over wherever they are."""
        self._marks = marks
        self._skip = skip or (lambda _: False)

    def run(self, upper: bytes, image: tuple[bytes, ...], under: list[bytes]) -> Iterator[LayerChange]:
        """Candidates at and below the path of components `under`."""
        root = look(upper)
        if root is None:
            raise FileNotFoundError(f"no upper layer at {upper!r}")
        with hold_open(root) as directory:
            yield from self._folder(_WalkPosition(b"", 0, directory, image, hidden=False), tuple(under))

    def _folder(self, here: _WalkPosition, rest: tuple[bytes, ...]) -> Iterator[LayerChange]:
        if rest:
            yield from self._name(here, rest[0], rest[1:])
            return
        names = set(list_names(here.upper)) if here.upper else set()
        if here.hidden:
            names |= self._marks.names(here.image)
        for name in sorted(names):
            yield from self._name(here, name, ())

    def _name(self, here: _WalkPosition, name: bytes, rest: tuple[bytes, ...]) -> Iterator[LayerChange]:
        top = look(join(here.upper, name)) if here.upper else None
        whiteout = top is not None and self._marks.whiteout(top)
        if top is None and not here.hidden:
            return
        after = None if whiteout else top
        if after is not None:
            self._marks.check(after)
        before = self._marks.find(here.image, name)
        if not before and after is None:
            return
        path = join(here.path, name)
        folder = bool(before and before[0].is_dir) or bool(after and after.is_dir)
        cut = self._skip(name) or (folder and (here.level >= _LEVELS or len(path) > _PATH_BYTES))
        if not rest:
            yield LayerChange(path, before[0] if before else None, after, cut)
        if folder and not cut:
            yield from self._below(_WalkPosition(path, here.level + 1, None, (), here.hidden), before, after, rest)

    def _below(
        self, here: _WalkPosition, before: list[Node], after: Node | None, rest: tuple[bytes, ...]
    ) -> Iterator[LayerChange]:
        image = tuple(node.where for node in before) if before and before[0].is_dir else ()
        if after is None or not after.is_dir:
            yield from self._folder(here._replace(image=image, hidden=True), rest)
            return
        hidden = here.hidden or self._marks.opaque(after)
        with contextlib.ExitStack() as stack:
            try:
                directory = stack.enter_context(hold_open(after))
            except (FileNotFoundError, NotADirectoryError):
                # It was there a moment ago: what runs in the sandbox has moved on.
                directory = None
            yield from self._folder(here._replace(upper=directory, image=image, hidden=hidden), rest)
