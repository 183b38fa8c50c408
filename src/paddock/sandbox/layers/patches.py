"""A git patch of what a sandbox changed in a repository, made from its layers by the host's git alone.

Sides   `a/` is the image's file, `b/` the sandbox's, byte for byte as they lie there: no filter, attribute or
        configuration of either repository is looked at, so line ends and encodings pass untouched. Commits, resets and
        the loss of `.git` in the sandbox change nothing.
Form    `--binary --full-index --no-renames`; modes 100644, 100755, 120000. Applied to the image's tree it gives the
        sandbox's, except for what is left out. Text over half a MiB is carried as binary.
Omitted `.git` at any depth; litter (`litter`); and, listed in `left_out`: what git can't carry, and what is too large.
        A file too large for a side keeps the image's content; a special file in the place of a file removes it. What
        can't be where something is thus kept (a file where a folder was) is left out too: the rest must apply.
Nested  repositories are folders like any other, submodules too: their files are compared, their `.git` is not.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from paddock.sandbox.layers.litter import LitterRules
from paddock.sandbox.layers.nodes import Node, content
from paddock.sandbox.layers.repository import Entry, Importer, private_repository
from paddock.sandbox.layers.view import View, readable
from paddock.sandbox.layers.walk import LayerChange
from paddock.sandbox.records import BytesRecord
from paddock.types import Record

Reason = Literal["file_too_large", "patch_too_large", "special", "name", "too_deep", "unsteady", "in_the_way"]


MOST_NAMED = 1000
"""Paths that a patch lacks, listed by name."""


class PatchLimits(Record):
    """What a patch may hold."""

    file_mib: float = Field(default=16.0, gt=0)
    """One file, on either side."""
    total_mib: float = Field(default=64.0, gt=0)
    """All files of the sandbox's side, in the order of their paths, before compression."""
    files: int = Field(default=50_000, ge=1)
    """Paths, litter aside, in the same order."""
    names_mib: float = Field(default=64.0, gt=0)
    """All changed paths, litter too: what comes after is not looked at."""


class OmittedPath(Record):
    """A changed path that the patch lacks although it is no litter."""

    path: str
    """Below the repository's root; undecodable bytes as `\\xNN`."""
    reason: Reason
    """`special`: FIFO, socket or device; `name`: git takes no such name; `unsteady`: it changed while it was read;
    `in_the_way`: something that is left out stays where it would have to be."""
    size_bytes: int = 0


class Patch(BytesRecord):
    """What a sandbox changed."""

    data: bytes
    """Empty: nothing."""
    left_out: list[OmittedPath] = []
    """The first `MOST_NAMED`."""
    left_out_more: int = 0
    """Further ones."""
    litter_files: int = 0
    """Changed files that were left out as litter."""


def patch(
    view: View,
    root: str,
    exclude: Sequence[str] = (),
    *,
    scratch: Path,
    limits: PatchLimits | None = None,
) -> Patch:
    """Make the patch of the repository at `root`. `exclude`: gitignore patterns for files that the image's git does not
    track. `scratch`: a folder for a private repository of about the patch's size, which is removed at the end; where
    this process is killed meanwhile, whoever removes that folder removes it."""
    limits = limits or PatchLimits()
    root_path = view.resolve(root)
    with private_repository(scratch) as repository:
        paths, whole = _paths(view, root_path, limits)
        litter = LitterRules(view.image, root_path, repository).litter(paths, exclude)
        with repository.importer() as importer:
            trees = _PatchTrees(importer, limits)
            for change in view.candidates(root_path, skip=_is_git):
                below = _below(root_path, change)
                if below in litter:
                    trees.keep_image(below, change)
                elif below in paths or (below and (change.cut or _is_folder_alone(change))):
                    trees.add(below, change)
                elif below and not whole:
                    trees.leave(below, "patch_too_large", change)
            trees.settle()
            importer.tree(b"before", trees.before)
            importer.tree(b"after", trees.after)
        more = trees.left_out_more
        return Patch(data=repository.diff(), left_out=trees.left_out, left_out_more=more, litter_files=len(litter))


class _ChangedPaths(NamedTuple):
    """Paths that changed below the repository's root."""

    paths: set[bytes]
    whole: bool
    """False: there are more, and their names are too much to hold."""


def _paths(view: View, root_path: bytes, limits: PatchLimits) -> _ChangedPaths:
    paths: set[bytes] = set()
    room = limits.names_mib * 2**20
    for change in view.candidates(root_path, skip=_is_git):
        below = _below(root_path, change)
        if not below or change.cut or _is_folder_alone(change):
            continue
        room -= len(below)
        if room < 0:
            return _ChangedPaths(paths, False)
        paths.add(below)
    return _ChangedPaths(paths, True)


class _GitBlob(NamedTuple):
    mode: bytes
    data: bytes


