"""Searches for files by name: which names, below which directories.

Source  the manuals of findutils' `find`, `git ls-files`, `rg --files`; the harnesses' glob tools.
Law     two searches are the same when they start in the same places (or, from one directory, at most
        `search_wider_levels` above it) and ask the same of names: an ending, a part, or another glob. A part that a
        filter behind the search asks of the whole path is the same as one that is asked of the name.
Looks   ignored and hidden files, order, spelling of paths; whether directories are left out where an ending is asked,
        or one whole name with a file's suffix.
Cut     to `MIN_SHOWN` names or more is none.
Errors  None: something else is done (`-exec`, `-delete`, ...), or a part of it is not known.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from posixpath import basename
from typing import Literal

from paddock.resources_servers.pivot.semantic.intents.bare_commands import BareCommand, Stage
from paddock.resources_servers.pivot.semantic.intents.kinds import IntentKind, Surroundings
from paddock.resources_servers.pivot.semantic.intents.patterns import plain_text
from paddock.resources_servers.pivot.semantic.intents.search_options import program_words
from paddock.resources_servers.pivot.semantic.intents.search_programs import filter_of
from paddock.resources_servers.pivot.semantic.intents.search_records import MIN_SHOWN, excluded, included
from paddock.resources_servers.pivot.semantic.intents.views import has_suffix
from paddock.resources_servers.pivot.semantic.match_results import SAME, MatchResult, clip, differ
from paddock.resources_servers.pivot.semantic.paths import levels_above, resolve
from paddock.tools import Action, Search

Demand = tuple[str, ...]
"""What is asked of a name: ("ends", suffix), ("holds", text, case), ("glob", glob, case), ("not", ...)."""

_PART = re.compile(r"\*([\w-]+)\*(\.\w+)?")
_ENDING = re.compile(r"\*(\.\w+)+")
_GLOB_CHARS = frozenset("*?[{")


@dataclass(frozen=True, slots=True)
class FileSearch:
    """A search for files by name."""

    where: frozenset[str]
    """Resolved."""
    demands: frozenset[Demand] = frozenset()
    """All of them are asked."""
    exclude: frozenset[str] = frozenset()
    entries: Literal["all", "files", "directories"] = "all"
    depth: int | None = None
    """Levels below; None: all."""
    counted: bool = False
    cut: tuple[str, ...] = ()
    other: str = ""
    """Arguments of a tool that are known by their words only, as JSON."""


def demands_of(glob: str, *, fold: bool = False) -> frozenset[Demand]:
    case = "any case" if fold else "case"
    if glob in ("*", "**", "*.*"):
        return frozenset({("glob", "*.*", case)} if glob == "*.*" else ())
    if _ENDING.fullmatch(glob):
        return frozenset({("ends", glob[1:].lower() if fold else glob[1:])})
    if found := _PART.fullmatch(glob):
        ending = {("ends", found[2].lower() if fold else found[2])} if found[2] else set[Demand]()
        return frozenset({("holds", found[1].lower() if fold else found[1], case)} | ending)
    return frozenset({("glob", glob.lower() if fold else glob, case)})


def _of_find(words: Sequence[str]) -> FileSearch | None:
    left = list(words)
    paths: list[str] = []
    while left and not left[0].startswith(("-", "!", "(")):
        paths.append(left.pop(0))
    found = FileSearch(frozenset(paths or ["."]))
    exclude: list[str] = []
    while left:
        match left:
            case ["-name" | "-iname" as test, glob, *left]:
                found = replace(found, demands=found.demands | demands_of(glob, fold=test == "-iname"))
            case ["-not" | "!", "-path" | "-name", glob, *left]:
                exclude.append(glob)
            case ["-path" | "-ipath" | "-wholename", glob, *left]:
                found = replace(found, demands=found.demands | {("path", glob.removeprefix("./"))})
            case ["-type", "f" | "d" as kind, *left] if found.entries == "all":
                found = replace(found, entries="files" if kind == "f" else "directories")
            case ["-maxdepth", count, *left] if count.isdigit():
                found = replace(found, depth=int(count))
            case ["-print", *left]:
                pass
            case _:
                return None
    return replace(found, exclude=excluded(exclude))


def _of_rg(words: Sequence[str]) -> FileSearch | None:
    rg_words = program_words("rg", words)
    if rg_words is None or {name for name, _ in rg_words.options} - {"files", "include", "look"}:
        return None
    if ("files", "") not in rg_words.options:
        return None
    globs = [value for name, value in rg_words.options if name == "include"]
    kept = included(glob for glob in globs if not glob.startswith("!"))
    if len(kept) > 1 or any("/" in glob for glob in kept):
        return None
    return FileSearch(
        frozenset(rg_words.operands or ["."]),
        frozenset(demand for glob in kept for demand in demands_of(glob)),
        excluded(glob[1:] for glob in globs if glob.startswith("!")),
        "files",
    )


def _of_git(words: Sequence[str]) -> FileSearch | None:
    operands = [word for word in words if word != "--"]
    if any(word.startswith(("-", ":")) for word in operands) or len(operands) > 1:
        return None
    if not operands:
        return FileSearch(frozenset({"."}), entries="files")
    above, _, name = operands[0].rpartition("/")
    if not _GLOB_CHARS & set(name) and "." not in name:
        return FileSearch(frozenset(operands), entries="files")
    if _GLOB_CHARS & set(above) - {"*"} or above.strip("*/") != above.rstrip("*/"):
        return None
    return FileSearch(frozenset({above.rstrip("*/") or "."}), demands_of(name), entries="files")


def file_search_of(stage: Stage, directory: str | None) -> FileSearch | None:
    """Read a program that prints names of files below directories, with its places resolved."""
    match stage.words:
        case [find, *words] if basename(find) == "find":
            found = _of_find(words)
        case ["rg", *words]:
            found = _of_rg(words)
        case ["git", "ls-files", *words]:
            found = _of_git(words)
        case _:
            return None
    if found is None or stage.globs:
        return None
    return replace(found, where=frozenset(resolve(path, directory) for path in found.where))


def _filtered(search: FileSearch, stages: Sequence[Stage]) -> FileSearch | None:
    for stage in stages:
        if search.counted:
            return None
        if stage.words in (("sort",), ("sort", "-u"), ("uniq",)):
            continue
        if stage.words == ("wc", "-l"):
            search = replace(search, counted=True)
            continue
        line_filter = filter_of(stage)
        text = plain_text(line_filter[0]) if line_filter is not None else None
        if line_filter is None or text is None:
            return None
        demand: Demand = text
        if line_filter[1] and demand[0] == "holds":
            search = replace(search, exclude=search.exclude | excluded([demand[1].strip("/")]))
        elif line_filter[1]:
            search = replace(search, demands=search.demands | {("not", *demand)})
        else:
            search = replace(search, demands=search.demands | {demand})
    return search


def _of_command(command: BareCommand) -> FileSearch | None:
    if command.environment or command.output_path is not None or command.stdin is not None:
        return None
    search = file_search_of(command.stages[0], command.directory)
    found = _filtered(search, command.stages[1:]) if search is not None else None
    if found is None or 0 in (command.first_lines, command.last_lines):
        return None
    return replace(found, cut=tuple(_cuts(command)))


def _cuts(command: BareCommand) -> Iterator[str]:
    for name, count in (("first", command.first_lines), ("last", command.last_lines)):
        if count is not None and count < MIN_SHOWN:
            yield f"{name} {count}"


def _of_action(action: Action, cwd: str | None) -> FileSearch | None:
    if not isinstance(action, Search) or action.mode != "files":
        return None
    pattern, where = _places(action)
    head, _, name = pattern.rpartition("/")
    below = head == "**" and "{" not in name
    demands = demands_of(name) if below else frozenset({("tool", pattern)})
    other = json.dumps(action.rest, sort_keys=True) if action.rest else ""
    return FileSearch(frozenset({resolve(where, cwd)}), demands, entries="files", other=other)


def _places(search: Search) -> tuple[str, str | None]:
    """Return a glob's pattern and directory, with the pattern's leading plain directories moved to the directory.

    Only in front of `**/`: elsewhere a tool may let a pattern without a slash match in every directory.
    """
    head, slash, tail = search.pattern.partition("/**/")
    if slash and not set(head) & set("*?[]{}!\\") and not head.startswith(("/", ".")):
        return "**/" + tail, f"{search.path}/{head}" if search.path else head
    return search.pattern, search.path


def compare_file_searches(expected: FileSearch, actual: FileSearch, surroundings: Surroundings) -> MatchResult:
    if (expected.demands, expected.exclude) != (actual.demands, actual.exclude) and not _same_demands(expected, actual):
        return differ("pattern_differs", "the searches look for files of other names")
    entries = {expected.entries, actual.entries}
    with_ending = any(demand[0] == "ends" or _is_of_a_file(demand) for demand in expected.demands)
    if len(entries) > 1 and ("directories" in entries or not with_ending):
        return differ("kind_differs", "one of the searches leaves out directories or files")
    if (expected.counted, expected.cut, expected.other) != (actual.counted, actual.cut, actual.other):
        return differ("arguments_differ", "the searches show other parts of what they find")
    if expected.depth != actual.depth:
        return differ("scope_differs", "the searches go to other depths")
    if expected.where != actual.where:
        wanted, given = sorted(expected.where), sorted(actual.where)
        above = levels_above(given[0], wanted[0]) if len(wanted) == len(given) == 1 else None
        if above is None or above > surroundings.options.search_wider_levels or expected.depth is not None:
            return differ("scope_differs", f"expected a search of {clip(wanted[0])}, came one of {clip(given[0])}")
    return SAME


def _is_of_a_file(demand: Demand) -> bool:
    """Say whether one whole name is asked for, with a file's suffix."""
    return demand[0] == "glob" and not _GLOB_CHARS & set(demand[1]) and has_suffix(demand[1])


def _same_demands(expected: FileSearch, actual: FileSearch) -> bool:
    """Whether what is asked is the same but for the case of an ending that stands with a part in any case."""
    return expected.exclude == actual.exclude and _lowered(expected) == _lowered(actual)


def _lowered(search: FileSearch) -> frozenset[Demand]:
    folds = any(demand[-1] == "any case" for demand in search.demands)
    return frozenset(
        ("ends", demand[1].lower()) if demand[0] == "ends" and folds else demand for demand in search.demands
    )


FILE_SEARCHES = IntentKind(FileSearch, _of_action, _of_command, compare_file_searches, changes=False)
