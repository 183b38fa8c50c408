"""Which paths of a commit are its tests: they are hidden, all others are the fix.

Rule    a folder on the way is called as tests are, or the file is; data below such a folder belongs to the tests.
        Patterns, where given, replace the rule: `*` stays within a folder, `**` does not, a folder means all below it.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

FOLDERS = frozenset({"test", "tests", "testing", "__tests__", "e2e", "spec", "specs"})
FILE = re.compile(r"(test_.+\.py|.+_tests?\.(py|go)|tests?\.py|conftest\.py|.+\.(test|spec)\.[cm]?[jt]sx?)")


class SplitPaths(NamedTuple):
    """Paths of one commit, in its order."""

    fix: list[str]
    tests: list[str]


def is_test(path: str, patterns: Sequence[str] = ()) -> bool:
    """Say whether a path, below the repository's root with `/`, is a test's."""
    if patterns:
        return any(re.fullmatch(_regex(pattern), path) for pattern in patterns)
    *folders, name = path.split("/")
    return not FOLDERS.isdisjoint(folder.lower() for folder in folders) or FILE.fullmatch(name) is not None


def split_paths(paths: Iterable[str], patterns: Sequence[str] = ()) -> SplitPaths:
    """Sort paths into fix and tests."""
    sides = SplitPaths([], [])
    for path in paths:
        (sides.tests if is_test(path, patterns) else sides.fix).append(path)
    return sides


def _regex(pattern: str) -> str:
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern.removeprefix("./").rstrip("/"))
    return "".join(words.get(part) or re.escape(part) for part in parts) + "(?:/.*)?"
