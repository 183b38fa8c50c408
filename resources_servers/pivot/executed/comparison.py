"""Whether what the policy's actions did is what the expert's did.

Files   the same paths come out, with the same contents and modes. Where the expert's change any, and it did nothing
        else, what was shown does not count.
Both    where it changed files and showed something, too (wrote a script and ran it): the files, and what was shown, by
        the rules below. A line that its own commands hold is not asked for, nor is an error of the shell. A text that a
        command writes to a file is no word of it, so a line that a script prints is asked for.
Tests   where it ran tests: the same numbers of passed, failed and other tests (pytest's last line, unittest's). Who
        prints such a line without a runner ran no tests.
Unsure  an expert's look that failed, or whose shell found no program, tells nothing: others would fail alike.
Said    a line that the policy's own command holds, and the expert's does not, was said and not shown.
Looks   else: nothing changed, and of the lines that the expert saw `min_coverage` are shown, in no more than
        `max_shown_ratio` times as many (or `extra_shown_lines` more). A line is compared without the number in front,
        the folders of its file's name there, and colours, and with its blanks as one. Of a long listing the names
        count, but for those with a dot in front; of a path not whether `./` or the step's directory stands before it,
        or `/` or another mark of `ls -F` behind. That a binary file matches, which tools leave out, is no line; nor
        does the one file's name count that only one of two searches writes before its lines, nor the one directory
        that only one of two listings writes before its names (`find D -maxdepth 1`).
"""

import re
from dataclasses import replace
from typing import Literal, NamedTuple

from paddock.resources_servers.pivot.executed.commands import Commands, is_printed
from paddock.resources_servers.pivot.executed.options import ExecutedOptions
from paddock.resources_servers.pivot.executed.runs import ActionRun

ExecutedReason = Literal["match", "files_differ", "output_differs", "action_failed", "surplus_calls"]

_MAX_TIMES_SHOWN = 4
_ALWAYS_READ_LINES = 1000
_ALWAYS_READ_CHARS = 100_000
"""An output that is longer than that, and some times longer than the expert's, is read no further."""
_SHORT_CHARS = 4
_SHELL_ERROR = re.compile(r"^(?:/bin/|/usr/bin/)?(?:ba|da)?sh: .*$", re.MULTILINE)
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_NUMBER = re.compile(r"^\s*\d+[:\t|-]")
_FILE = re.compile(r"^(?:[\w./@+-]*/)?([\w.@+-]+)[:-](?:\d+[:-])?")
_LISTED = re.compile(r"^[bcdlps-][rwxsStT-]{9}[.+]? +\d+ +\S+ +\S+ +\d+ +(?:\S+ +\S+ +)(?:\S+ )?(\S.*)$")
_NO_CONTENT = re.compile(r"^total \d[\d.]*[KMG]?$|^Binary file \S.* matches$|^grep: \S.*: binary file matches$")
_MEASURED = re.compile(r"\d\d:\d\d:\d\d(?:[.,]\d+)?|(?<!\d)\d++\.\d++")
_NAME = re.compile(r"^[\w@+-]*\.\w+:")
_MARK = re.compile(r"(?<=\w)[*@|=]$|(?<!/)/+$")
_SUMMARY = re.compile(r"(?<!\d)(\d+) (passed|failed|errors?|skipped|xfailed|xpassed|deselected)\b")
_SUMMARY_LINE = re.compile(r"^=* ?(?:\d+ \w+,? )+in [\d.:]+s\b.*$|^no tests ran in .*$", re.MULTILINE)
_UNITTEST = re.compile(r"^Ran (\d+) tests? in .*\n\s*\n(OK|FAILED)(?: \((.*)\))?", re.MULTILINE)


class ExecutedResult(NamedTuple):
    """Whether two runs did the same, and why not."""

    same: bool
    reason: ExecutedReason
    detail: str = ""


def tells_something(expected: ActionRun) -> bool:
    """Whether the expert's run can be compared at all: it changed, tested or showed something."""
    if expected.files or _test_counts(expected.shown) is not None:
        return True
    return not expected.failed and not _SHELL_ERROR.search(expected.shown) and bool(_content_lines(expected.shown))


