"""An instance's tests as two shell programs: one that installs, one that tests and says nothing else.

Install what the row's script does before its tests, where any of it installs something; else None.
Tests   the lines that set the environment, unheard; then the lines between the official markers, which alone write
        to the program's output, so that output needs no markers; its exit status is the test command's own.
Left    git lines (status, checkout, apply): the grader has placed the files; what follows the end marker.
Errors  RowError: a script without a start marker.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from paddock.errors import RowError
from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.official import END, START

_GIT = re.compile(r"^git (?!config\b)")
_HEREDOC = re.compile(r"<<-?\s*'?\"?(\w+)'?\"?")
_INSTALLS = re.compile(
    r"^(?:\w+=\S*\s+)*(?:(?:\S*python3?) (?:-m pip|setup\.py)|pip3?|uv pip|poetry|conda|apt|apt-get|npm|yarn|pnpm|make|"
    r"cmake|mvn|\./gradlew|gradle|cargo|go|bundle|composer|sed|locale-gen)\b(?! activate)"
)
_SHELL_OPTIONS = re.compile(r"^set -[a-z]*x[a-z]*( \w+)?$")


class EvalScript(NamedTuple):
    """Programs for `bash -c`, run in the workdir."""

    setup: tuple[str, ...]
    """Lines that set the environment of the tests."""
    install: str | None
    tests: tuple[str, ...]
    """Lines between the markers."""

    def test_program(self, tests: tuple[str, ...] | None = None) -> str:
        """Return the program whose whole output is the test command's; `tests` replace its own lines."""
        quiet = ["exec 3>&1 4>&2 >/dev/null 2>&1", *self.setup, "exec >&3 2>&4 3>&- 4>&-"]
        return "\n".join([*quiet, *(self.tests if tests is None else tests)]) + "\n"


def read_script(instance: SweInstance) -> EvalScript:
    """Read an instance's tests as programs; RowError where its script has no start marker."""
    if instance.eval_script is None:
        assert instance.test_command is not None  # an adapter gives one of the two
        return EvalScript((f"cd {instance.workdir}",), None, (instance.test_command,))
    before, tests = _parts(instance.eval_script)
    setup = tuple(line for line in before if not _INSTALLS.match(line))
    install = "\n".join(before) + "\n" if any(_INSTALLS.match(line) for line in before) else None
    return EvalScript(setup, install, tests)


def _parts(script: str) -> tuple[list[str], tuple[str, ...]]:
    """Split a script into the lines before the start marker that matter, and those between the markers."""
    before: list[str] = []
    lines = iter(script.split("\n"))
    for line in lines:
        if START in line:
            break
        if _GIT.match(line):
            _skip_heredoc(line, lines)
        elif line.strip() not in ("", ":") and not line.startswith("#"):
            before.append(line.replace("x", "", 1) if _SHELL_OPTIONS.match(line) else line)
    else:
        raise RowError(f"eval_script: has no line with {START!r}", kind="task_invalid", stage="verify")
    tests: list[str] = []
    for line in lines:
        if END in line:
            break
        tests.append(line)
    return before, tuple(tests)


def _skip_heredoc(line: str, lines: Iterator[str]) -> None:
    heredoc = _HEREDOC.search(line)
    if heredoc is None:
        return
    for body_line in lines:
        if body_line == heredoc.group(1):
            return
