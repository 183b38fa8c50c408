"""Whether a call that is played again gives the recorded result.

Law     of a command, at least `min_same_lines` of the lines that it prints stand in the recorded result, and of those
        in the recorded result it prints; of a read only the first, since tools put their own words around a file. Of
        what the harness cut only the second. What is cut of a walk through folders (`find . | head`) is not compared:
        which part it is depends on the order in which the disk has them. An edit is refused on both sides or on none.
        Listings and searches by tools change nothing, and each tool shows them in its own way: they are not compared.
Line    without colours, numbers in front, and what differs at each run: times, dates, addresses, names of temporary
        files, process ids, numbers of processes, marks of a test run's progress and object hashes are one word each;
        blanks are one. Of a long listing, what the machine's disk, users and umask decide does not count: links,
        owners, rights of others, sizes of folders, the total. What a harness notes around an output (tags, brackets,
        exit codes, directories) is no line.
"""

import re
from collections.abc import Sequence

from paddock.resources_servers.pivot.mining.candidates import REFUSALS, may_change
from paddock.resources_servers.pivot.semantic.outputs import is_cut
from paddock.tools import Action, Edit, ReadFile, ShellCommand

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_NUMBER = re.compile(r"^\s*\d+[:\t|]\s?")
_DAYS = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_MONTHS = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_VARYING = tuple(
    (re.compile(pattern), word)
    for pattern, word in (
        (r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z| ?[+-]\d\d:?\d\d)?)?", "DATE"),
        (rf"\b(?:{_DAYS},? )?(?:\d{{1,2}} )?{_MONTHS} +\d{{1,4}}(?: +(?:\d\d:\d\d(?::\d\d)?|\d{{4}}))*", "DATE"),
        (r"\b\d\d:\d\d:\d\d(?:\.\d+)?\b", "TIME"),
        (r"\b\d+(?:\.\d+)? ?(?:s|ms|us|secs?|seconds?)\b", "TIME"),
        (r"\b0x[0-9a-fA-F]{4,}\b", "ADDRESS"),
        (r"/(?:var/)?tmp/[\w./+-]+", "TEMPORARY"),
        (r"\b(?:pid|PID)[ =:]*\d+", "PID"),
        (r"^[.sxuFE]{8,}(?: *\[ *\d+%\])?$", "PROGRESS"),
        (r"\bwith up to \d+ process(?:es)?\b", "PROCESSES"),
        (r"\b[0-9a-f]{7,40}\b", "HASH"),
    )
)
_LISTED = re.compile(r"^([d-][r-][w-][xsS-])[rwxsStT-]{6}[.+]?\s+\d+\s+\S+\s+\S+\s+(\d+)\s+(?=\S)")
_CUT_WALK = re.compile(r"\b(?:find|grep (?:-\S+ )*-\w*[rR]\w*|rg|ls -\w*U\w*)\b[^;&\n]*\|\s*(?:head|tail)\b")
_NOTES = re.compile(
    r"^(?:\[.*\]|</?\w+>|OBSERVATION:|\(Open file: .*\)|\(Current directory: .*\)|bash-\$|Exit code: \d+|Output:"
    r"|total \d+(?:\.\d+)?[KMG]?|Wall time.*|Chunk ID.*|Process exited.*|Original token count.*|Execution result.*"
    r"|Your command ran successfully and did not produce any output\.?)$"
)
_TAGS = re.compile(
    r"</?(?:output(?:_head|_tail)?|elided_chars|warning|returncode|stdout|stderr|exit_code|result|response)>"
)
_STATUS = re.compile(r"<(?:returncode|exit_code)>-?\d+</(?:returncode|exit_code)>")
_CUTS = ("<warning>", "elided_chars", "Output too long", "clipped", "truncated", "omitted")


def difference(action: Action, shown: str, refusal: str, recorded: str, min_same_lines: float) -> str:
    """Return why a result is not the recorded one; empty: it is. `refusal`: why the tool refused it, empty: it ran."""
    if isinstance(action, Edit):
        was_refused = any(mark in recorded.lower() for mark in REFUSALS)
        return "" if bool(refusal) == was_refused else refusal or "the edit was refused to the expert"
    if refusal:
        return refusal
    if not isinstance(action, ShellCommand | ReadFile):
        return ""
    if isinstance(action, ShellCommand) and _CUT_WALK.search(action.command) and not may_change(action):
        return ""
    ours, theirs = lines_of(shown), lines_of(recorded)
    cut = is_cut(recorded) or any(mark in recorded for mark in _CUTS)
    if not cut and (share := _share(ours, theirs)) < min_same_lines:
        return f"{share:.0%} of the {len(ours)} lines that it prints are in the recorded result{_first(ours, theirs)}"
    if isinstance(action, ShellCommand) and (share := _share(theirs, ours)) < min_same_lines:
        return f"{share:.0%} of the {len(theirs)} lines of the recorded result are printed{_first(theirs, ours)}"
    return ""


def lines_of(text: str) -> list[str]:
    """Return the lines of a result that count, as they are compared."""
    text = _TAGS.sub("\n", _STATUS.sub("\n", _COLOUR.sub("", text)))
    lines = (_NUMBER.sub("", line) for line in text.splitlines() if not _NOTES.match(line.strip()))
    return [line for line in (" ".join(_without_varying(line).split()) for line in lines) if line]


def _without_varying(line: str) -> str:
    line = _LISTED.sub(_listed, line)
    for pattern, word in _VARYING:
        line = pattern.sub(word, line)
    return line


def _listed(match: re.Match[str]) -> str:
    mode, size = match.groups()
    return f"{mode} " if mode.startswith("d") else f"{mode} size {size}: "


def _share(lines: Sequence[str], among: Sequence[str]) -> float:
    there = set(among)
    return sum(line in there for line in lines) / len(lines) if lines else 1.0


def _first(lines: Sequence[str], among: Sequence[str]) -> str:
    line = next(line for line in lines if line not in among)
    return f"; the first that is not: {line:.120}"
