"""A patch in the making: a tree with the reference fix in it, and what a transformation may ask of it.

Transformation  a function of a `Draft` that changes its tree and no meaning of its code: True; False: there is no room
                for it in this tree, which is as it was.
Source          an ASCII file of Python, so that columns of `ast` and of the text are the same.
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

from tests.zoo.projects import git, write

Function = ast.FunctionDef | ast.AsyncFunctionDef
Runner = Literal["pytest", "unittest", "django"]
_HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


class PatchSubject(NamedTuple):
    """A row as those see it who vary its fix."""

    name: str
    folder: Path
    """A repository with the row's tree as HEAD, and nothing changed."""
    gold: bytes
    tests: frozenset[str]
    """Paths of the reference's tests."""
    runner: Runner
    ways: Mapping[str, Mapping[str, str]] = {}
    """Other right fixes."""
    own: bool = True
    """One of our projects: small, and with nothing in it that looks at how its code is written or called."""
    in_place: bool = True
    """Tests are of the tree itself, not of what was installed from it."""


class SourceFile(NamedTuple):
    """A file of Python of the draft."""

    path: str
    text: str
    tree: ast.Module

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines(keepends=True)

    def functions(self) -> Iterator[Function]:
        """Those of the module and of its classes; none within another."""
        for node in self.tree.body:
            inner = node.body if isinstance(node, ast.ClassDef) else [node]
            yield from (one for one in inner if isinstance(one, Function))

    def statements(self) -> list[ast.stmt]:
        """Those that begin a line."""
        found = (node for node in ast.walk(self.tree) if isinstance(node, ast.stmt))
        lines = self.lines
        return [one for one in found if not lines[one.lineno - 1][: one.col_offset].strip()]


class Draft:
    """One subject's tree with its fix; `chance` decides what is left open."""

    def __init__(self, subject: PatchSubject, chance: Random) -> None:
        self.subject = subject
        self.folder = subject.folder
        self.chance = chance
        git(self.folder, "apply", "--index", "-", stdin=subject.gold)
        listed = git(self.folder, "diff", "--cached", "--name-only", "-z", "--no-renames", "--diff-filter=AM", "HEAD")
        self.fixed = [path for path in listed.split("\0") if path]
        """What the fix changes, or the draft has put in its place."""

    def close(self) -> None:
        """The tree is as its commit again."""
        git(self.folder, "reset", "-q")
        git(self.folder, "clean", "-q", "-f", "-f", "-d", "-x")  # first, so that no new attributes are heeded
        git(self.folder, "reset", "-q", "--hard")

    def has(self, path: str) -> bool:
        return (self.folder / path).exists()

    def read(self, path: str) -> str:
        return (self.folder / path).read_bytes().decode()

    def put(self, path: str, text: str | bytes) -> None:
        """Write a file as it stands, line ends and all."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)

    def new(self, files: Mapping[str, str]) -> bool:
        """Write files where none of them is."""
        if any(self.has(path) for path in files):
            return False
        write(self.folder, files)
        return True

    def append(self, path: str, text: str) -> bool:
        """Put lines below a file's that is there."""
        if not self.has(path):
            return False
        old = self.read(path)
        self.put(path, old + ("" if old.endswith("\n") else "\n") + text)
        return True

    def sources(self) -> list[SourceFile]:
        """Readable files of Python that the fix changes, in a drawn order."""
        found = []
        for path in self.fixed:
            if not path.endswith(".py") or path in self.subject.tests or not self.has(path):
                continue
            text = self.read(path)
            if text.isascii() and text.endswith("\n") and not any(sign in text for sign in "\r\f\t"):
                found.append(SourceFile(path, text, ast.parse(text)))
        self.chance.shuffle(found)
        return found

    def functions(self) -> Iterator[tuple[SourceFile, Function]]:
        """Functions that differ from the commit's first, each with its file."""
        for source in self.sources():
            touched = self._touched(source.path)
            found = list(source.functions())
            self.chance.shuffle(found)
            found.sort(key=lambda one: touched.isdisjoint(range(one.lineno, (one.end_lineno or one.lineno) + 1)))
            yield from ((source, one) for one in found)

    def package(self) -> str | None:
        """The folder of a changed file of Python that is in a package."""
        folders = [str(Path(one.path).parent) for one in self.sources()]
        return next((one for one in folders if self.has(f"{one}/__init__.py")), None)

    def test_folder(self) -> str:
        """Where the reference's tests are."""
        return str(Path(min(self.subject.tests)).parent)

    def replace(self, source: SourceFile, start: int, end: int, text: str) -> bool:
        """Put text in the place of lines `start` to `end`, counted from 1, the last not among them."""
        lines = source.lines
        changed = "".join([*lines[: start - 1], text, *lines[end - 1 :]])
        ast.parse(changed)
        self.put(source.path, changed)
        return True

    def _touched(self, path: str) -> set[int]:
        said = git(self.folder, "diff", "-U0", "HEAD", "--", path)
        hunks = ((int(first), int(count) if count else 1) for first, count in _HUNK.findall(said))
        return {line for first, count in hunks for line in range(first, first + count)}


Transformation = Callable[[Draft], bool]


def indented(lines: Iterable[str], columns: int) -> str:
    """Lines with so many blanks before each that has something in it."""
    return "".join(f"{' ' * columns}{line}\n" if line else "\n" for line in lines)


def body_start(function: Function) -> ast.stmt | None:
    """The first statement after a docstring; None where there is none, or it stands on the line of the `def`."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    if not body or function.body[0].lineno == function.lineno:
        return None
    return body[0]


def first_line(statement: ast.stmt) -> int:
    """With its decorators."""
    decorators = statement.decorator_list if isinstance(statement, Function | ast.ClassDef) else []
    return min([statement.lineno, *(one.lineno for one in decorators)])


def is_plain(function: Function) -> bool:
    """It returns: no generator, no coroutine; and asks nothing of its own frame or class."""
    if isinstance(function, ast.AsyncFunctionDef):
        return False
    for node in ast.walk(function):
        if isinstance(node, ast.Yield | ast.YieldFrom | ast.Await | ast.Nonlocal | ast.Global):
            return False
        if isinstance(node, ast.Name) and node.id in ("super", "locals", "eval", "exec", "vars", "dir", "__class__"):
            return False
    return True
