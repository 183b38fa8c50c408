"""Runs of tests: which tests, by which runner, under which settings.

Law     two runs are the same where runner, tests, selection, settings, directory and variables are. What changes only
        the report (`_LOOKS`) does not count; what ends a run early (`-x`) does.
Cut     the last `MIN_LAST_LINES` lines hold a run's result, the first `MIN_FIRST_LINES` those of a short one.
Source  pytest's and unittest's manuals, Django's `test` and `runtests.py`, `go help testflag`, cargo's and npm's.
Errors  None for what is not known: an option of another meaning, `--help`, a run whose output goes elsewhere.
"""

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from paddock.resources_servers.pivot.semantic.intents.bare_commands import BareCommand
from paddock.resources_servers.pivot.semantic.intents.kinds import IntentKind, Surroundings
from paddock.resources_servers.pivot.semantic.match_results import SAME, MatchResult, differ
from paddock.resources_servers.pivot.semantic.paths import resolve
from paddock.tools import Action

MIN_LAST_LINES = 5
MIN_FIRST_LINES = 30
_PYTHON = re.compile(r"(?:.*/)?python(?:3(?:\.\d+)?)?")


_SCRIPTS = ("manage.py", "runtests.py")
_OWN_RUNNER = "/tests/runtests.py"
"""Django's own runner finds its tests beside itself, wherever it is started."""
_COMMANDS = (
    (("pytest",), "pytest"),
    (("py.test",), "pytest"),
    (("bin/test",), "sympy"),
    (("./bin/test",), "sympy"),
    (("go", "test"), "go"),
    (("cargo", "test"), "cargo"),
    *(
        ((program, *words), "npm")
        for program in ("npm", "yarn", "pnpm")
        for words in (("test",), ("t",), ("run", "test"))
    ),
    *((words, "jest") for words in (("jest",), ("vitest",))),
)
"""How a run begins, and by which runner it is."""


@dataclass(frozen=True, slots=True)
class TestRun:
    """A run of tests."""

    __test__ = False

    runner: tuple[str, ...]
    """Its name, and what of its command says which one it is."""
    tests: frozenset[str]
    """Names of tests; what stands in front of `::`, or all of it, with its path resolved. Empty: the runner's own."""
    settings: tuple[str, ...]
    """Options that decide what runs or how, each with its value, sorted."""
    directory: str | None
    """Where the run starts; None: its tests say where they are, or it is not known."""
    environment: tuple[tuple[str, str], ...]


class _RunnerOptions(NamedTuple):
    """What is known of a runner's options."""

    looks: frozenset[str] = frozenset()
    """Options without a value that change only the report."""
    look_values: frozenset[str] = frozenset()
    """Options with a value that do."""
    settings: frozenset[str] = frozenset()
    """Options without a value that decide what runs."""
    setting_values: frozenset[str] = frozenset()
    """Options with a value that do."""
    names_are_paths: bool = True


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_RUNNERS: dict[str, _RunnerOptions] = {
    "pytest": _RunnerOptions(
        looks=_names(
            "-q -qq -v -vv -vvv -s -l -ra -rA -rf -rfE -rs -rN -rx --quiet --verbose --no-header --no-summary "
            "--showlocals --full-trace --disable-warnings --disable-pytest-warnings --cache-clear --no-cov"
        ),
        look_values=_names(
            "--tb --color --durations --durations-min --capture -r -n --numprocesses --verbosity --dist --show-capture"
        ),
        settings=_names(
            "-x --exitfirst --lf --last-failed --ff --failed-first --sw --stepwise --runxfail --doctest-modules"
        ),
        setting_values=_names(
            "-k -m --maxfail --deselect --ignore --ignore-glob --rootdir -c -o -p -W --timeout --import-mode"
        ),
    ),
    "unittest": _RunnerOptions(
        looks=_names("-v -q -b --verbose --quiet --buffer --locals"),
        settings=_names("-f --failfast discover"),
        setting_values=_names("-k -s -p -t"),
        names_are_paths=False,
    ),
    "django": _RunnerOptions(
        looks=_names("--noinput --no-input --no-color --force-color --timing"),
        look_values=_names("-v --verbosity --parallel"),
        settings=_names("--failfast --keepdb --reverse --debug-sql --pdb --shuffle"),
        setting_values=_names("--settings -k --tag --exclude-tag -p --pattern"),
        names_are_paths=False,
    ),
    "go": _RunnerOptions(
        looks=_names("-v -json"),
        look_values=_names("-count -parallel"),
        settings=_names("-short -race -failfast"),
        setting_values=_names("-run -skip -tags -timeout"),
    ),
    "cargo": _RunnerOptions(
        looks=_names("-q --quiet -v --verbose --nocapture --"),
        look_values=_names("--color -j --jobs --test-threads"),
        settings=_names("--lib --bins --doc --release --all --workspace --all-features --no-fail-fast --ignored"),
        setting_values=_names("-p --package --test --bin --features --manifest-path"),
        names_are_paths=False,
    ),
    "npm": _RunnerOptions(looks=_names("--silent -s --verbose --"), look_values=_names("--loglevel")),
    "jest": _RunnerOptions(
        looks=_names("--verbose --silent --colors --no-color"),
        look_values=_names("--reporters"),
        settings=_names("--runInBand -i run"),
        setting_values=_names("-t --testNamePattern"),
    ),
    "sympy": _RunnerOptions(
        looks=_names("-v --verbose"),
        look_values=_names("--tb"),
        settings=_names("--slow"),
        setting_values=_names("-k"),
    ),
}
_LOOSE_PYTEST = {"-p": _names("no:cacheprovider no:warnings no:randomly"), "-W": _names("ignore default")}
"""Values of a setting with which it changes only the report, or leaves out what a report does not need."""


