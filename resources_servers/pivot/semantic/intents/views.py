"""Views: which lines of which file are shown.

Law     two views are the same where they are of the same file, and the lines shown hold at least `read_min_coverage`
        of the expert's without being more than `read_max_ratio` times as many (or `read_extra_lines` more). Where the
        history shows the whole file, an end is no further than its last line; else an open end is covered by an open
        end only. So a view of the whole file stands for a part as far as any other view of as many lines does, or
        always with `read_whole_file_ok`. Numbers in front of lines are looks; marks at ends and tabs are none.
Path    an editor's view without a range is of a file where the path's name looks like one: it has a suffix, begins with
        a dot, is in capitals or ends in "file". Others may be directories (`listings`).
Joined  views of one row that go on where another ends are one.
Errors  None: something else is done, or a part of it is not known.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from posixpath import basename

from paddock.resources_servers.pivot.semantic.history import FileHistory, PrintedFile
from paddock.resources_servers.pivot.semantic.intents.bare_commands import BareCommand, Stage, bare_commands
from paddock.resources_servers.pivot.semantic.intents.kinds import IntentKind, Surroundings
from paddock.resources_servers.pivot.semantic.intents.line_ranges import WHOLE, LineRange
from paddock.resources_servers.pivot.semantic.intents.python_views import python_lines
from paddock.resources_servers.pivot.semantic.intents.view_programs import Prints, printed_by
from paddock.resources_servers.pivot.semantic.match_results import SAME, MatchResult, clip, describe, differ
from paddock.resources_servers.pivot.semantic.options import SemanticOptions
from paddock.resources_servers.pivot.semantic.paths import resolve
from paddock.shell import Simple, parse
from paddock.shell.syntax import Pipeline
from paddock.tools import READ_LIMIT_LINES, Action, ReadFile, ShellCommand, plain_command, same_json


@dataclass(frozen=True, slots=True)
class FileView:
    """Some lines of one file."""

    path: str
    """Resolved."""
    lines: LineRange = WHOLE
    marked: bool = False
    """True: ends of lines or tabs are made visible."""
    prints: Prints = field(default="text", compare=False)


def _of_action(action: Action, cwd: str | None) -> FileView | None:
    if not isinstance(action, ReadFile) or action.rest or (action.whole and not is_file_name(action.path)):
        return None
    return _of_read(action, cwd)


def _of_read(action: ReadFile, cwd: str | None) -> FileView:
    return FileView(resolve(action.path, cwd), LineRange(action.first_line, action.last_line))


_SUFFIX = re.compile(r".\.(?!d$)[A-Za-z_][\w+-]*$")
_DIRECTORY_SUFFIXES = (".app", ".egg", ".egg-info", ".dist-info", ".git")
_DOT_DIRECTORIES = frozenset({".git", ".github", ".circleci", ".vscode", ".idea", ".tox", ".venv", ".cache", ".config"})


def is_file_name(path: str) -> bool:
    """Say whether a path's name looks like one of a file."""
    name = basename(path)
    if name.startswith(".") and name.strip("."):
        return name not in _DOT_DIRECTORIES
    return bool(_SUFFIX.search(name)) or (name.isupper() and len(name) > 1) or name.lower().endswith("file")


def has_suffix(path: str) -> bool:
    """Say whether a path's name ends as files' names do: in a suffix that directories do not have."""
    name = basename(path)
    return bool(_SUFFIX.search(name)) and not name.startswith(".") and not name.endswith(_DIRECTORY_SUFFIXES)


def _of_command(command: BareCommand) -> list[FileView] | None:
    if command.environment or command.output_path is not None:
        return None
    views: list[FileView] = []
    for index, stage in enumerate(command.stages):
        program = _python_program(stage, command.stdin if index == 0 else None)
        if stage.globs or (command.stdin is not None and program is None):
            return None
        printed = printed_by(stage.words) if program is None else python_lines(program)
        if printed is None or bool(printed.paths) != (index == 0):
            return None
        if index == 0:
            paths = [resolve(path, command.directory) for path in printed.paths]
            views = [
                FileView(path, lines, printed.marked, printed.prints) for path in paths for lines in printed.ranges
            ]
            continue
        cut = [_cut(views, lines) for lines in printed.ranges]
        views = [view for part in cut if part is not None for view in part]
        if None in cut:
            return None
        kept = printed.prints == "text" and not printed.marked
        views = [
            replace(view, marked=view.marked or printed.marked, prints=view.prints if kept else "other")
            for view in views
        ]
    shown = _cut(views, LineRange(1, command.first_lines, command.last_lines))
    return shown or None


_PYTHON = re.compile(r"(?:.*/)?python(?:3(?:\.[0-9]+)?)?")


def _python_program(stage: Stage, stdin: str | None) -> str | None:
    """Return the program that a Python is given in its words or as its input; None: it is none, or given none."""
    match stage.words:
        case (python, "-c", program) if stdin is None and _PYTHON.fullmatch(python):
            return program
        case (python,) | (python, "-") if _PYTHON.fullmatch(python):
            return stdin
        case _:
            return None


