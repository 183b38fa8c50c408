"""Which parts of a patch the reference owns, told by what a file is and not by its name alone.

Owned   never applied: the reference's test files; git's own files; `conftest.py`, `sitecustomize.py`,
        `usercustomize.py`, `*.pth`, `*.egg-info`, entry points in a `*.dist-info`; what a row hides (`hidden_paths`);
        new modules that would stand before the test runner's own (`pytest.py`); modules that the patch itself makes
        pytest plugins, and new ones that it has pytest import for a filter of warnings (`patched_settings`); files
        that collect as tests, which means that they are named like tests and define some.
Doubted left out at first, applied in a second try where the first fails (`grader`): other files in a folder of tests
        (one called `tests`, or one that holds reference tests below a test-like name: `testing/`, `test/`; a package
        such as `django/test` is none), and modules that the tree's own configuration or conftest names as plugins.
Stays   everything else; so does a new module whose name stands in what the patch changes beside tests: the project
        imports it, whatever it is called, and it can do no more than the code that does. A path that the reference fix
        itself changes stays too, where it is no startup file and no reference test.
"""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from pathlib import PurePosixPath
from typing import NamedTuple

from paddock.resources_servers.swe.grading.patched_settings import added_settings
from paddock.resources_servers.swe.grading.patches import Section, join, sections
from paddock.resources_servers.swe.grading.pytest_settings import PytestSettings

DropReason = str
_STARTUP = frozenset({"conftest.py", "sitecustomize.py", "usercustomize.py"})
_RUNNER = frozenset({"pytest", "_pytest", "py", "pluggy", "iniconfig", "unittest", "xdist"})
_FOLDERS = frozenset({"test", "tests", "testing", "e2e", "__tests__", "spec", "specs", "t"})
TEST_NAME = re.compile(r"^(test_.*|.*_test|tests)\.py$|^.*\.(test|spec)\.[jt]sx?$")
DEFINES_TESTS = "^[ \t]*(async[ \t]+)?def[ \t]+test|^[ \t]*(it|test|describe)[ \t]*[.(]"
"""What a file of tests has in it; `git grep -E` reads it too."""
_DEFINES = re.compile(DEFINES_TESTS.encode(), re.MULTILINE)
_IMPORTABLE = ("test", "in a folder of tests", "imported by pytest's configuration")
"""Reasons that do not hold of a new file that code of the project uses."""
_MODULES = frozenset({".py", ".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs"})


class DroppedPart(NamedTuple):
    """A part of the patch that was not applied."""

    path: str
    reason: DropReason
    owned: bool = True
    """The reference owns it; False: it is only doubted, and a second try has it."""


class SplitPatch(NamedTuple):
    """A patch without what the reference owns."""

    applied: bytes
    dropped: list[DroppedPart]
    whole: bytes
    """The patch without what is owned, with what is only doubted."""


