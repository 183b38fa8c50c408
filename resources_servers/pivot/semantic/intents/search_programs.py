"""Searches for text by programs: `grep` and its like, alone, behind `cat`, and in front of filters and counts.

Source  the manuals of GNU grep, git grep, ripgrep, ag, ack, sed and awk.
Rules   a search of a directory looks into all files below that a person has in mind: whether it sees hidden and ignored
        ones is the same. `ag` ignores case where the pattern has no capitals: so it does here only with `-S` or `-i`.
        A cut to `MIN_SHOWN` matches or more (`| head -20`, `-m 50`) is none. `sort` and `uniq` are looks.
Errors  None: another program, or a word whose meaning is not known.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from posixpath import basename, dirname
from typing import NamedTuple

from paddock.resources_servers.pivot.semantic.intents.bare_commands import BareCommand, Stage
from paddock.resources_servers.pivot.semantic.intents.dialects import Dialect
from paddock.resources_servers.pivot.semantic.intents.patterns import Pattern, pattern_of
from paddock.resources_servers.pivot.semantic.intents.search_options import ProgramWords, program_words
from paddock.resources_servers.pivot.semantic.intents.search_records import (
    MIN_SHOWN,
    TYPES,
    Shows,
    TextSearch,
    excluded,
    included,
)
from paddock.resources_servers.pivot.semantic.intents.views import is_file_name
from paddock.resources_servers.pivot.semantic.paths import resolve

_DIALECTS: dict[str, Dialect] = {"basic": "basic", "extended": "extended", "fixed": "fixed", "perl": "perl"}
_OWN_DIALECT: dict[str, Dialect] = {"rg": "rust", "ag": "perl", "ack": "perl"}
_GREPS = {"grep": "", "ggrep": "", "egrep": "extended", "fgrep": "fixed", "rgrep": "recursive"}
_SHOWS: tuple[Shows, ...] = ("quiet", "names", "names_without", "count", "only")
_SED_SCRIPT = re.compile(r"/((?:[^/\\]|\\.)+)/p")
_AWK_PREFIX = r"(?:(?:FILENAME|F?NR)\s*+\"(?:: ?|-|\\t)\"\s*+)*"
_AWK_SCRIPT = re.compile(rf"\s*+/((?:[^/\\]|\\.)+)/\s*+(?:\{{\s*+print(?:\s++{_AWK_PREFIX}\$0)?\s*+;?\s*+\}}\s*+)?")
"""The lines that match, with their numbers and their file's name in front, which are looks."""
_REVISION = re.compile(r"HEAD.*|FETCH_HEAD|ORIG_HEAD|main|master|origin/.*|[0-9a-f]{7,40}|.*[~^@:{].*|v?\d+(\.\d+)+")
_LOOKS_AFTER = {"sort": re.compile(r"-[uVnrfk\d,:t]+"), "uniq": re.compile("(?!)")}
_GLOB_CHARS = frozenset("*?[")


class Request(NamedTuple):
    """One run of a search program."""

    pattern: Pattern
    words: ProgramWords
    paths: tuple[str, ...]
    recursive: bool
    shows: Shows
    globs: frozenset[str]
    """Those of the paths that are globs: of the shell, or of git."""
    program: str

    def has(self, meaning: str) -> bool:
        return any(name == meaning for name, _ in self.words.options)

    def values(self, meaning: str) -> list[str]:
        return [value for name, value in self.words.options if name == meaning]


def request_of(stage: Stage) -> Request | None:
    """Read one run of a search program."""
    name = basename(stage.words[0])
    program, skipped, presets = name, 1, ""
    if name in _GREPS:
        program, presets = "grep", _GREPS[name]
    elif stage.words[:2] == ("git", "grep"):
        program, skipped = "git grep", 2
    elif name not in _OWN_DIALECT:
        return None
    words = program_words(program, stage.words[skipped:])
    if words is None or any(name == "files" for name, _ in words.options):
        return None
    if presets:
        words = words._replace(options=((presets, ""), *words.options))
    patterns = [value for name, value in words.options if name == "pattern"]
    from_operand = 0 if patterns else 1
    if not patterns and (not words.operands or skipped + words.operand_indexes[0] in stage.globs):
        return None
    patterns = patterns or [words.operands[0]]
    found = _pattern(patterns, words, _OWN_DIALECT.get(program, "basic"))
    shown_kinds = [shows for shows in _SHOWS if any(name == shows for name, _ in words.options)]
    if found is None or len(shown_kinds) > 1:
        return None
    if program == "git grep" and _names_revisions(words, from_operand):
        return None
    paths = words.operands[from_operand:]
    globs = {
        path
        for path, at in zip(paths, words.operand_indexes[from_operand:], strict=True)
        if skipped + at in stage.globs or (program == "git grep" and _GLOB_CHARS & set(path))
    }
    recursive = program != "grep" or any(name == "recursive" for name, _ in words.options)
    return Request(
        found, words, paths, recursive, shown_kinds[0] if shown_kinds else "lines", frozenset(globs), program
    )


