"""Reading streamed answers strictly: whatever a careful client relies on, and a server might get wrong, is asserted.

Source  OpenAI, "Streaming events" and "The chat completion chunk object"; Anthropic, "Streaming messages"; HTML
        standard, "Server-sent events".
Errors  AssertionError that says what was wrong.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from paddock.types import JsonObject

_DONE_FIELDS = {
    "response.output_text": ("text", "content", "content_index"),
    "response.refusal": ("refusal", "content", "content_index"),
    "response.reasoning_summary_text": ("text", "summary", "summary_index"),
    "response.reasoning_text": ("text", "content", "content_index"),
    "response.function_call_arguments": ("arguments", None, None),
    "response.custom_tool_call_input": ("input", None, None),
}
_ENDS = ("response.completed", "response.incomplete", "response.failed")


class ReadEvent(NamedTuple):
    name: str | None
    data: bytes


def read_events(raw: bytes) -> Iterator[ReadEvent]:
    """The events of a stream in which every line is an `event:`, a `data:` or blank."""
    assert raw.endswith(b"\n\n"), "the stream ends in the middle of an event"
    for block in raw.removesuffix(b"\n\n").split(b"\n\n"):
        fields: dict[str, bytes] = {}
        for line in block.split(b"\n"):
            key, colon, value = line.partition(b": ")
            assert colon and key in (b"event", b"data") and key.decode() not in fields, f"odd line {line!r}"
            fields[key.decode()] = value
        assert "data" in fields, f"an event without data: {block!r}"
        name = fields.get("event")
        yield ReadEvent(name.decode() if name is not None else None, fields["data"])


def read_responses_stream(raw: bytes) -> JsonObject:
    """The final response of a Responses stream, checked against all the events before it."""
    events = [(event.name, orjson.loads(event.data)) for event in read_events(raw)]
    for number, (name, data) in enumerate(events):
        assert name == data["type"], f"event {name} has type {data['type']}"
        assert data["sequence_number"] == number, f"{name}: sequence_number {data['sequence_number']}, not {number}"
    kinds = [name for name, _ in events]
    assert kinds[:2] == ["response.created", "response.in_progress"], kinds[:2]
    assert kinds[-1] in _ENDS, kinds[-1]
    assert not set(kinds[:-1]) & set(_ENDS), "an end before the end"
    first, final = events[0][1]["response"], events[-1][1]["response"]
    assert first["id"] == final["id"], "the response changed its id"
    assert first["status"] == "in_progress", first["status"]
    assert final["status"] == kinds[-1].removeprefix("response."), final["status"]
    output = _Output()
    for name, data in events[2:-1]:
        if name != "response.in_progress":
            output.read(data)
    if final["status"] != "failed":
        assert [output.done[nth] for nth in sorted(output.done)] == final["output"], "output differs from its events"
        assert not output.open, f"items {list(output.open)} never closed"
    return dict(final)


class _Output:
    """Output items as their events tell them."""

    def __init__(self) -> None:
        self.open: dict[int, str] = {}
        self.done: dict[int, JsonObject] = {}
        self._texts: dict[tuple[int, str, int], str] = {}
        self._finished: dict[tuple[int, str, int], str] = {}

    def read(self, data: JsonObject) -> None:
        kind, nth = data["type"], data["output_index"]
        if kind == "response.output_item.added":
            assert nth == len(self.open) + len(self.done), f"item {nth} added out of order"
            self.open[nth] = data["item"]["id"]
            return
        assert nth in self.open, f"{kind} for item {nth}, which is not open"
        if kind == "response.output_item.done":
            self._close(nth, data["item"])
            return
        assert data["item_id"] == self.open[nth], f"{kind}: item_id {data['item_id']} is not item {nth}'s"
        stem, _, ending = kind.rpartition(".")
        if stem not in _DONE_FIELDS:
            assert kind.endswith(("_part.added", "_part.done")), f"unknown event {kind}"
            return
        field, _, index = _DONE_FIELDS[stem]
        place = (nth, stem, data[index] if index else 0)
        if ending == "delta":
            assert place not in self._finished, f"{kind} after its end"
            self._texts[place] = self._texts.get(place, "") + data["delta"]
        else:
            assert data[field] == self._texts.get(place, ""), f"{kind}: the deltas join to something else"
            self._finished[place] = data[field]

    def _close(self, nth: int, item: JsonObject) -> None:
        assert item["id"] == self.open.pop(nth), f"item {nth} changed its id"
        for (told, stem, number), text in self._texts.items():
            if told != nth:
                continue
            field, holder, _ = _DONE_FIELDS[stem]
            held: Any = item[holder][number] if holder else item
            assert held[field] == text == self._finished.get((told, stem, number)), f"item {nth}: {stem} differs"
        self.done[nth] = item


def read_chat_stream(raw: bytes) -> JsonObject:
    """The assistant message, `finish_reason` and `usage` (None: there was none) of a Chat stream."""
    *events, last = read_events(raw)
    assert all(event.name is None for event in (*events, last)), "chat chunks have no `event:` line"
    assert last.data == b"[DONE]", f"the stream ends with {last.data!r}"
    chunks = [orjson.loads(event.data) for event in events]
    assert len({chunk["id"] for chunk in chunks}) == 1, "the chunks have different ids"
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    usage = chunks.pop()["usage"] if not chunks[-1]["choices"] else None
    choices = [chunk["choices"][0] for chunk in chunks]
    assert choices[0]["delta"].get("role") == "assistant", "the first chunk has no role"
    reasons = [choice["finish_reason"] for choice in choices]
    assert reasons[-1] and not any(reasons[:-1]), f"finish reasons {reasons}"
    message: JsonObject = {"content": "", "reasoning_content": "", "tool_calls": []}
    for choice in choices:
        _merge(message, choice["delta"])
    return {**message, "finish_reason": reasons[-1], "usage": usage}


_BLOCK_DELTAS = {
    "text": {"text_delta": "text"},
    "thinking": {"thinking_delta": "thinking", "signature_delta": "signature"},
    "tool_use": {"input_json_delta": "partial_json"},
}


def read_messages_stream(raw: bytes) -> JsonObject:
    """The message of a Messages stream, checked event by event; a call's input is parsed."""
    events = [(event.name, orjson.loads(event.data)) for event in read_events(raw)]
    assert all(name == data["type"] for name, data in events), "an event's name is not its type"
    first, *told, end, last = [data for _, data in events if data["type"] != "ping"]
    assert (first["type"], end["type"], last) == ("message_start", "message_delta", {"type": "message_stop"})
    message = dict(first["message"])
    assert (message["type"], message["role"], message["content"]) == ("message", "assistant", [])
    assert message["stop_reason"] is None
    blocks = _Blocks()
    for data in told:
        blocks.read(data)
    assert not blocks.open, "a block never stopped"
    return {**message, "content": blocks.found, **end["delta"], "usage": end["usage"]}


