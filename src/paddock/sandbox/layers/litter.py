"""Decides which changed files of a repository are litter: not tracked and ignored, both by the image's rules.

Tracked what the index in the image's `.git` lists; nothing where the image has no `.git` directory.
Ignored by the image's `.gitignore` files, its `.git/info/exclude`, and `LITTER`; what the agent writes into any of
        them changes nothing. The image's own rules are stronger than LITTER; a caller's are stronger than all.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from paddock.sandbox.layers.marks import Marks
from paddock.sandbox.layers.nodes import Node, content, join
from paddock.sandbox.layers.repository import PrivateRepository
from paddock.sandbox.layers.tree import LayerTree

LITTER = (
    "__pycache__/",
    "*.py[co]",
    ".pytest_cache/",
    ".mypy_cache/",
    ".ruff_cache/",
    ".hypothesis/",
    ".tox/",
    ".nox/",
    ".eggs/",
    "*.egg-info/",
    "/build/lib*/",
    "/build/temp.*/",
    "/build/bdist.*/",
    "*.so",
    "*.pyd",
    "*.o",
    ".coverage",
    ".coverage.*",
    "htmlcov/",
    ".ipynb_checkpoints/",
    ".venv/",
    "node_modules/",
    ".DS_Store",
    ".*.sw[po]",
    "*.orig",
    "*.rej",
)
"""Left out where git does not track it, in any repository."""

_RULES_BYTES = 1 << 20


class LitterRules:
    """The litter rules of one repository of an image."""

    def __init__(self, image: LayerTree, root: bytes, repository: PrivateRepository) -> None:
        self._image = image
        self._root = root
        self._repository = repository

    def litter(self, paths: Iterable[bytes], exclude: Sequence[str] = ()) -> set[bytes]:
        """Of changed paths below the root, those to leave out; `exclude`: more gitignore patterns."""
        tracked = self._tracked()
        doubtful = sorted(path for path in paths if path not in tracked)
        if not doubtful:
            return set()
        excludes = _lines(LITTER) + (self._read(b".git/info/exclude") or b"")
        rules = self._gitignores(doubtful)
        litter = self._repository.ignored(doubtful, rules=rules, excludes=excludes)
        if exclude:
            empty = [(folder, b"") for folder, _ in rules]
            litter |= self._repository.ignored(doubtful, rules=empty, excludes=_lines(exclude))
        return litter

    def _tracked(self) -> set[bytes]:
        index = self._read(b".git/index", None)
        if index is None:
            return set()
        names = [name.decode("ascii", "replace") for name in self._names(b".git") if name.startswith(b"sharedindex.")]
        shared = [(name, self._read(b".git/" + name.encode(), None) or b"") for name in names]
        return self._repository.tracked(index, shared)

    def _gitignores(self, paths: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
        """Those of the image on the way to the paths."""
        files: list[tuple[bytes, bytes]] = []
        with self._image.at(self._root) as root:
            self._collect(_RulesFolder(b"", root.folders), _folders_of(paths), files)
        return files

    def _collect(self, here: "_RulesFolder", tree: "_FolderNames", files: list[tuple[bytes, bytes]]) -> None:
        rules = self._image.marks.find(here.folders, b".gitignore")
        if rules and rules[0].is_file:
            files.append((here.path, content(rules[0], _RULES_BYTES)))
        for name, below in tree.items():
            folders = _directories(self._image.marks, here.folders, name)
            if folders:
                path = join(here.path, name) if here.path else name
                self._collect(_RulesFolder(path, folders), below, files)

    def _read(self, path: bytes, max_bytes: int | None = _RULES_BYTES) -> bytes | None:
        """A regular file of the image's repository, reached through no link."""
        nodes = self._nodes(path)
        return content(nodes[0], max_bytes) if nodes and nodes[0].is_file else None

    def _names(self, path: bytes) -> set[bytes]:
        return self._image.marks.names(tuple(node.where for node in self._nodes(path)))

    def _nodes(self, path: bytes) -> list[Node]:
        try:
            with self._image.at(self._root) as root:
                folders = root.folders
        except OSError:
            return []
        *way, last = path.split(b"/")
        for name in way:
            folders = _directories(self._image.marks, folders, name)
        return self._image.marks.find(folders, last)


class _RulesFolder(NamedTuple):
    path: bytes
    folders: tuple[bytes, ...]


_FolderNames = dict[bytes, "_FolderNames"]
"""Folders by name, and those below them."""


def _folders_of(paths: Iterable[bytes]) -> _FolderNames:
    tree: _FolderNames = {}
    for path in paths:
        here = tree
        for name in path.split(b"/")[:-1]:
            here = here.setdefault(name, {})
    return tree


def _directories(marks: Marks, folders: tuple[bytes, ...], name: bytes) -> tuple[bytes, ...]:
    nodes = marks.find(folders, name)
    return tuple(node.where for node in nodes) if nodes and nodes[0].is_dir else ()


def _lines(patterns: Iterable[str]) -> bytes:
    return b"".join(pattern.encode("utf-8", "surrogateescape") + b"\n" for pattern in patterns)
