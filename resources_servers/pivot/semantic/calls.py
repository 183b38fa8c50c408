"""Both sides of a comparison: their calls as actions, read with the tools that the row offers, and what is beside them.

Tools   `params["tools"]`: Responses or chat form, namespaces opened. With tools, a call of another name is
        `unknown_tool`. The row's schema of a tool is believed unless the expert's own call breaks it; then the table
        of `paddock.tools` stands in, for both sides. An expert's call that the table cannot read either has nothing
        read into it: a call of the same name and equal arguments matches it, no other.
Cut     of a response that is not complete the last call is not trusted when the response ends with it; nor is a call
        marked incomplete, nor any call of a response that failed.
Others  a call of a tool that the provider runs (`local_shell_call`, ...) is a call, and matches nothing.
Joined  of calls that only look, those that show lines of one file which go on where another's end are one call, on
        both sides; it stands where the first of them stood. A call that may change something parts those before it from
        those after. What a response earns is so what it would with the joined views, which no guess gains by. Left
        alone: the same lines twice, lines with a gap between them, marked ends of lines, calls with limits or arguments
        of their own, and calls that show more than one stretch.
Place   looked for in the history only where it may decide.
Errors  none: a call that is not an action has a `problem`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from paddock.resources_servers.pivot.semantic.history import FileHistory
from paddock.resources_servers.pivot.semantic.intents import changed_texts, intents_of
from paddock.resources_servers.pivot.semantic.intents.kinds import Surroundings
from paddock.resources_servers.pivot.semantic.intents.line_ranges import LineRange
from paddock.resources_servers.pivot.semantic.intents.views import VIEWS, FileView, printed_file
from paddock.resources_servers.pivot.semantic.match_results import MatchResult, differ
from paddock.resources_servers.pivot.semantic.options import SemanticOptions
from paddock.resources_servers.pivot.semantic.place import Places, depends_on_place
from paddock.resources_servers.pivot.semantic.surplus import only_looks
from paddock.resources_servers.pivot.task import ExpectedAction, ExpectedCall, expected_calls
from paddock.shell import StepBudget
from paddock.tools import (
    Action,
    CommandLimits,
    Edit,
    InvalidCall,
    ReadFile,
    ShellCommand,
    decode_object,
    normalise,
    normalise_by_name,
    same_json,
)
from paddock.types import JsonObject
from paddock.types.responses import CALLS, is_complete, item_type, output_items, tool_call

MAX_HISTORY_STEPS = 8_000
"""Steps (`paddock.shell.memo`) in which the history is read for one comparison: 6,400 nodes of commands, or 3 million
characters of what tools printed. What is beyond is not known: edits are compared by themselves then."""


class ParsedCall(NamedTuple):
    """A call, and the action that it asks for, or why it asks for none."""

    name: str
    action: Action | None
    problem: MatchResult | None = None
    """None exactly when there is an action."""


class RowTools:
    """The tools of one row, and how far their schemas are believed."""

    def __init__(self, params: JsonObject) -> None:
        tools = params.get("tools") if isinstance(params, dict) else None
        self._tools = {name: tool for name, tool in _named_tools(tools) if name}
        self._names = set(self._tools)
        self._distrusted: set[str] = set()
        self._opaque: set[str] = set()
        self._own: dict[tuple[str, str], ParsedCall] = {}
        """The expert's calls by tool and arguments."""

    def expected(self, calls: Sequence[ExpectedCall]) -> list[ParsedCall]:
        """Parse the expert's calls; decides first how far each tool's schema is believed."""
        self._names.update(call.name for call in calls)
        while True:
            before = len(self._distrusted) + len(self._opaque)
            parsed_calls = [self._expected(call) for call in calls]
            if len(self._distrusted) + len(self._opaque) == before or len(calls) == 1:
                break
        self._own = {(call.name, call.arguments): one for call, one in zip(calls, parsed_calls, strict=True)}
        return parsed_calls

    def _expected(self, call: ExpectedCall) -> ParsedCall:
        action = self._read(call.name, call.arguments)
        if isinstance(action, InvalidCall) and self.schema(call.name) is not None:
            self._distrusted.add(call.name)
            action = self._read(call.name, call.arguments)
        if isinstance(action, InvalidCall) and action.reason != "bad_patch":
            self._opaque.add(call.name)
            action = self._read(call.name, call.arguments)
        if isinstance(action, InvalidCall):
            detail = f"the expert's call of {call.name[:60]} cannot be read: {action.detail}"
            return ParsedCall(call.name, None, differ("expected_unusable", detail))
        return ParsedCall(call.name, action)

    def actual(self, name: str, arguments: str) -> ParsedCall:
        """Parse the policy's call as the expert's calls of the same tool were."""
        own = self._own.get((name, arguments))
        if own is not None and own.action is not None:
            return own
        if self._tools and name not in self._names:
            return ParsedCall(name, None, differ("unknown_tool", f"{name[:60]!r} is none of the row's tools"))
        if self._is_custom(name) and isinstance(decode_object(arguments, unique=True), InvalidCall):
            arguments = json.dumps({"input": arguments})
        action = self._read(name, arguments)
        if isinstance(action, InvalidCall):
            return ParsedCall(name, None, differ(action.reason, f"call of {name[:60]}: {action.detail}"))
        return ParsedCall(name, action)

    def _read(self, name: str, arguments: str) -> Action | InvalidCall:
        read = normalise_by_name if name in self._opaque else normalise
        return read(name, arguments, schema=self.schema(name), unique=True)

    def schema(self, name: str) -> JsonObject | None:
        """Return the JSON schema of the row's tool of this name; None: there is none, or it is not believed."""
        if name in self._distrusted:
            return None
        tool = self._tools.get(name, {})
        schema = tool.get("parameters", tool.get("input_schema"))
        return schema if isinstance(schema, dict) else None

    def _is_custom(self, name: str) -> bool:
        tool = self._tools.get(name)
        return tool is not None and tool.get("type") == "custom" and "input_schema" not in tool