class _PatchTrees:
    """The image's tree and the sandbox's, as far as they differ."""

    def __init__(self, importer: Importer, limits: PatchLimits) -> None:
        self._importer = importer
        self._file_bytes = int(limits.file_mib * 2**20)
        self._left_bytes = int(limits.total_mib * 2**20)
        self.before: list[Entry] = []
        self.after: list[Entry] = []
        self._left_files = limits.files
        self.left_out: list[OmittedPath] = []
        self.left_out_more = 0
        self._paths: set[bytes] = set()
        self._removed_folders: set[bytes] = set()
        """Folders."""

    def keep_image(self, path: bytes, change: LayerChange) -> None:
        """What the image has here stays."""
        if change.before is not None and (change.cut or not change.before.is_dir):
            self._paths.add(path)

    def settle(self) -> None:
        """Leave out what would need the place of something that stays, as a file its folder or the reverse.

        Git removes folders with the last file in them: one that had none stays too.
        """
        emptied = {folder for path, _, _ in self.before for folder in _folders(path)}
        above = {folder for path in self._paths | (self._removed_folders - emptied) for folder in _folders(path)}
        blocked = {path for path, _, _ in self.after if path in above or not self._paths.isdisjoint(_folders(path))}
        self.after = [entry for entry in self.after if entry[0] not in blocked]
        for path in sorted(blocked):
            self._omit(path, "in_the_way")

    def add(self, path: bytes, change: LayerChange) -> None:
        if change.cut and _is_git(path.rpartition(b"/")[2]):
            self.keep_image(path, change)
            return
        if change.cut:
            self.leave(path, "too_deep", change)
            return
        if change.before is not None and change.before.is_dir:
            self._removed_folders.add(path)
        if _is_folder_alone(change):
            return
        if not _is_name(path, change):
            self.leave(path, "name", change)
            return
        before, after = change.before, change.after
        if _too_large(before, self._file_bytes) or _too_large(after, self._file_bytes):
            self.leave(path, "file_too_large", change)
            return
        if after is not None and not (after.is_file or after.is_link or after.is_dir):
            self._omit(path, "special")
        self._add(path, change)

    def _add(self, path: bytes, change: LayerChange) -> None:
        try:
            new = _blob(change.after, self._file_bytes)
            old = _blob(change.before, self._file_bytes)
        except FileNotFoundError:
            self.leave(path, "unsteady", change)
            return
        size = len(new.data) if new else 0
        if size > self._file_bytes:
            self.leave(path, "file_too_large", change)
        elif size > self._left_bytes or not self._left_files:
            self.leave(path, "patch_too_large", change)
        elif old != new:
            self._left_bytes -= size
            self._left_files -= 1
            for side, blob in ((self.before, old), (self.after, new)):
                if blob is not None:
                    side.append((path, blob.mode, self._importer.blob(blob.data)))

    def leave(self, path: bytes, reason: Reason, change: LayerChange) -> None:
        self.keep_image(path, change)
        after = change.after
        size = after.stat.st_size if after is not None and after.is_file else 0
        self._omit(path, reason, size)

    def _omit(self, path: bytes, reason: Reason, size: int = 0) -> None:
        if len(self.left_out) < MOST_NAMED:
            self.left_out.append(OmittedPath(path=readable(path), reason=reason, size_bytes=size))
        else:
            self.left_out_more += 1


def _below(root_path: bytes, change: LayerChange) -> bytes:
    return change.path[len(root_path.rstrip(b"/")) + 1 :]


def _folders(path: bytes) -> list[bytes]:
    """The folders above a path."""
    return [path[:end] for end, byte in enumerate(path) if byte == ord("/")]


def _is_folder_alone(change: LayerChange) -> bool:
    """Whether only folders are concerned, which git does not record."""
    return all(node is None or node.is_dir for node in (change.before, change.after))


def _too_large(node: Node | None, limit: int) -> bool:
    return node is not None and node.is_file and node.stat.st_size > limit


def _blob(node: Node | None, limit: int) -> _GitBlob | None:
    """None: git has no such thing."""
    if node is None:
        return None
    if node.is_link:
        return _GitBlob(b"120000", node.target())
    if node.is_file:
        return _GitBlob(b"100755" if node.stat.st_mode & 0o100 else b"100644", content(node, limit + 1))
    return None


def _is_git(name: bytes) -> bool:
    return name == b".git"


def _is_name(path: bytes, change: LayerChange) -> bool:
    """Whether git applies a patch to such a path. It refuses whatever some file system takes for `.git`, and links in
    the place of `.gitmodules`."""
    for part in path.lower().split(b"/"):
        if part.split(b":")[0].rstrip(b" .") in (b".git", b"git~1"):
            return False
    is_link = change.after is not None and change.after.is_link
    return not (is_link and path.lower().split(b"/")[-1] == b".gitmodules")
