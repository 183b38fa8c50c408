"""Which paths the reference owns: what an agent changed there is not applied.

Always  the reference's test files; git's own files; `conftest.py`, `sitecustomize.py`, `usercustomize.py`, `*.pth`,
        `*.egg-info`; what a row hides (`hidden_paths`); new modules that would stand before the test runner's own
        (`pytest.py`).
Plugins modules that a configuration or a conftest names as pytest plugins.
Tests   also files named like tests, and folders of tests: those called `tests`, and those that hold reference tests
        below a test-like name (`testing/`, `test/`). A package such as `django/test` is none of these.
Fix     a path that the reference fix itself changes is no test, whatever its name; `Always` holds for it too.
"""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import NamedTuple

from paddock.resources_servers.swe.grading.patches import Section, join, sections

Reason = str
_STARTUP = frozenset({"conftest.py", "sitecustomize.py", "usercustomize.py"})
_RUNNER = frozenset({"pytest", "_pytest", "py", "pluggy", "iniconfig", "unittest", "xdist"})
_FOLDERS = frozenset({"test", "tests", "testing", "e2e", "__tests__", "spec", "specs", "t"})
_TEST_NAME = re.compile(r"^(test_.*|.*_test|tests)\.py$|^.*\.(test|spec)\.[jt]sx?$")
_CONFIG = frozenset(
    {"pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg", "pyproject.toml"}
)
_PLUGIN = re.compile(rb"(?:^|[\s\"'=])-p[\s=\"',]*(?!no:)([A-Za-z_][\w.]*)")
_PLUGINS = re.compile(rb"pytest_plugins\s*=?\s*[(\[]?((?:\s*[\"'][\w.]+[\"']\s*,?)+)")
_WORD = re.compile(rb"[A-Za-z_][\w.]*")


class Dropped(NamedTuple):
    """A part of the patch that was not applied."""

    path: str
    reason: Reason


class Split(NamedTuple):
    """A patch without what the reference owns."""

    kept: bytes
    dropped: list[Dropped]


class Guard:
    """The rules for one instance."""

    def __init__(
        self, tests: Iterable[str], *, fix: bytes = b"", hidden: Iterable[str] = (), plugins: Iterable[str] = ()
    ) -> None:
        """`tests` and `hidden` are paths below the tree; `plugins` are module names."""
        self.tests = frozenset(tests)
        self._hidden = tuple(hidden)
        self._plugins = frozenset(plugins)
        self._fix = frozenset(path for section in sections(fix) for path in section.paths)
        self._folders = frozenset(folder for path in self.tests for folder in _test_folders(path))

    def always(self, path: str, *, adds: bool = False) -> Reason | None:
        """Why the reference owns a path even where its fix changes it."""
        parts = PurePosixPath(path)
        if path in self.tests:
            return "reference test"
        if ".git" in parts.parts:
            return "git's own"
        if parts.name in _STARTUP or parts.suffix == ".pth" or any(one.endswith(".egg-info") for one in parts.parts):
            return "runs before tests"
        if any(path == one or path.startswith(f"{one}/") for one in self._hidden):
            return "hidden"
        if adds and parts.suffix == ".py" and PurePosixPath(parts.parts[0]).stem in _RUNNER:
            return "shadows the test runner"
        return None

    def reason(self, path: str, *, adds: bool = False, plugins: frozenset[str] = frozenset()) -> Reason | None:
        """Why the reference owns a path; None: the agent may change it. `plugins`: further module names."""
        if (always := self.always(path, adds=adds)) or path in self._fix:
            return always
        parts = PurePosixPath(path)
        if _is_module(parts, self._plugins | plugins):
            return "pytest plugin"
        in_tests = any(str(one) in self._folders or one.name == "tests" for one in parts.parents)
        return "test" if in_tests or _TEST_NAME.match(parts.name) else None

    def split(self, patch: bytes) -> Split:
        """The patch without sections that touch what the reference owns."""
        parts = sections(patch)
        named = plugins(b"\n".join(line for part in parts for line in _config_lines(part)))
        kept: list[Section] = []
        dropped: list[Dropped] = []
        for part in parts:
            reasons = (self.reason(path, adds=part.adds, plugins=named) for path in sorted(part.paths))
            if reason := next(filter(None, reasons), None):
                dropped.append(Dropped(part.path, reason))
            else:
                kept.append(part)
        return Split(join(kept), dropped)


def plugins(configuration: bytes) -> frozenset[str]:
    """Modules that pytest would load as plugins for this configuration or conftest text."""
    found = set(_PLUGIN.findall(configuration))
    for listed in _PLUGINS.findall(configuration):
        found |= set(_WORD.findall(listed))
    return frozenset(name.decode() for name in found)


def _config_lines(part: Section) -> list[bytes]:
    return part.added_lines() if any(PurePosixPath(path).name in _CONFIG for path in part.paths) else []


def _is_module(path: PurePosixPath, names: frozenset[str]) -> bool:
    if path.suffix != ".py" or not names:
        return False
    parts = path.with_suffix("").parts
    dotted = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return any(dotted == name or dotted.endswith(f".{name}") for name in names)


def _test_folders(path: str) -> list[str]:
    """Folders on the way to a reference test from the first test-like name on."""
    parents = [folder for folder in PurePosixPath(path).parents if folder.name]
    return [str(folder) for folder in parents if any(part in _FOLDERS for part in folder.parts)]
