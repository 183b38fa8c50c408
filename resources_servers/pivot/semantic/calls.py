"""Both sides' calls as actions, read with the tools that the row offers.

Tools   `params["tools"]`: Responses or chat form, namespaces opened. With tools, a call of another name is
        `unknown_tool`. The row's schema of a tool is believed unless the expert's own call breaks it; then the table
        of `paddock.tools` stands in, for both sides. An expert's call that the table cannot read either has nothing
        read into it: a call of the same name and equal arguments matches it, no other.
Cut     of a response that is not complete the last call is not trusted when the response ends with it; nor is a call
        marked incomplete, nor any call of a response that failed.
Others  a call of a tool that the provider runs (`local_shell_call`, ...) is a call, and matches nothing.
Errors  none: a call that is not an action has a `problem`.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from paddock.resources_servers.pivot.semantic.match_results import MatchResult, differ
from paddock.resources_servers.pivot.task import ExpectedCall
from paddock.tools import Action, InvalidCall, decode_object, normalise, normalise_by_name
from paddock.types import JsonObject
from paddock.types.responses import CALLS, is_complete, item_type, output_items, tool_call


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