def _names_revisions(words: ProgramWords, first: int) -> bool:
    if words.separator is not None:
        return words.separator > first
    return any(_REVISION.fullmatch(word) and not is_file_name(word) for word in words.operands[first:])


def _pattern(patterns: Sequence[str], words: ProgramWords, dialect: Dialect) -> Pattern | None:
    names = [name for name, _ in words.options]
    dialect = next((_DIALECTS[name] for name in reversed(names) if name in _DIALECTS), dialect)
    case = next((name for name in reversed(names) if name.endswith("_case")), "match_case")
    if case == "smart_case":
        has_capitals = any(char.isupper() for text in patterns for char in re.sub(r"\\.", "", text))
        case = "match_case" if has_capitals else "ignore_case"
    whole = "line" if "line" in names else "word" if "word" in names else ""
    return pattern_of(tuple(patterns), dialect, ignore_case=case == "ignore_case", whole=whole, exact="only" in names)


def search_of(stage: Stage, directory: str | None, paths: tuple[str, ...] = ()) -> TextSearch | None:
    """Read a search that names its files. `paths`: those that another program gives it."""
    request = request_of(stage) or _line_printer(stage)
    if request is None or (paths and request.paths):
        return None
    given = paths or request.paths
    if not given and not request.recursive:
        return None
    include, exclude = _scope(request)
    where: set[str] = set()
    for path in given or (".",):
        if request.program == "git grep" and path.startswith(":"):
            left_out = re.fullmatch(r":(?:!|\^|\(exclude\))(.+)", path)
            if left_out is None:
                return None
            exclude.append(left_out[1])
        elif request.program == "git grep" and path in request.globs and not _GLOB_CHARS & set(dirname(path)):
            where.add(resolve(dirname(path) or ".", directory))
            include.append(basename(path))
        elif path in request.globs and basename(path) == "*" and not _GLOB_CHARS & set(dirname(path)):
            where.add(resolve(dirname(path) or ".", directory) if request.recursive else resolve(path, directory))
        else:
            where.add(resolve(path, directory))
    return _with_numbers(
        TextSearch(
            request.pattern,
            frozenset(where or {resolve(".", directory)}),
            recursive=request.recursive or all(is_file_name(path) and path not in request.globs for path in given),
            invert=request.has("invert"),
            include=included(include),
            exclude=excluded(exclude),
            shows=request.shows,
        ),
        request,
    )


def _scope(request: Request) -> tuple[list[str], list[str]]:
    """Return the globs of files that are searched, and of those that are not."""
    include = request.values("include")
    exclude = request.values("exclude") + request.values("exclude_dir")
    if request.program == "rg":
        exclude += [glob[1:] for glob in include if glob.startswith("!")]
        include = [glob for glob in include if not glob.startswith("!")]
    include += [TYPES.get(name, f"type {name}") for name in request.values("type")]
    include += ["*.py"] if request.has("python") else []
    exclude += [TYPES.get(name, f"type {name}") for name in request.values("not_type")]
    return include, exclude


def _with_numbers(search: TextSearch, request: Request) -> TextSearch | None:
    """Add what the options that are numbers say."""
    numbers: dict[str, int] = {}
    for name, value in request.words.options:
        if name in ("after", "before", "context", "max", "columns"):
            if not value.isdigit() or len(value) > 6:
                return None
            numbers[name] = int(value)
    if 0 < numbers.get("columns", 0) < 80 or numbers.get("max") == 0:
        return None
    context = numbers.get("context", 0)
    most = numbers.get("max", MIN_SHOWN)
    return replace(
        search,
        before=numbers.get("before", context),
        after=numbers.get("after", context),
        cut=(f"each {most}",) if most < MIN_SHOWN else (),
        shows="lines_total" if search.shows == "count" and _is_one_file(search) else search.shows,
    )


def _is_one_file(search: TextSearch) -> bool:
    return len(search.where) == 1 and all(is_file_name(path) and not _GLOB_CHARS & set(path) for path in search.where)


