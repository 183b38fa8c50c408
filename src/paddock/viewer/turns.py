"""From the items of a response to the turns that they were: what the model said and called, and what came back.

Turn    begins where the model speaks after a result, or where a recorded turn begins; each call stands before its
        result, whatever the order of the items. A response without items is read from the recorded turns.
Errors  none: what is not of the expected shape is shown as JSON.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

from paddock.types import JsonObject, Rollout
from paddock.types.responses import content_text, item_type, output_items

Kind = Literal["reasoning", "text", "call", "result", "other"]
_RESULTS = ("function_call_output", "custom_tool_call_output")
_CALLS = ("function_call", "custom_tool_call")


class Said(NamedTuple):
    """One thing of a turn."""

    kind: Kind
    title: str
    """A tool's name; else empty."""
    text: str


class SeenTurn(NamedTuple):
    number: int
    """From 1."""
    said: list[Said]

    @property
    def calls(self) -> list[Said]:
        return [one for one in self.said if one.kind == "call"]

    @property
    def without_results(self) -> list[Said]:
        return [one for one in self.said if one.kind != "result"]


def seen_turns(rollout: Rollout) -> list[SeenTurn]:
    """The turns of a rollout, in order."""
    starts = {_id(turn.output[0]) for turn in rollout.turns if turn.output} - {None}
    items = output_items(rollout.response)
    groups = list(_grouped(items, starts)) if items else [turn.output for turn in rollout.turns]
    return [SeenTurn(number, said_by(group)) for number, group in enumerate(groups, 1)]


def said_by(items: Sequence[JsonObject]) -> list[Said]:
    """Items as a reader wants them: each call before its result; messages of others than the model under their role."""
    return list(_said(items))


def _grouped(items: Sequence[JsonObject], starts: set[Any]) -> Iterator[list[JsonObject]]:
    group: list[JsonObject] = []
    for item in items:
        after_result = bool(group) and item_type(group[-1]) in _RESULTS and item_type(item) not in _RESULTS
        if group and (after_result or _id(item) in starts):
            yield group
            group = []
        group.append(item)
    if group:
        yield group


def _said(items: Sequence[JsonObject]) -> Iterator[Said]:
    results = [item for item in items if item_type(item) in _RESULTS]
    for item in items:
        kind = item_type(item)
        if kind in _CALLS:
            yield Said("call", _text(item.get("name")), _arguments(item))
            own = next((one for one in results if one.get("call_id") == item.get("call_id")), None)
            if own is not None:
                results.remove(own)
                yield _result(own)
        elif kind in _RESULTS:
            continue
        elif kind == "reasoning":
            yield Said("reasoning", "", _reasoning(item))
        elif kind == "message":
            role = _text(item.get("role"))
            yield Said("text", "" if role == "assistant" else role, content_text(item.get("content")))
        else:
            yield Said("other", kind, _json(item))
    yield from map(_result, results)


def _result(item: JsonObject) -> Said:
    output = item.get("output")
    return Said("result", "", content_text(output) or ("" if output in ("", [], None) else _json(output)))


def _arguments(item: JsonObject) -> str:
    """Arguments as a reader wants them: a line each, long texts as they are."""
    raw = item.get("arguments", item.get("input", ""))
    if not isinstance(raw, str):
        return _json(raw)
    if item_type(item) == "custom_tool_call":
        return raw
    try:
        found = json.loads(raw)
    except ValueError:
        return raw
    if not isinstance(found, dict):
        return raw
    return "\n".join(f"{name}:{_argument(value)}" for name, value in found.items())


def _argument(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"\n{text}" if "\n" in text else f" {text}"


def _reasoning(item: JsonObject) -> str:
    parts = [content_text([part]) for key in ("summary", "content") for part in _listed(item.get(key))]
    return "\n".join(part for part in parts if part)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if isinstance(value, str) else []


def _id(item: JsonObject) -> str | None:
    found = item.get("id")
    return found if isinstance(found, str) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, default=str)
