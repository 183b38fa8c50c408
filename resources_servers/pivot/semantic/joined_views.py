"""Views of one file by several calls, as the one view that they make.

Law     of calls that only look, those that show lines of one file which go on where another's end are one call, on both
        sides; it stands where the first of them stood. A call that may change something parts those before it from
        those after. What a response earns is so what it would with the joined views, which no guess gains by.
Left alone  the same lines twice, lines with a gap between them, marked ends of lines, calls with limits or arguments of
        their own, and calls that show more than one stretch.
"""

from collections.abc import Sequence
from itertools import groupby

from paddock.resources_servers.pivot.semantic.calls import ParsedCall
from paddock.resources_servers.pivot.semantic.intents import intents_of
from paddock.resources_servers.pivot.semantic.intents.line_ranges import LineRange
from paddock.resources_servers.pivot.semantic.intents.views import VIEWS, FileView
from paddock.resources_servers.pivot.semantic.options import SemanticOptions
from paddock.resources_servers.pivot.semantic.surplus import only_looks
from paddock.tools import CommandLimits, ReadFile, ShellCommand


def join_views(calls: Sequence[ParsedCall], options: SemanticOptions) -> list[ParsedCall]:
    """Return the calls with neighbouring views of one file as one."""
    if len(calls) < 2:
        return list(calls)
    found: list[ParsedCall] = []
    for looks, group in groupby(calls, lambda call: only_looks(call.action, options)):
        run = list(group)
        found.extend(_joined(run, options) if looks else run)
    return found


def _joined(calls: Sequence[ParsedCall], options: SemanticOptions) -> list[ParsedCall]:
    kept = dict(enumerate(calls))
    views = [(view.path, view.lines, at) for at, call in kept.items() if (view := _view_of(call, options)) is not None]
    last: tuple[str, LineRange, int] | None = None
    for path, lines, at in sorted(views, key=lambda view: (view[0], view[1].first)):
        together = last[1].joined(lines) if last is not None and last[0] == path else None
        if last is None or together is None:
            last = (path, lines, at)
            continue
        first = min(last[2], at)
        del kept[max(last[2], at)]
        kept[first] = ParsedCall(calls[first].name, ReadFile(path, together.first, together.last))
        last = (path, together, first)
    return [kept[at] for at in sorted(kept)]


def _view_of(call: ParsedCall, options: SemanticOptions) -> FileView | None:
    """Return the one stretch of a file that a call shows, where nothing else is said of it."""
    action = call.action
    if action is None or (isinstance(action, ShellCommand) and (action.rest or action.limits != CommandLimits())):
        return None
    intents = intents_of(action, options.cwd)
    if len(intents) != 1 or intents[0].kind is not VIEWS:
        return None
    view: FileView = intents[0].record
    return None if view.marked or view.lines.tail is not None else view