def _of_action(_action: Action, _cwd: str | None) -> None:
    return None


def _of_command(command: BareCommand) -> TestRun | None:
    words = command.words
    if not words or command.stdin is not None or command.output_path is not None or command.stages[0].globs:
        return None
    if (command.last_lines or MIN_LAST_LINES) < MIN_LAST_LINES:
        return None
    if (command.first_lines or MIN_FIRST_LINES) < MIN_FIRST_LINES:
        return None
    found = _runner_of(words)
    if found is None:
        return None
    name, runner, rest = found
    read = _read_options(_RUNNERS[name], rest)
    if read is None:
        return None
    names, settings = read
    script = resolve(runner[0], command.directory) if name == "django" else ""
    if script.endswith(_OWN_RUNNER) and not command.environment and not any("/" in test for test in names):
        return TestRun((name, script), frozenset(names), settings, None, ())
    if names and _RUNNERS[name].names_are_paths:
        tests, directory = frozenset(_resolved(test, command.directory) for test in names), None
    else:
        tests, directory = frozenset(names), command.directory
    return TestRun((name, *runner), tests, settings, directory, command.environment)


def _runner_of(words: tuple[str, ...]) -> tuple[str, tuple[str, ...], tuple[str, ...]] | None:
    """Return a runner's name, what else says which one it is, and the words behind it."""
    if words[0] == "npx":
        words = words[1:]
    if words and _PYTHON.fullmatch(words[0]):
        flags = next((index for index, word in enumerate(words[1:], 1) if word not in ("-u", "-B")), len(words))
        words = (words[0], *words[flags:])
    if len(words) > 2 and _PYTHON.fullmatch(words[0]) and words[1] == "-m":
        words = words[2:]
        if words[0] == "unittest":
            return "unittest", (), words[1:]
    elif len(words) > 1 and _PYTHON.fullmatch(words[0]) and posixpath.basename(words[1]) in _SCRIPTS:
        words = words[1:]
    script = posixpath.basename(words[0])
    if script == "runtests.py" or (script == "manage.py" and words[1:2] == ("test",)):
        return "django", (posixpath.normpath(words[0]),), words[1 if script == "runtests.py" else 2 :]
    for start, name in _COMMANDS:
        if words[: len(start)] == start:
            return name, (start[0],) if name in ("npm", "jest") else (), words[len(start) :]
    return None


def _read_options(runner: _RunnerOptions, words: Sequence[str]) -> tuple[list[str], tuple[str, ...]] | None:
    """Return the names of tests and the settings among a runner's words; None: an option is not known."""
    names: list[str] = []
    settings: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in runner.looks:
            continue
        if word in runner.settings:
            settings.append(word)
            continue
        if not word.startswith("-"):
            names.append(word)
            continue
        name, value = _option(word, runner, rest)
        if name is None or value is None:
            return None
        if name in runner.look_values or value in _LOOSE_PYTEST.get(name, frozenset()):
            continue
        settings.append(f"{name}={value}")
    return names, tuple(sorted(settings))


def _option(word: str, runner: _RunnerOptions, rest: list[str]) -> tuple[str | None, str | None]:
    """Return an option with a value, which may be the next word: that is then taken."""
    known = runner.look_values | runner.setting_values
    name, equals, value = word.partition("=")
    if equals and name in known:
        return name, value
    if word in known:
        return word, rest.pop(0) if rest else None
    short = word[:2]
    if not word.startswith("--") and short in known and len(word) > 2:
        return short, word[2:]
    return None, None


def _resolved(test: str, directory: str | None) -> str:
    path, mark, name = test.partition("::")
    return f"{resolve(path, directory)}{mark}{name}"


def _compare(expected: TestRun, actual: TestRun, _surroundings: Surroundings) -> MatchResult:
    if expected.runner != actual.runner:
        return differ(
            "tool_differs", f"expected a run by {' '.join(expected.runner)}, came one by {' '.join(actual.runner)}"
        )
    if expected.tests != actual.tests or expected.directory != actual.directory:
        return differ("scope_differs", f"other tests run: {', '.join(sorted(actual.tests)) or 'all'}"[:200])
    if expected.settings != actual.settings:
        return differ("arguments_differ", f"the run has other settings: {' '.join(actual.settings) or 'none'}"[:200])
    if expected.environment != actual.environment:
        return differ("arguments_differ", "the run has other variables")
    return SAME


TEST_RUNS = IntentKind(TestRun, _of_action, _of_command, _compare, changes=False)
