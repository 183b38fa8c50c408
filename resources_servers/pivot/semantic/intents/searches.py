"""Searches for text in files, by tools and by programs: what is looked for, where, and what of it is shown.

Law     two searches are the same when their patterns match the same lines (`patterns`), in the same files, and the same
        of them is shown: lines, names or counts, with filters and cuts. Numbers and names in front of lines are looks.
Where   the same places; or, of one directory, at most `search_wider_levels` above it. Files by suffix count, but `*.py`
        where the pattern is of what only Python's files hold (`def x`).
Context lines around matches: all that the expert's shows and at most twice as many; where it shows none, none.
Tool    shows lines where the call does not say; but where another call of tools does say, names, as such a tool does.
Errors  none. A pattern or argument that is not known is compared by its words.
"""

import json
from dataclasses import replace
from typing import Any

from paddock.resources_servers.pivot.semantic.intents.bare_commands import BareCommand, Stage
from paddock.resources_servers.pivot.semantic.intents.file_searches import (
    FILE_SEARCHES,
    file_search_of,
)
from paddock.resources_servers.pivot.semantic.intents.kinds import IntentKind, Surroundings
from paddock.resources_servers.pivot.semantic.intents.patterns import Pattern, pattern_of
from paddock.resources_servers.pivot.semantic.intents.search_programs import of_command, search_of
from paddock.resources_servers.pivot.semantic.intents.search_records import (
    MIN_SHOWN,
    TYPES,
    Shows,
    TextSearch,
    excluded,
    included,
)
from paddock.resources_servers.pivot.semantic.intents.views import is_file_name
from paddock.resources_servers.pivot.semantic.match_results import SAME, MatchResult, clip, differ
from paddock.resources_servers.pivot.semantic.options import SemanticOptions
from paddock.resources_servers.pivot.semantic.paths import levels_above, resolve
from paddock.tools import Action, Search
from paddock.types import Json, JsonObject

_SHOWS: dict[str, Shows] = {"content": "lines", "files_with_matches": "names", "count": "count"}
_LOOKS = frozenset({"-n", "line_numbers", "show_line_numbers"})
_CONTEXT = {
    "-A": "after", "after_context": "after", "-B": "before", "before_context": "before", "-C": "both",
    "context": "both", "context_lines": "both",
}  # fmt: skip
_LIMITS = frozenset({"head_limit", "limit", "max_results", "maxResults", "max_count"})
_IGNORES_CASE = frozenset({"-i", "ignore_case", "ignoreCase", "case_insensitive"})
_MATCHES_CASE = frozenset({"case_sensitive", "caseSensitive"})
_MODES = ("output_mode", "outputMode")


def of_action(action: Action, cwd: str | None) -> TextSearch | None:
    if not isinstance(action, Search) or action.mode != "content":
        return None
    rest: JsonObject = dict(action.rest)
    fold = False
    numbers = {"after": 0, "before": 0, "both": 0}
    cut: tuple[str, ...] = ()
    shows: Shows | None = None
    include = [action.include] if action.include else []
    for key, value in action.rest.items():
        if key in _IGNORES_CASE | _MATCHES_CASE and isinstance(value, bool):
            fold = value if key in _IGNORES_CASE else not value
        elif key in _CONTEXT and _is_count(value):
            numbers[_CONTEXT[key]] = int(value)
        elif key in _LIMITS and _is_count(value):
            cut = (f"first {value}",) if 0 < value < MIN_SHOWN else ()
        elif key in _MODES and isinstance(value, str) and value in _SHOWS:
            shows = _SHOWS[value]
        elif key == "type" and isinstance(value, str):
            include.append(TYPES.get(value, f"type {value}"))
        elif not (key in _LOOKS and isinstance(value, bool)):
            continue
        del rest[key]
    pattern = pattern_of((action.pattern,), "fixed" if action.literal else "rust", ignore_case=fold)
    words = Pattern(frozenset({f"{action.pattern!r} {action.literal} {fold}"}))
    return TextSearch(
        pattern or words,
        frozenset({resolve(action.path, cwd)}),
        include=included(glob for glob in include if not glob.startswith("!")),
        exclude=excluded(glob[1:] for glob in include if glob.startswith("!")),
        shows=shows or "lines",
        mode="explicit" if shows else "default",
        before=numbers["before"] or numbers["both"],
        after=numbers["after"] or numbers["both"],
        cut=cut,
        other=json.dumps(rest, sort_keys=True) if rest else "",
    )


