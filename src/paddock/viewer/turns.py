"""The turns of a rollout, made from the items of its response: messages, tool calls and their results.

Turn    begins at the model's first item after a result, or where a recorded turn begins; each call comes before its
        result, whatever the order of the items. Where a response has no items, the recorded turns are used.
Errors  none: an item of another shape is shown as JSON.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

from paddock.types import JsonObject, Rollout
from paddock.types.responses import CALLS, content_text, item_type, output_items
from paddock.viewer.changes import NO_CHANGE, CallChange, call_change

Kind = Literal["reasoning", "text", "call", "result", "other"]
_RESULTS = ("function_call_output", "custom_tool_call_output")


class TurnItem(NamedTuple):
    """A message, a tool call or a result, as text."""

    kind: Kind
    title: str
    """The tool's name of a call, the role of another's message, the type of another item; else empty."""
    text: str
    change: CallChange = NO_CHANGE
    """Of a call."""


class TurnView(NamedTuple):
    """A turn as it is shown."""

    number: int
    """From 1."""
    items: list[TurnItem]

    @property
    def calls(self) -> list[TurnItem]:
        return [item for item in self.items if item.kind == "call"]

    @property
    def without_results(self) -> list[TurnItem]:
        return [item for item in self.items if item.kind != "result"]


def turn_views(rollout: Rollout) -> list[TurnView]:
    """The turns of a rollout, in order."""
    starts = {_id(turn.output[0]) for turn in rollout.turns if turn.output} - {None}
    items = output_items(rollout.response)
    groups = list(_group_by_turn(items, starts)) if items else [turn.output for turn in rollout.turns]
    return [TurnView(number, turn_items(group)) for number, group in enumerate(groups, 1)]


def turn_items(items: Sequence[JsonObject]) -> list[TurnItem]:
    """Items to show: each call before its result; messages of others than the model under their role."""
    return list(_turn_items(items))


def _group_by_turn(items: Sequence[JsonObject], starts: set[Any]) -> Iterator[list[JsonObject]]:
    group: list[JsonObject] = []
    for item in items:
        after_result = bool(group) and item_type(group[-1]) in _RESULTS and item_type(item) not in _RESULTS
        if group and (after_result or _id(item) in starts):
            yield group
            group = []
        group.append(item)
    if group:
        yield group


def _turn_items(items: Sequence[JsonObject]) -> Iterator[TurnItem]:
    results = [item for item in items if item_type(item) in _RESULTS]
    for item in items:
        kind = item_type(item)
        if kind in CALLS:
            name, raw = _text(item.get("name")), item.get("arguments", item.get("input", ""))
            yield TurnItem("call", name, _arguments(item), call_change(name, _text(raw)))
            own = next((result for result in results if result.get("call_id") == item.get("call_id")), None)
            if own is not None:
                results.remove(own)
                yield _result(own)
        elif kind in _RESULTS:
            continue
        elif kind == "reasoning":
            yield TurnItem("reasoning", "", _reasoning(item))
        elif kind == "message":
            role = _text(item.get("role"))
            yield TurnItem("text", "" if role == "assistant" else role, content_text(item.get("content")))
        else:
            yield TurnItem("other", kind, _json(item))
    yield from map(_result, results)


def _result(item: JsonObject) -> TurnItem:
    output = item.get("output")
    return TurnItem("result", "", content_text(output) or ("" if output in ("", [], None) else _json(output)))


def _arguments(item: JsonObject) -> str:
    """Arguments to show: a line each, texts of several lines as they are."""
    raw = item.get("arguments", item.get("input", ""))
    if not isinstance(raw, str):
        return _json(raw)
    if item_type(item) == "custom_tool_call":
        return raw
    try:
        value = json.loads(raw)
    except ValueError:
        return raw
    if not isinstance(value, dict):
        return raw
    return "\n".join(f"{name}:{_argument(value)}" for name, value in value.items())


def _argument(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"\n{text}" if "\n" in text else f" {text}"


def _reasoning(item: JsonObject) -> str:
    parts = [content_text([part]) for key in ("summary", "content") for part in _as_list(item.get(key))]
    return "\n".join(part for part in parts if part)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if isinstance(value, str) else []


def _id(item: JsonObject) -> str | None:
    value = item.get("id")
    return value if isinstance(value, str) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, default=str)
