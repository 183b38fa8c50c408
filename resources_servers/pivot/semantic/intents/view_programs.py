"""Programs that print lines of files, or of their input, as they are: which lines, of which files.

Source  the manuals of coreutils' `cat`, `head`, `tail` and `nl`; of `sed`, `awk`, `less`, `more`, `bat`; `grep -n ''`.
Shapes  `printed_by` reads the words of one program; no paths: it prints lines of its input.
Errors  None: another program, or an option that is not known to leave the lines as they are.
"""

import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from paddock.resources_servers.pivot.semantic.intents.line_ranges import WHOLE, LineRange
from paddock.resources_servers.pivot.semantic.intents.line_scripts import awk_lines, sed_lines

Prints = Literal["text", "numbered", "other"]
"""`numbered`: each line has its number in front; `other`: something else is around the text."""


class PrintedLines(NamedTuple):
    """What a program prints."""

    ranges: tuple[LineRange, ...]
    """In the order in which they are printed; of each path all of them."""
    paths: tuple[str, ...]
    prints: Prints = "text"
    marked: bool = False
    """True: ends of lines or tabs are made visible."""


_NUMBER = re.compile(r"[0-9]{1,9}")
_CAT_MARKS = frozenset("AeEtT")
_CAT_LONG = {"--number": "n", "--number-nonblank": "b", "--show-all": "A", "--show-ends": "E", "--show-tabs": "T"}
_COUNT = re.compile(r"-n?([0-9]{1,9})|--lines=([0-9]{1,9})")
_FROM = re.compile(r"(?:-n|--lines=)\+([0-9]{1,9})")
_PAGER_LOOKS = re.compile(r"-[NRrFXS]+")
_BAT_LOOKS = re.compile(r"-[npPfu]+|--(?:plain|number|paging=\w+|style=[\w,]+|color=\w+|decorations=\w+|no-pager)")
_BAT_RANGE = re.compile(r"([0-9]{0,9}):([0-9]{0,9})")
_SED_QUIET = frozenset({"-n", "--quiet", "--silent", "-nE", "-nr", "-En", "-rn", "-ne"})
_SED_SCRIPT_FOLLOWS = frozenset({"-e", "-ne", "--expression"})


def printed_by(words: Sequence[str]) -> PrintedLines | None:
    program, *arguments = words
    reader = _READERS.get(program.rpartition("/")[2])
    found = reader(arguments) if reader else None
    if found is None or any(path in ("", "-") or path[0] in "-+" for path in found.paths if found.paths != ("-",)):
        return None
    return found._replace(paths=()) if found.paths == ("-",) else found