def compare_runs(
    expected: ActionRun, actual: ActionRun, commands: Commands, options: ExecutedOptions
) -> ExecutedResult:
    """Compare what two runs from the same step left and showed."""
    if actual.problem:
        return ExecutedResult(same=False, reason="action_failed", detail=actual.problem)
    if expected.files != actual.files:
        paths = sorted(
            path
            for path in expected.files.keys() | actual.files.keys()
            if expected.files.get(path) != actual.files.get(path)
        )
        detail = f"{len(paths)} paths come out otherwise: {', '.join(paths[:5])}"
        return ExecutedResult(same=False, reason="files_differ", detail=detail)
    if expected.files and commands.expected.only_changes:
        return ExecutedResult(same=True, reason="match")
    wanted = _test_counts(expected.shown)
    if wanted is not None:
        given = _test_counts(actual.shown) if commands.runs_tests else None
        same = wanted == given
        detail = "" if same else f"tests: expected {wanted}, came {given}"
        return ExecutedResult(same=same, reason="match" if same else "output_differs", detail=detail)
    most = _MAX_TIMES_SHOWN * expected.shown.count("\n") + _ALWAYS_READ_LINES
    if (
        actual.shown.count("\n") > most
        or len(actual.shown) > _MAX_TIMES_SHOWN * len(expected.shown) + _ALWAYS_READ_CHARS
    ):
        detail = f"{len(actual.shown)} characters are shown where the expert saw {len(expected.shown)}"
        return ExecutedResult(same=False, reason="output_differs", detail=detail)
    wanted_lines = _content_lines(expected.shown)
    given_lines = _shown_lines(actual.shown, commands, _hidden_names(expected.shown))
    if expected.files:
        own_text = set(map(_content, commands.expected.documents))
        own = _content_lines(_SHELL_ERROR.sub("", expected.shown))
        wanted_lines = [line for line in own if line not in own_text and not commands.expected.holds(line)]
        given_lines = _shown_beside_changes(given_lines, set(wanted_lines), commands)
        if not wanted_lines:
            return ExecutedResult(same=True, reason="match")
    return _compare_looks(*_without_one_directory(*_without_one_name(wanted_lines, given_lines)), options)


def without_chance(run: ActionRun, again: ActionRun, actual: ActionRun) -> tuple[ActionRun, ActionRun]:
    """Return the expert's and the policy's run without what the expert's own second run shows to be chance.

    That is lines that do not come again and, where there are any, the digits of fractions and times of day in all
    lines. Of tests, which are counted, nothing is.
    """
    if run.shown == again.shown or _test_counts(run.shown) is not None:
        return run, actual
    stable = set(_MEASURED.sub("0.0", again.shown).splitlines())
    lines = [line for line in _MEASURED.sub("0.0", run.shown).splitlines() if line in stable]
    return replace(run, shown="\n".join(lines)), replace(actual, shown=_MEASURED.sub("0.0", actual.shown))


def _shown_lines(shown: str, commands: Commands, hidden: set[str]) -> list[str]:
    """Return the lines of the policy's that were shown, and not said."""
    own_text, expert_text = commands.actual.whole, commands.expected.whole
    return [
        line
        for line in _content_lines(shown)
        if (len(line) < _SHORT_CHARS or not is_printed(line, own_text) or line in expert_text) and line not in hidden
    ]


def _shown_beside_changes(given: list[str], wanted: set[str], commands: Commands) -> list[str]:
    """Return the lines without those that the policy wrote or echoed, though the expert's script holds them, too."""
    written = set(map(_content, commands.actual.documents))
    return [
        line
        for line in given
        if (line in wanted and not is_printed(line, commands.actual.echoed))
        or (line not in wanted and line not in written)
    ]


def _without_one_name(wanted: list[str], given: list[str]) -> tuple[list[str], list[str]]:
    """Take the one file's name away that only one of two searches writes before all its lines."""
    names = [{_NAME.match(line) and line.partition(":")[0] for line in lines} for lines in (wanted, given)]
    first, second = (len(found) == 1 and None not in found for found in names)
    if first == second or names[0] & names[1] - {None}:
        return wanted, given
    cut = [line.partition(":")[2].strip() for line in (wanted if first else given)]
    return (cut, given) if first else (wanted, cut)


