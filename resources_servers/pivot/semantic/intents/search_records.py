"""Records of searches, and the globs in them in one form.

Globs   of names only, whatever a program's own are: `**/*.py` is `*.py`, braces are opened, `tests/` and `**/tests/**`
        are `tests`. One with a directory in it stays as it is written.
Left out  exclusions of what a search program that knows the repository skips anyway: `SKIPPED`.
Errors  none.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from paddock.resources_servers.pivot.semantic.intents.patterns import Pattern

Shows = Literal["lines", "names", "names_without", "count", "only", "quiet", "lines_total", "names_total", "only_total"]
"""What of the matches is printed; a `total` is one number."""

SKIPPED = frozenset({
    ".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".nox", ".mypy_cache",
    ".pytest_cache", ".ruff_cache", ".cache", ".eggs", "*.egg-info", "*.pyc", "*.pyo", "*.min.js",
})  # fmt: skip
TYPES = {"py": "*.py", "python": "*.py", "rust": "*.rs", "go": "*.go", "java": "*.java", "json": "*.json"}
_BRACES = re.compile(r"\{([^{}]*)\}")
MIN_SHOWN = 10
"""A cut to as many matches or more leaves what a search is for."""


@dataclass(frozen=True, slots=True)
class TextSearch:
    """A search for text in files."""

    pattern: Pattern
    where: frozenset[str]
    """Resolved paths of files and directories; globs of the shell as written."""
    recursive: bool = True
    """False: of directories nothing is searched."""
    invert: bool = False
    include: frozenset[str] = frozenset()
    """Globs of the files that are searched; empty: all."""
    exclude: frozenset[str] = frozenset()
    shows: Shows = "lines"
    mode: Literal["", "default", "explicit"] = ""
    """Of a tool: whether the call says what it shows."""
    before: int = 0
    """Lines in front of each match."""
    after: int = 0
    filters: frozenset[tuple[Pattern, bool]] = frozenset()
    """Of the lines only those are shown that match each (or, with True, do not)."""
    cut: tuple[str, ...] = ()
    """How the matches are cut to few, by name and number; empty: hardly."""
    other: str = ""
    """Arguments of a tool that are known by their words only, as JSON."""


def open_braces(glob: str) -> list[str]:
    found = _BRACES.search(glob)
    if found is None:
        return [glob]
    return [
        text for part in found[1].split(",") for text in open_braces(glob[: found.start()] + part + glob[found.end() :])
    ]


def included(globs: Iterable[str]) -> frozenset[str]:
    names = {name.removeprefix("./").removeprefix("**/") for glob in globs for name in open_braces(glob)}
    return frozenset() if names & {"*", "**"} else frozenset(names)


def excluded(globs: Iterable[str]) -> frozenset[str]:
    names: set[str] = set()
    for glob in globs:
        for name in open_braces(glob):
            bare = name
            for ending in ("/**", "/*", "/"):
                bare = bare.removesuffix(ending)
            for beginning in ("./", "**/", "*/"):
                bare = bare.removeprefix(beginning)
            names.add(bare)
    return frozenset(names - SKIPPED)