def _operands(arguments: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Split options, none of which has a word of its own behind it, from operands."""
    return [word for word in arguments if _is_option(word)], tuple(word for word in arguments if not _is_option(word))


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _cat(arguments: Sequence[str]) -> PrintedLines | None:
    options, paths = _operands(arguments)
    letters = {letter for option in options for letter in _CAT_LONG.get(option, option[1:])}
    if not letters <= _CAT_MARKS | set("nbuv"):
        return None
    marked = bool(_CAT_MARKS & letters)
    prints: Prints = "other" if marked or "b" in letters else "numbered" if "n" in letters else "text"
    return PrintedLines((WHOLE,), paths, prints, marked)


def _nl(arguments: Sequence[str]) -> PrintedLines | None:
    numbers_all = arguments[:1] == ["-ba"] or arguments[:2] == ["-b", "a"]
    rest = arguments[1 if arguments[:1] == ["-ba"] else 2 :] if numbers_all else arguments
    options, paths = _operands(rest)
    return PrintedLines((WHOLE,), paths, "numbered" if numbers_all else "other") if not options else None


def _head(arguments: Sequence[str]) -> PrintedLines | None:
    count, paths = _line_count(arguments)
    if not _NUMBER.fullmatch(count) or not int(count):
        return None
    return PrintedLines((LineRange(1, int(count)),), paths, "text" if len(paths) < 2 else "other")


def _tail(arguments: Sequence[str]) -> PrintedLines | None:
    count, paths = _line_count(arguments)
    number = _NUMBER.fullmatch(count.removeprefix("+"))
    if number is None or len(paths) > 1:
        return None
    if count.startswith("+"):
        return PrintedLines((LineRange(max(int(number[0]), 1)),), paths)
    return PrintedLines((LineRange(1, None, int(number[0])),), paths) if int(number[0]) else None


def _line_count(arguments: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the count of lines that `head` or `tail` is given, as text, and the operands; an empty count: unknown.

    The form `-5` is understood in front only.
    """
    count = "10"
    rest: list[str] = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word in ("-n", "--lines") and words:
            count = words.pop(0)
        elif (found := _COUNT.fullmatch(word)) and (not word[1:].isdigit() or len(words) + 1 == len(arguments)):
            count = found[1] or found[2]
        elif found := _FROM.fullmatch(word):
            count = "+" + found[1]
        elif _is_option(word):
            return "", ()
        else:
            rest.append(word)
    return count, tuple(rest)


def _sed(arguments: Sequence[str]) -> PrintedLines | None:
    quiet = False
    scripts: list[str] = []
    rest: list[str] = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        quiet = quiet or word in _SED_QUIET
        if word in _SED_SCRIPT_FOLLOWS and words:
            scripts.append(words.pop(0))
        elif not _is_option(word):
            rest.append(word)
        elif word not in _SED_QUIET | {"-E", "-r"}:
            return None
    if not scripts:
        scripts, rest = rest[:1], rest[1:]
    found = sed_lines(";".join(scripts), quiet=quiet)
    if found is None or len(rest) > 1:
        return None
    return PrintedLines(found.ranges, tuple(rest), "other" if found.numbered or len(found.ranges) > 1 else "text")


def _awk(arguments: Sequence[str]) -> PrintedLines | None:
    if not 1 <= len(arguments) <= 2 or any("=" in path for path in arguments[1:]):
        return None
    found = awk_lines(arguments[0])
    return PrintedLines(found.ranges, tuple(arguments[1:]), "other" if found.numbered else "text") if found else None


def _pager(arguments: Sequence[str]) -> PrintedLines | None:
    options, paths = _operands(arguments)
    return PrintedLines((WHOLE,), paths, "other") if all(map(_PAGER_LOOKS.fullmatch, options)) else None


def _bat(arguments: Sequence[str]) -> PrintedLines | None:
    ranges: list[LineRange] = []
    rest: list[str] = []
    words = [
        part for word in arguments for part in (word.split("=", 1) if word.startswith("--line-range=") else [word])
    ]
    while words:
        word = words.pop(0)
        if word in ("-r", "--line-range") and words:
            found = _BAT_RANGE.fullmatch(words.pop(0))
            if found is None or not (found[1] or found[2]):
                return None
            ranges.append(LineRange(int(found[1] or 1), int(found[2]) if found[2] else None))
        elif not _BAT_LOOKS.fullmatch(word):
            rest.append(word)
    options, paths = _operands(rest)
    if options or any(not 0 < lines.first <= (lines.last or lines.first) for lines in ranges):
        return None
    return PrintedLines(tuple(ranges) or (WHOLE,), paths, "other")


def _grep(arguments: Sequence[str]) -> PrintedLines | None:
    match arguments:
        case ["-n", "" | "^", *paths] if len(paths) <= 1:
            return PrintedLines((WHOLE,), tuple(paths), "other")
        case _:
            return None


_READERS: dict[str, Callable[[Sequence[str]], PrintedLines | None]] = {
    "cat": _cat,
    "head": _head,
    "tail": _tail,
    "nl": _nl,
    "sed": _sed,
    "gsed": _sed,
    "awk": _awk,
    "gawk": _awk,
    "mawk": _awk,
    "less": _pager,
    "more": _pager,
    "bat": _bat,
    "batcat": _bat,
    "grep": _grep,
}
