"""Runs of tests: which tests, by which runner, under which settings.

Law     two runs are the same where runner, tests, selection, settings, directory and variables are. What changes only
        the report (`looks`) does not count; what ends a run early (`-x`) does.
Cut     the last `MIN_LAST_LINES` lines hold a run's result, the first `MIN_FIRST_LINES` those of a short one.
Source  the help texts of pytest, unittest, `go test`, `cargo test` and jest (`paddock.shell.program_options`); for what
        is in none of them the manuals of Django's `test` and `runtests.py`, of Rust's libtest, npm and SymPy's runner.
Errors  None for what is not known: an option of another meaning, `--help`, a run whose output goes elsewhere.
"""

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from paddock.resources_servers.pivot.semantic.intents.bare_commands import BareCommand
from paddock.resources_servers.pivot.semantic.intents.kinds import IntentKind, Surroundings
from paddock.resources_servers.pivot.semantic.match_results import SAME, MatchResult, differ
from paddock.resources_servers.pivot.semantic.paths import resolve
from paddock.shell.program_options import ProgramOption, Takes, options_of, read_words
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


class RunnerOptions(NamedTuple):
    """What is known of a runner's options: each is named by one of its names."""

    help: tuple[str, ...] = ()
    """Commands whose help texts name the options (`paddock.shell.program_options`)."""
    looks: str = ""
    """Options that change only the report, each by one of its names. With `=`: one that is in no such help takes a
    value."""
    settings: str = ""
    """Options that decide what runs, or how; as `looks`."""
    names_are_paths: bool = True


RUNNERS: dict[str, RunnerOptions] = {
    "pytest": RunnerOptions(
        help=("pytest",),
        looks="-q -v -s -l -r -n --no-header --no-summary --full-trace --disable-warnings --cache-clear --no-cov --tb "
        "--color --durations --durations-min --capture --verbosity --dist --show-capture",
        settings="-x --lf --ff --sw --runxfail --doctest-modules -k -m --maxfail --deselect --ignore --ignore-glob "
        "--rootdir -c -o -p -W --timeout --import-mode",
    ),
    "unittest": RunnerOptions(
        help=("python -m unittest discover", "python -m unittest"),
        looks="-v -q -b --locals",
        settings="-f -k -s -p -t",
        names_are_paths=False,
    ),
    "django": RunnerOptions(
        looks="--noinput --no-input --no-color --force-color --timing -v= --verbosity= --parallel=",
        settings="--failfast --keepdb --reverse --debug-sql --pdb --shuffle --settings= -k= --tag= --exclude-tag= -p= "
        "--pattern=",
        names_are_paths=False,
    ),
    "go": RunnerOptions(
        help=("go build", "go test"),
        looks="-v -json -count -parallel",
        settings="-short -race -failfast -run -skip= -tags -timeout",
    ),
    "cargo": RunnerOptions(
        help=("cargo test",),
        looks="-q -v --color -j --nocapture --test-threads=",
        settings="--lib --bins --doc --release --all --workspace --all-features --no-fail-fast --ignored -p --test "
        "--bin --features --manifest-path",
        names_are_paths=False,
    ),
    "npm": RunnerOptions(looks="--silent -s --verbose --loglevel="),
    "jest": RunnerOptions(help=("jest",), looks="--verbose --silent --colors --no-color --reporters", settings="-i -t"),
    "sympy": RunnerOptions(looks="-v --verbose --tb=", settings="--slow -k="),
}
_HAND_ON = frozenset({"cargo", "npm"})
"""Runners that hand on what stands behind `--`, options too."""


@cache
def runner_options(runner: str) -> tuple[Mapping[str, ProgramOption], frozenset[str]]:
    """Return a runner's options by every name, and the names of those that change only the report."""
    decided = RUNNERS[runner]
    helps: dict[str, ProgramOption] = {}
    for command in decided.help:
        helps.update(options_of(command))
    found: dict[str, ProgramOption] = {}
    for name in (decided.looks + " " + decided.settings).split():
        plain = name.rstrip("=")
        takes: Takes = "values" if name.endswith("=") else "switches"
        option = helps.get(plain) or ProgramOption(plain, frozenset({plain}), takes)
        found.update(dict.fromkeys(option.names, option))
    return found, frozenset(found[name.rstrip("=")].name for name in decided.looks.split())


_LOOSE = frozenset({
    ("-p", "no:cacheprovider"), ("-p", "no:warnings"), ("-p", "no:randomly"),
    ("--pythonwarnings", "ignore"), ("--pythonwarnings", "default"),
})  # fmt: skip
"""Values of pytest's settings that change only the report, or leave out what a report does not need."""


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
    read = _read_options(name, rest)
    if read is None:
        return None
    names, settings = read
    script = resolve(runner[0], command.directory) if name == "django" else ""
    if script.endswith(_OWN_RUNNER) and not command.environment and not any("/" in test for test in names):
        return TestRun((name, script), frozenset(names), settings, None, ())
    if names and RUNNERS[name].names_are_paths:
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


def _read_options(runner: str, words: Sequence[str]) -> tuple[list[str], tuple[str, ...]] | None:
    """Return the names of tests and the settings among a runner's words; None: an option is not known."""
    options, looks = runner_options(runner)
    read = read_words(words, options)
    if read is None:
        return None
    at = len(read.operands) if read.separator is None else read.separator
    names = [words[index] for index in read.operands]
    given = list(read.options)
    if runner in _HAND_ON:
        behind = read_words(names[at:], options)
        if behind is None:
            return None
        names = [*names[:at], *(names[at:][index] for index in behind.operands)]
        given += behind.options
    # `-k=x` is `-k x` to all of them, unlike to GNU's programs.
    given = [(option, tuple(value.removeprefix("=") for value in values)) for option, values in given]
    settings = [
        "=".join((option.name, *values))
        for option, values in given
        if option.name not in looks and (option.name, *values) not in _LOOSE
    ]
    return names, tuple(sorted(settings))


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
