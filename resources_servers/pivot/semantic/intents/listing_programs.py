"""Programs that list what is in a directory: `ls`, `find` without a test of names, `tree`.

Source  the manuals of coreutils' `ls`, of findutils' `find` and of `tree`.
Shapes  `listed_by` reads the words of one program; its paths are as written.
Errors  None: another program, or an option that may leave out or add entries in a way that is not known.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from paddock.resources_servers.pivot.semantic.intents.bare_commands import Stage

Entries = Literal["all", "files", "directories"]
Hidden = Literal["no", "too", "asked"]
"""Whether names with a dot in front are listed; `asked`: an option does only that."""


@dataclass(frozen=True, slots=True)
class ListedEntries:
    """What is listed of a directory."""

    path: str
    depth: int | None = 1
    """Levels below the path; 0: the path itself; None: all."""
    entries: Entries = "all"
    pattern: str | None = None
    """Glob of the names that are listed; None: all."""
    hidden: Hidden = "no"
    sorted_by_name: bool = True


_LS_LOOKS = frozenset("lh1FpGgonisCxmNQbqkZ")
_LS_ORDERS = frozenset("tSrXUvcu")
_LS_LONG = re.compile(
    r"--(?:color|classify|indicator-style|time-style|full-time|human-readable|group-directories-first|size|si|no-group)"
    r"(?:=.*)?"
)
_HIDDEN = frozenset({"*/.*", "*/\\.*", "./.*", ".*", "\\.*"})
_NOISE = re.compile(
    r"(?:\*/|\./|/)*(?:\.git\*?|node_modules|__pycache__|\.?venv|\.tox|\.\w+_cache|\.idea|\.vscode|\*\.pyc|\*\.egg-info)"
    r"(?:/\*)*"
)
"""What tools and builds leave behind: who lists a directory does not look for it."""
_LEVELS = re.compile(r"[0-9]{1,3}")
_TREE_LOOKS = frozenset("fiCnhspugDFtrQNAS")
_NAMED_SUFFIX = re.compile(r".*\.[A-Za-z][\w]*")


def listed_by(stage: Stage) -> list[ListedEntries] | None:
    program, *arguments = stage.words
    reader = _READERS.get(program.rpartition("/")[2])
    return reader(arguments, frozenset(index - 1 for index in stage.globs)) if reader else None


def _ls(arguments: Sequence[str], globs: frozenset[int]) -> list[ListedEntries] | None:
    letters: list[str] = []
    operands: list[tuple[str, bool]] = []
    for index, word in enumerate(arguments):
        if word in ("--all", "--almost-all", "--recursive", "--directory"):
            letters.append({"--all": "a", "--almost-all": "A", "--recursive": "R", "--directory": "d"}[word])
        elif re.fullmatch(r"-\w+", word):
            letters.extend(word[1:])
        elif word.startswith("-") and not _LS_LONG.fullmatch(word):
            return None
        elif not word.startswith("-"):
            operands.append((word, index in globs))
    options = set(letters)
    if not options <= _LS_LOOKS | _LS_ORDERS | set("aARd"):
        return None
    hidden: Hidden = "no" if not options & set("aA") else "too" if "l" in options else "asked"
    found: list[ListedEntries] = []
    for path, is_glob in operands or [(".", False)]:
        listed = _of_pattern(path, itself="d" in options) if is_glob else ListedEntries(path)
        if listed is None or (is_glob and "R" in options):
            return None
        depth = None if "R" in options else 0 if "d" in options and not is_glob else 1
        by_name = not options & _LS_ORDERS
        found.append(ListedEntries(listed.path, depth, listed.entries, listed.pattern, hidden, by_name))
    return found


def _of_pattern(word: str, *, itself: bool) -> ListedEntries | None:
    """Read a word that the shell expands to names; a directory among them is listed unless it is shown `itself`."""
    if itself and word.endswith("*/"):
        above = word[:-2].rstrip("/")
        return None if set(above) & set("*?[{~") else ListedEntries(above or ".", entries="directories")
    above, _, pattern = word.rpartition("/")
    if set(above) & set("*?[{~") or "{" in pattern or "~" in pattern or (word.startswith("/") and not above):
        return None
    if not itself and not _NAMED_SUFFIX.fullmatch(pattern):
        return None
    return ListedEntries(above or ".", pattern=pattern)


def _find(arguments: Sequence[str], globs: frozenset[int]) -> list[ListedEntries] | None:
    words = list(arguments)
    paths: list[str] = []
    while words and not words[0].startswith(("-", "!", "(")):
        paths.append(words.pop(0))
    depth: int | None = None
    entries: Entries = "all"
    hidden = True
    while words:
        match words:
            case ["-maxdepth", count, *words] if _LEVELS.fullmatch(count):
                depth = int(count)
            case ["-mindepth", "0" | "1", *words] | ["-print" | "-ls", *words]:
                pass
            case ["-type", "f" | "d" as kind, *words] if entries == "all":
                entries = "files" if kind == "f" else "directories"
            case ["-not" | "!", "-path" | "-name", pattern, *words] if pattern in _HIDDEN or _NOISE.fullmatch(pattern):
                hidden = hidden and pattern not in _HIDDEN
            case _:
                return None
    if globs:
        return None
    return [ListedEntries(path, depth, entries, hidden="too" if hidden else "no") for path in paths or ["."]]


def _tree(arguments: Sequence[str], globs: frozenset[int]) -> list[ListedEntries] | None:
    words = list(arguments)
    paths: list[str] = []
    depth: int | None = None
    letters: set[str] = set()
    while words:
        match words:
            case ["-L", count, *words] if _LEVELS.fullmatch(count) and int(count):
                depth = int(count)
            case ["-I", pattern, *words] if all(map(_NOISE.fullmatch, pattern.split("|"))):
                pass
            case ["--dirsfirst" | "--noreport", *words]:
                pass
            case [word, *words] if re.fullmatch(r"-\w+", word):
                letters |= set(word[1:])
            case [word, *words] if not word.startswith("-"):
                paths.append(word)
            case _:
                return None
    if globs or not letters <= _TREE_LOOKS | set("ad"):
        return None
    entries: Entries = "directories" if "d" in letters else "all"
    hidden: Hidden = "too" if "a" in letters else "no"
    return [ListedEntries(path, depth, entries, hidden=hidden) for path in paths or ["."]]


_READERS: dict[str, Callable[[Sequence[str], frozenset[int]], list[ListedEntries] | None]] = {
    "ls": _ls,
    "dir": _ls,
    "find": _find,
    "tree": _tree,
}