def _named_tools(tools: Any, depth: int = 0) -> Iterator[tuple[str, JsonObject]]:
    for tool in tools if isinstance(tools, list) else []:
        if not isinstance(tool, dict):
            continue
        if isinstance(tool.get("tools"), list) and depth < 4:
            yield from _named_tools(tool["tools"], depth + 1)
            continue
        inner = tool["function"] if isinstance(tool.get("function"), dict) else tool
        name = inner.get("name")
        if isinstance(name, str):
            yield name, inner


def parse_actual_calls(response: object, tools: RowTools) -> list[ParsedCall]:
    """Parse the policy's calls in order; one that is not trusted is `incomplete`."""
    items = output_items(response)
    trusted = [_is_whole(item) for item in items]
    if isinstance(response, dict) and not is_complete(response):
        if response.get("status") in ("failed", "cancelled"):
            trusted = [False] * len(items)
        elif items:
            trusted[-1] = False
    parsed_calls: list[ParsedCall] = []
    for item, whole in zip(items, trusted, strict=True):
        kind = item_type(item)
        if not _is_call(item):
            continue
        if kind not in CALLS:
            parsed_calls.append(
                ParsedCall(kind, None, differ("unknown_tool", f"{kind[:60]} is none of the row's tools"))
            )
            continue
        call = tool_call(item)
        if whole:
            parsed_calls.append(tools.actual(call.name, call.arguments))
        else:
            detail = f"the response was cut in or after the call of {call.name[:60]}"
            parsed_calls.append(ParsedCall(call.name, None, differ("incomplete", detail)))
    return parsed_calls


def _is_whole(item: JsonObject) -> bool:
    return item.get("status") not in ("incomplete", "in_progress", "failed")


def _is_call(item: JsonObject) -> bool:
    return item_type(item).endswith("_call")


def count_calls(response: object) -> int:
    return sum(map(_is_call, output_items(response)))


class Sides(NamedTuple):
    """The calls of both sides, and their surroundings; the options there have the place where tools run."""

    ours: list[ParsedCall]
    """The expert's."""
    theirs: list[ParsedCall]
    surroundings: Surroundings


def read_sides(
    expected: ExpectedAction,
    response: object,
    params: JsonObject,
    options: SemanticOptions,
    row_task: Mapping[str, Any],
) -> Sides:
    tools = RowTools(params)
    ours = tools.expected(expected_calls(expected))
    theirs = parse_actual_calls(response, tools)
    history_budget = StepBudget(MAX_HISTORY_STEPS)
    places = Places(params, options, row_task, history_budget)
    if not _are_one_action(ours, theirs) and any(depends_on_place(call.action) for call in (*ours, *theirs)):
        options = options.model_copy(update={"cwd": places.last}) if places.last != options.cwd else options
    ours, theirs = join_views(ours, options), join_views(theirs, options)
    history = FileHistory(params, tools.schema, printed_file, changed_texts, places, history_budget)
    return Sides(ours, theirs, Surroundings(history, options))


def _are_one_action(ours: Sequence[ParsedCall], theirs: Sequence[ParsedCall]) -> bool:
    """Say whether one call came that asks for what the expert's does, word for word: wherever it runs, it does too."""
    if len(ours) != 1 or len(theirs) != 1:
        return False
    own, other = ours[0].action, theirs[0].action
    if not isinstance(own, ShellCommand | Edit) or not isinstance(other, ShellCommand | Edit):
        return False
    return own == other and same_json(own.rest, other.rest)


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