def _is_count(value: Json) -> Any:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def compare_searches(expected: Search, actual: Search, surroundings: Surroundings) -> MatchResult:
    """Compare two searches by tools."""
    if expected.mode != actual.mode:
        return differ("kind_differs", f"expected a search of {expected.mode}, came one of {actual.mode}")
    cwd = surroundings.options.cwd
    kind = TEXT_SEARCHES if expected.mode == "content" else FILE_SEARCHES
    return kind.compare(kind.of_action(expected, cwd), kind.of_action(actual, cwd), surroundings)


def compare_text_searches(expected: TextSearch, actual: TextSearch, surroundings: Surroundings) -> MatchResult:
    same_pattern = expected.pattern == actual.pattern or (
        expected.pattern.with_literal_dots == actual.pattern.with_literal_dots
    )
    if not same_pattern or (expected.invert, expected.filters) != (actual.invert, actual.filters):
        return differ("pattern_differs", "the searches look for other text")
    if _files(expected) != _files(actual) or not _covers(expected, actual, surroundings.options):
        return differ("scope_differs", f"expected a search of {_where(expected)}, came one of {_where(actual)}")
    if (expected.cut, expected.other) != (actual.cut, actual.other) or not _shows_same(expected, actual):
        return differ("arguments_differ", "the searches show other parts of what they find")
    return SAME


def _files(search: TextSearch) -> tuple[frozenset[str], frozenset[str]]:
    is_only_there = len(search.include) == 1 and search.include <= search.pattern.only_in
    return frozenset() if is_only_there else search.include, search.exclude


def _covers(expected: TextSearch, actual: TextSearch, options: SemanticOptions) -> bool:
    if expected.where == actual.where:
        return expected.recursive == actual.recursive
    if len(expected.where) != 1 or len(actual.where) != 1 or not (expected.recursive and actual.recursive):
        return False
    (wanted,), (given,) = expected.where, actual.where
    above = levels_above(given, wanted)
    is_directory = not is_file_name(wanted) and not set("*?[") & set(wanted + given)
    return is_directory and above is not None and above <= options.search_wider_levels


def _shows_same(expected: TextSearch, actual: TextSearch) -> bool:
    if {expected.mode, actual.mode} == {"default", "explicit"}:
        shows = expected.shows if expected.mode == "explicit" else actual.shows
        if shows != "names":
            return False
    elif expected.shows != actual.shows:
        return False
    pairs = ((expected.before, actual.before), (expected.after, actual.after))
    return all(wanted <= given <= 2 * wanted for wanted, given in pairs)


def _where(search: TextSearch) -> str:
    files = f" in {sorted(search.include)!r:.80}" if search.include else ""
    return ", ".join(clip(path) for path in sorted(search.where)[:3]) + files


def _of_command(command: BareCommand) -> TextSearch | None:
    first, *others = command.stages
    if len(others) == 1 and others[0].words[0] == "xargs":
        words = others[0].words[1:]
        return _of_found_files(command, first, words[1:] if words[:1] in (("-0",), ("-r",)) else words)
    if not others and first.words.count("-exec") == 1 and first.words[-2:] in (("{}", "+"), ("{}", ";")):
        at = first.words.index("-exec")
        search = _of_found_files(command, replace(first, words=first.words[:at]), first.words[at + 1 : -2])
        return search if search is not None and search.shows in ("lines", "names") else None
    return of_command(command)


def _of_found_files(command: BareCommand, finder: Stage, words: tuple[str, ...]) -> TextSearch | None:
    """Read `find D -name '*.py' | xargs grep x`: a search of all files of these endings below the directory.

    `words`: of the program that is given the files which `finder` finds.
    """
    found = file_search_of(finder, command.directory)
    if found is None or not words or found.depth is not None or found.entries == "directories":
        return None
    if any(demand[0] != "ends" for demand in found.demands) or len(found.demands) > 1:
        return None
    if (command.environment, command.stdin, command.output_path, command.last_lines) != ((), None, None, None):
        return None
    search = search_of(Stage(words), command.directory, tuple(found.where))
    if search is None or search.include or (command.first_lines or MIN_SHOWN) < MIN_SHOWN or command.first_lines == 0:
        return None
    return replace(
        search,
        recursive=True,
        include=frozenset(f"*{demand[1]}" for demand in found.demands),
        exclude=search.exclude | found.exclude,
    )


TEXT_SEARCHES = IntentKind(TextSearch, of_action, _of_command, compare_text_searches, changes=False)