def _cut(views: Sequence[FileView], lines: LineRange) -> list[FileView] | None:
    """Return what is left of views when of all that they show only some lines are shown; None: that is not known."""
    if lines == WHOLE:
        return list(views)
    left = views[0].lines.cut(lines) if len(views) == 1 else None
    return [replace(views[0], lines=left)] if left is not None else None


def printed_file(command: ShellCommand, cwd: str | None) -> PrintedFile | None:
    """Return the file that a command prints, where its whole output is one stretch of that file's lines."""
    first = _first_words(command.command)
    if first is None:
        return None
    commands = bare_commands(command.command, resolve(command.workdir, cwd) if command.workdir else cwd)
    if commands is None or commands[0].stages[0].words != first:
        return None
    views = _of_command(commands[0])
    if views is None or len(views) != 1 or views[0].prints == "other" or views[0].lines.tail is not None:
        return None
    view = views[0]
    return PrintedFile(view.path, view.lines.first, view.lines.last, view.prints == "numbered")


def _first_words(command_line: str) -> tuple[str | None, ...] | None:
    """Return the words of a command, or of the first of a pipeline, where all that is printed is the last one's output.

    None: there is more than that.
    """
    plain = plain_command(command_line)
    if plain is not None:
        return None if plain.command.redirects else tuple(word.text for word in plain.command.words)
    statements = parse(command_line).statements
    if len(statements) != 1 or statements[0].background or not isinstance(pipeline := statements[0].node, Pipeline):
        return None
    stages = [stage for stage in pipeline.stages if isinstance(stage, Simple) and not stage.redirects]
    if pipeline.negated or len(stages) != len(pipeline.stages) or any(stage.assigns for stage in stages):
        return None
    return tuple(word.text for word in stages[0].words)


def _joined(views: Sequence[FileView]) -> list[FileView]:
    """Return the views with those as one that go on where another one ends."""
    found: list[FileView] = []
    for view in sorted(views, key=lambda view: (view.path, view.marked, view.lines.first)):
        last = found[-1] if found else view
        together = last.lines.joined(view.lines) if (last.path, last.marked) == (view.path, view.marked) else None
        if found and together is not None:
            found[-1] = replace(last, lines=together)
        else:
            found.append(view)
    return found


def compare_reads(expected: ReadFile, actual: ReadFile, surroundings: Surroundings) -> MatchResult:
    if not same_json(expected.rest, actual.rest):
        return differ("arguments_differ", f"of {describe(expected)} other arguments differ")
    cwd = surroundings.options.cwd
    return _compare(_of_read(expected, cwd), _of_read(actual, cwd), surroundings)


def _compare(expected: FileView, actual: FileView, surroundings: Surroundings) -> MatchResult:
    if expected.path != actual.path:
        return differ("path_differs", f"expected {clip(expected.path)}, came {clip(actual.path)}")
    if expected.marked != actual.marked:
        return differ("arguments_differ", f"of {clip(expected.path)} only one view shows ends of lines")
    options = surroundings.options
    if actual.lines == WHOLE and options.read_whole_file_ok:
        return SAME
    count = _line_count(expected.path, surroundings.history)
    if _shows(expected.lines.within(count), actual.lines.within(count), options):
        return SAME
    return differ("lines_differ", f"expected {_described(expected)}, came {_described(actual)}")


def _line_count(path: str, history: FileHistory) -> int | None:
    """Return how many lines a file has where the history shows all of it and a tool shows that many at once."""
    whole = next((text.text for text in history.texts(path) if text.complete), "")
    lines = whole.count("\n") + (not whole.endswith("\n"))
    return lines if whole and lines <= READ_LIMIT_LINES else None


def _shows(expected: LineRange, actual: LineRange, options: SemanticOptions) -> bool:
    if expected == actual:
        return True
    if expected.tail is not None or actual.tail is not None:
        if expected.tail is None or actual.tail is None or expected[:2] != actual[:2]:
            return False
        wanted, shown = expected.tail, actual.tail
        both = min(wanted, shown)
    elif expected.last is None or actual.last is None:
        early = expected.first - actual.first
        return expected.last == actual.last and 0 <= early <= options.read_extra_lines
    else:
        wanted = expected.last - expected.first + 1
        shown = actual.last - actual.first + 1
        both = min(expected.last, actual.last) - max(expected.first, actual.first) + 1
    most = max(options.read_max_ratio * wanted, wanted + options.read_extra_lines)
    return both >= options.read_min_coverage * wanted and shown <= most


def _described(view: FileView) -> str:
    first, last, tail = view.lines
    which = f"lines {first} to {'the end' if last is None else last}" if tail is None else f"the last {tail} lines"
    return f"a read of {clip(view.path)}, {which}"


VIEWS = IntentKind(FileView, _of_action, _of_command, _compare, changes=False, join=_joined)