class _Blocks:
    """Content blocks as their events tell them, one after the other."""

    def __init__(self) -> None:
        self.found: list[JsonObject] = []
        self.open = False
        self._json = ""

    def read(self, data: JsonObject) -> None:
        kind = data["type"]
        if kind == "content_block_start":
            assert not self.open and data["index"] == len(self.found), f"a block starts inside another: {data}"
            self.open, self._json = True, ""
            self.found.append(dict(data["content_block"]))
            return
        assert self.open and data["index"] == len(self.found) - 1, f"not of the open block: {data}"
        block = self.found[-1]
        if kind == "content_block_delta":
            field = _BLOCK_DELTAS[block["type"]][data["delta"]["type"]]
            if field == "partial_json":
                self._json += data["delta"][field]
            else:
                block[field] += data["delta"][field]
            return
        assert kind == "content_block_stop", f"odd event {data}"
        self.open = False
        if block["type"] == "tool_use":
            block["input"] = orjson.loads(self._json)


def _merge(message: JsonObject, delta: JsonObject) -> None:
    for field in ("content", "reasoning_content"):
        message[field] += delta.get(field) or ""
    calls = message["tool_calls"]
    for call in delta.get("tool_calls") or []:
        kind, field = ("custom", "input") if "custom" in call else ("function", "arguments")
        if call["index"] == len(calls):
            assert call["id"] and call["type"] == kind and call[kind]["name"], f"a call begins without a name: {call}"
            calls.append({"id": call["id"], "type": kind, kind: dict(call[kind])})
            continue
        assert call["index"] == len(calls) - 1 and "id" not in call, f"a call goes on after the next began: {call}"
        calls[-1][kind][field] += call[kind][field]