def _without_one_directory(wanted: list[str], given: list[str]) -> tuple[list[str], list[str]]:
    """Take the one directory away that only one of two listings writes before its names, and alone on a line."""
    first, second = _one_directory(wanted), _one_directory(given)
    if (first is None) == (second is None) or any("/" in line for line in (wanted if first is None else given)):
        return wanted, given
    cut = [line.removeprefix(f"{first or second}/") for line in (wanted if second is None else given)]
    cut = [line for line in cut if line != (first or second)]
    return (cut, given) if second is None else (wanted, cut)


def _one_directory(lines: list[str]) -> str | None:
    """Return the directory that is one of the lines, where all others are its entries."""
    found = min(lines, key=len, default="")
    others = [line for line in lines if line != found]
    return found if others and all(_is_entry(line, found) for line in others) else None


def _is_entry(line: str, directory: str) -> bool:
    return line.startswith(f"{directory}/") and "/" not in line.removeprefix(f"{directory}/") and " " not in line


def _compare_looks(wanted: list[str], given: list[str], options: ExecutedOptions) -> ExecutedResult:
    shown = set(given)
    covered = sum(line in shown for line in wanted)
    if covered < options.min_coverage * len(wanted):
        return ExecutedResult(
            same=False, reason="output_differs", detail=f"{covered} of the {len(wanted)} lines are shown"
        )
    most = max(options.max_shown_ratio * len(wanted), len(wanted) + options.extra_shown_lines)
    if len(given) > most:
        return ExecutedResult(
            same=False,
            reason="output_differs",
            detail=f"{len(given)} lines are shown where the expert saw {len(wanted)}",
        )
    return ExecutedResult(same=True, reason="match")


def _content_lines(shown: str) -> list[str]:
    return [line for line in (_content(_COLOUR.sub("", line)) for line in shown.splitlines()) if line]


def _hidden_names(shown: str) -> set[str]:
    """Return the names with a dot in front that a long listing shows, which may be shown and need not."""
    found = (_LISTED.match(_COLOUR.sub("", line)) for line in shown.splitlines())
    names = (listed[1].partition(" -> ")[0].rstrip("/") for listed in found if listed is not None)
    return {_without_place(name) for name in names if name.startswith(".")}


def _content(line: str) -> str:
    """Return what of a line counts; empty: nothing."""
    if _NO_CONTENT.match(line):
        return ""
    if (listed := _LISTED.match(line)) is not None:
        name = listed[1].partition(" -> ")[0].rstrip("/")
        return "" if name.startswith(".") else _without_place(name)
    line = f"{line[:-2]}:" if line.endswith("/:") else line  # a folder's name above its listing
    line = line.replace('File "./', 'File "')  # a traceback
    line = " ".join(_without_place(line).split())
    if " " in line:
        return line
    return "" if line in (".", "..", "./", "../") else _MARK.sub("", line.removeprefix("./"))


def _without_place(line: str) -> str:
    """Take the number in front of a line away, and of its file's name the folders: tools write them differently."""
    bare = _NUMBER.sub("", line, count=1)
    return bare if bare != line else _FILE.sub(r"\1:", line, count=1)


def _test_counts(shown: str) -> dict[str, int] | None:
    """Return how many tests ended how, by the last summary in an output; None: it has none."""
    text = _COLOUR.sub("", shown)
    lines = _SUMMARY_LINE.findall(text)
    if lines:
        return {name.rstrip("s"): int(count) for count, name in _SUMMARY.findall(lines[-1])}
    found = list(_UNITTEST.finditer(text))
    if not found:
        return None
    ran, end, rest = found[-1].groups()
    parts = (part.partition("=") for part in (rest or "").split(", ") if part)
    return {"ran": int(ran), "ok": int(end == "OK"), **{name: int(count) for name, _, count in parts}}