class Guard:
    """Says which parts of a patch the reference owns, for one instance."""

    def __init__(
        self,
        tests: Iterable[str],
        *,
        fix: bytes = b"",
        hidden: Iterable[str] = (),
        plugins: Iterable[str] = (),
        configs: Mapping[str, bytes] | None = None,
        collected: Iterable[str] | None = None,
    ) -> None:
        """`tests`, `hidden`, `configs` and `collected` are paths below the tree, `plugins` module names. `configs` are
        the reference's configuration files of pytest; `collected` are the tree's files that define tests; None: all
        that are named like tests."""
        self.tests = frozenset(tests)
        self._hidden = tuple(hidden)
        self._plugins = frozenset(plugins)
        self._configs = configs or {}
        self._collected = None if collected is None else frozenset(collected)
        self._fix = frozenset(path for section in sections(fix) for path in section.paths)
        self._folders = frozenset(folder for path in self.tests for folder in _test_folders(path))

    def always_owned(self, path: str, *, adds: bool = False) -> DropReason | None:
        """Return why the reference owns a path even where its fix changes it; None: it does not."""
        parts = PurePosixPath(path)
        if path in self.tests:
            return "reference test"
        if ".git" in parts.parts:
            return "git's own"
        if parts.name in _STARTUP or parts.suffix == ".pth" or _is_installed(parts):
            return "runs before tests"
        if any(path == hidden or path.startswith(f"{hidden}/") for hidden in self._hidden):
            return "hidden"
        if adds and parts.suffix == ".py" and PurePosixPath(parts.parts[0]).stem in _RUNNER:
            return "shadows the test runner"
        return None

    def split(self, patch: bytes) -> SplitPatch:
        """Split a patch into what is applied and the sections that touch what the reference owns."""
        parts = sections(patch)
        settings = added_settings(parts, self._configs)
        drops = [self._dropped_part(part, settings) for part in parts]
        self._keep_imported(parts, drops)
        pairs = list(zip(parts, drops, strict=True))
        return SplitPatch(
            applied=join([part for part, drop in pairs if drop is None]),
            dropped=[drop for drop in drops if drop is not None],
            whole=join([part for part, drop in pairs if drop is None or not drop.owned]),
        )

    def _dropped_part(self, part: Section, settings: PytestSettings) -> DroppedPart | None:
        """Return why a section is left out, by its most guarded name; None: it is applied."""
        parts = [dropped for path in sorted(part.paths) if (dropped := self._reason(path, part, settings)) is not None]
        chosen = next((dropped for dropped in parts if dropped.owned), next(iter(parts), None))
        return None if chosen is None else chosen._replace(path=part.path)

    def _reason(self, path: str, part: Section, settings: PytestSettings) -> DroppedPart | None:
        if (always_owned := self.always_owned(path, adds=part.adds)) is not None:
            return DroppedPart(path, always_owned)
        if path in self._fix:
            return None
        parts = PurePosixPath(path)
        named = settings.plugins | settings.entry_points
        if _is_module(parts, named | self._plugins, adds=part.adds):
            return DroppedPart(path, "pytest plugin", owned=part.adds or _is_module(parts, named))
        if self._collects(path, part, settings.test_names):
            return DroppedPart(path, "test")
        if part.adds and _is_module(parts, settings.categories, adds=True):
            return DroppedPart(path, "imported by pytest's configuration")
        in_tests = any(str(folder) in self._folders or folder.name == "tests" for folder in parts.parents)
        return DroppedPart(path, "in a folder of tests", owned=False) if in_tests else None

    def _collects(self, path: str, part: Section, patterns: Iterable[str]) -> bool:
        """Say whether a file is named like a test, or as the patch has tests be named, and defines tests."""
        name = PurePosixPath(path).name
        chosen = part.adds and any(fnmatch(path if "/" in pattern else name, pattern) for pattern in patterns)
        if not (chosen or TEST_NAME.match(name)):
            return False
        if part.adds:
            return _DEFINES.search(b"\n".join(part.added_lines())) is not None
        return self._collected is None or path in self._collected

    def _keep_imported(self, parts: list[Section], drops: list[DroppedPart | None]) -> None:
        """Keep new files that kept ones name, and those that these name."""
        unread = {
            index: _importing(part.path)
            for index, part in enumerate(parts)
            if part.adds and (drop := drops[index]) is not None and drop.reason in _IMPORTABLE
        }
        texts = [b"\n".join(part.added_lines()) for part, drop in zip(parts, drops, strict=True) if drop is None]
        while texts:
            text = texts.pop()
            for index in [index for index, name in unread.items() if name.search(text)]:
                del unread[index]
                drops[index] = None
                texts.append(b"\n".join(parts[index].added_lines()))


def _importing(path: str) -> re.Pattern[bytes]:
    """Make the pattern of lines by which code uses a file: imports of it or of its package; or its name."""
    parts = PurePosixPath(path)
    if parts.suffix not in _MODULES:
        return re.compile(re.escape(parts.name.encode("utf-8", "surrogateescape")))
    stem = parts.parent.name if parts.stem in ("__init__", "index") else parts.stem
    word = rb"\b" + re.escape(stem.encode("utf-8", "surrogateescape")) + rb"\b"
    return re.compile(
        rb"(?:import|from|require)[^\n]*" + word + rb"|^[ \t]*" + word + rb"(?: as \w+)?,?[ \t]*$", re.MULTILINE
    )


def _is_installed(path: PurePosixPath) -> bool:
    """Say whether a path is metadata that may name plugins; Python reads folders' names in any case."""
    folders = [part.lower() for part in path.parts]
    if any(folder.endswith(".egg-info") for folder in folders):
        return True
    return folders[-1:] == ["entry_points.txt"] and any(folder.endswith(".dist-info") for folder in folders)


def _is_module(path: PurePosixPath, names: frozenset[str], *, adds: bool = False) -> bool:
    """Say whether a path is a module of these names; a new one also as a package imported for one of them."""
    if path.suffix != ".py" or not names:
        return False
    parts = path.with_suffix("").parts
    package = parts[-1] == "__init__"
    dotted = ".".join(parts[:-1] if package else parts)
    if adds and package:
        names |= {name[: at.start()] for name in names for at in re.finditer(r"\.", name)}
    return any(dotted == name or dotted.endswith(f".{name}") for name in names)


def _test_folders(path: str) -> list[str]:
    """Return the folders on the way to a reference test from the first test-like name on."""
    parents = [folder for folder in PurePosixPath(path).parents if folder.name]
    return [str(folder) for folder in parents if any(part in _FOLDERS for part in folder.parts)]