def _line_printer(stage: Stage) -> Request | None:
    """Read a `sed` or `awk` that only prints the lines that match."""
    dialect: Dialect = "basic"
    match stage.words:
        case ("sed" | "gsed", "-n", script, *paths):
            found = _SED_SCRIPT.fullmatch(script)
        case ("sed" | "gsed", "-nE" | "-nr" | "-En" | "-rn", script, *paths):
            found, dialect = _SED_SCRIPT.fullmatch(script), "extended"
        case ("awk" | "gawk" | "mawk", script, *paths):
            found, dialect = _AWK_SCRIPT.fullmatch(script), "extended"
        case _:
            return None
    if found is None or any(path.startswith("-") or "=" in path for path in paths):
        return None
    pattern = pattern_of((found[1].replace("\\/", "/"),), dialect)
    globs = frozenset(path for path in paths if stage.words.index(path) in stage.globs)
    words = ProgramWords((), tuple(paths), (), None)
    if pattern is None:
        return None
    return Request(pattern, words, tuple(paths), recursive=False, shows="lines", globs=globs, program="sed")


def filtered(search: TextSearch, stages: Sequence[Stage]) -> TextSearch | None:
    """Return a search behind whose program others stand."""
    for stage in stages:
        program, *arguments = stage.words
        if search.shows in ("quiet", "lines_total", "names_total", "only_total"):
            return None
        looks = _LOOKS_AFTER.get(program)
        if looks is not None and all(map(looks.fullmatch, arguments)):
            if search.shows == "only" and (program == "uniq" or any("u" in word for word in arguments)):
                return None
            continue
        if stage.words == ("wc", "-l"):
            total = _TOTALS.get(search.shows)
            if total is None or search.before or search.after:
                return None
            search = replace(search, shows=total)
            continue
        changed = _with_filter(search, stage)
        if changed is None:
            return None
        search = changed
    return search


_TOTALS: dict[Shows, Shows] = {"lines": "lines_total", "names": "names_total", "only": "only_total"}


def filter_of(stage: Stage) -> tuple[Pattern, bool] | None:
    """Return what a program lets through of its input: lines that match or, with True, those that do not."""
    request = request_of(stage)
    known = {"pattern", "word", "invert", "fixed", "basic", "extended", "perl", "ignore_case"}
    if request is None or request.paths or {name for name, _ in request.words.options} - known:
        return None
    return (request.pattern, request.has("invert")) if request.program != "git grep" else None


def _with_filter(search: TextSearch, stage: Stage) -> TextSearch | None:
    request = request_of(stage) or _line_printer(stage)
    if request is None or request.paths or search.before or search.after or search.shows not in ("lines", "names"):
        return None
    if request.recursive and request.program == "git grep":
        return None
    known = {"pattern", "word", "invert", "fixed", "basic", "extended", "perl", "count", "look", "ignore_case"}
    # What stands in front of a line is a look, so a filter must not ask for it.
    if {name for name, _ in request.words.options} - known or request.pattern.anchored:
        return None
    filters = search.filters | {(request.pattern, request.has("invert"))}
    total = _TOTALS[search.shows] if request.shows == "count" else search.shows
    return replace(search, filters=filters, shows=total)


def of_command(command: BareCommand) -> TextSearch | None:
    if command.environment or command.output_path is not None or command.stdin is not None:
        return None
    first, *rest = command.stages
    paths: tuple[str, ...] = ()
    if first.words[0] == "cat" and rest and len(first.words) > 1 and not first.globs:
        paths, (first, *rest) = first.words[1:], rest
        if any(path.startswith("-") for path in paths):
            return None
    directory = command.directory
    if first.words[:2] == ("git", "-C") and len(first.words) > 4 and not first.globs & {1, 2, 3}:
        directory = resolve(first.words[2], directory)
        first = Stage(("git", *first.words[3:]), frozenset(at - 2 for at in first.globs))
    search = search_of(first, directory, paths)
    if search is not None and paths and search.shows == "count":
        search = replace(search, shows="lines_total")
    found = filtered(search, rest) if search is not None else None
    if found is None:
        return None
    least = MIN_SHOWN * (1 + found.before + found.after)
    cut = [f"first {command.first_lines}"] if (command.first_lines or least) < least else []
    cut += [f"last {command.last_lines}"] if (command.last_lines or least) < least else []
    if command.first_lines == 0 or command.last_lines == 0:
        return None
    return replace(found, cut=(*found.cut, *cut))
