"""A streamed answer in the Responses dialect.

Source  OpenAI, "Streaming events": `event:` equals `type`; `sequence_number` counts from 0; the order is created,
        in_progress, per item added, its parts and deltas, done; then completed, incomplete or failed. in_progress may
        come again: clients that wait for events take it for a sign of life.
Law     whatever an item's deltas left out is sent when it closes, so that the deltas join to the item's text.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from paddock.server.dialects.answers import Answer
from paddock.server.dialects.parts import Channel, ItemClosed, ItemDelta, ItemOpened, Part
from paddock.server.dialects.replies import response_body, with_handle
from paddock.server.dialects.sse import named_event
from paddock.types import JsonObject
from paddock.types.responses import item_type, make_response, new_id, skeleton


class _TextEvents(NamedTuple):
    """The events and fields in which a channel's text is sent."""

    event: str
    """Prefix of its `.delta` and `.done` events."""
    field: str
    """Where its whole text is, in the part, the item and the done event."""
    holder: str = ""
    """The item's list of parts; empty: the text is a field of the item itself."""
    number: str = ""
    part: JsonObject = {}
    framing: str = ""
    """Prefix of the part's `.added` and `.done` events; empty: it has none."""


_PART = "response.content_part"
_SUMMARY_PART = "response.reasoning_summary_part"
_FORMS: dict[Channel, _TextEvents] = {
    "text": _TextEvents(
        "response.output_text",
        "text",
        "content",
        "content_index",
        {"type": "output_text", "text": "", "annotations": []},
        _PART,
    ),
    "refusal": _TextEvents(
        "response.refusal", "refusal", "content", "content_index", {"type": "refusal", "refusal": ""}, _PART
    ),
    "summary": _TextEvents(
        "response.reasoning_summary_text",
        "text",
        "summary",
        "summary_index",
        {"type": "summary_text", "text": ""},
        _SUMMARY_PART,
    ),
    "reasoning": _TextEvents(
        "response.reasoning_text", "text", "content", "content_index", {"type": "reasoning_text", "text": ""}
    ),
    "arguments": _TextEvents("response.function_call_arguments", "arguments"),
    "input": _TextEvents("response.custom_tool_call_input", "input"),
}
_OF_PART: dict[Any, Channel] = {
    "output_text": "text",
    "refusal": "refusal",
    "summary_text": "summary",
    "reasoning_text": "reasoning",
}


class ResponsesWriter:
    """Writes parts as Responses events."""

    def __init__(self, request: JsonObject, *, model: str, handle: str | None = None) -> None:
        self._request = request
        self._model = model
        self._handle = handle
        self._id = new_id("resp")
        self._sequence = 0
        self._item_ids: dict[int, str] = {}
        self._sent: dict[tuple[int, Channel, int], list[str]] = {}

    def start(self) -> bytes:
        return b"".join(
            self._event({"type": kind, "response": self._head("in_progress")})
            for kind in ("response.created", "response.in_progress")
        )

    def write(self, part: Part) -> bytes:
        if isinstance(part, ItemDelta):
            return b"".join(self._delta(part))
        if isinstance(part, ItemOpened):
            return self._open(part.nth, part.item)
        if isinstance(part, ItemClosed):
            return b"".join(self._close(part.nth, with_handle(part.item, self._request, self._handle)))
        return self._end(part)

    def keepalive(self) -> bytes:
        return self._event({"type": "response.in_progress", "response": self._head("in_progress")})

    def fail(self, message: str, code: str) -> bytes:
        response = {**self._head("failed"), "error": {"code": code, "message": message}}
        return self._event({"type": "response.failed", "response": response})

    def _head(self, status: str) -> JsonObject:
        body = make_response([], self._request, model=self._model)
        return {**body, "id": self._id, "status": status, "usage": None}

    def _open(self, index: int, item: JsonObject) -> bytes:
        self._item_ids[index] = item["id"]
        return self._event({"type": "response.output_item.added", "output_index": index, "item": skeleton(item)})

    def _delta(self, delta: ItemDelta) -> Iterator[bytes]:
        form = _FORMS[delta.channel]
        key = (delta.nth, delta.channel, delta.part)
        sent = self._sent.get(key)
        if sent is None:
            sent = self._sent[key] = []
            if form.framing:
                yield self._item_event(form.framing + ".added", form, delta.nth, delta.part, part=form.part)
        if delta.text:
            sent.append(delta.text)
            extra: JsonObject = {"logprobs": []} if delta.channel == "text" else {}
            yield self._item_event(form.event + ".delta", form, delta.nth, delta.part, delta=delta.text, **extra)

    def _close(self, index: int, item: JsonObject) -> Iterator[bytes]:
        if index not in self._item_ids:
            yield self._open(index, item)
        for channel, part, value in _texts(item):
            form = _FORMS[channel]
            text = value[form.field] if form.holder else value
            sent = "".join(self._sent.get((index, channel, part), []))
            rest = text[len(sent) :] if text.startswith(sent) else ""
            yield from self._delta(ItemDelta(index, channel, rest, part))
            extra: JsonObject = {"logprobs": []} if channel == "text" else {}
            yield self._item_event(form.event + ".done", form, index, part, **{form.field: text}, **extra)
            if form.framing:
                yield self._item_event(form.framing + ".done", form, index, part, part=value)
        yield self._event({"type": "response.output_item.done", "output_index": index, "item": item})

    def _item_event(self, kind: str, form: _TextEvents, index: int, number: int, **fields: Any) -> bytes:
        event = {"type": kind, "item_id": self._item_ids.get(index, ""), "output_index": index}
        if form.number:
            event[form.number] = number
        return self._event({**event, **fields})

    def _end(self, answer: Answer) -> bytes:
        body = response_body(replace(answer, handle=self._handle), self._request, model=self._model)
        response = {**body, "id": self._id}
        kind = "response.incomplete" if response.get("status") == "incomplete" else "response.completed"
        return self._event({"type": kind, "response": response})

    def _event(self, data: JsonObject) -> bytes:
        event = named_event({**data, "sequence_number": self._sequence})
        self._sequence += 1
        return event


def _texts(item: JsonObject) -> Iterator[tuple[Channel, int, Any]]:
    """Each text of an item: its channel, its part number, and the part (or the bare text of a call)."""
    kind = item_type(item)
    if kind == "function_call":
        yield "arguments", 0, str(item.get("arguments") or "")
    elif kind == "custom_tool_call":
        yield "input", 0, str(item.get("input") or "")
    elif kind in ("message", "reasoning"):
        for holder in ("summary", "content"):
            parts = item.get(holder)
            for number, part in enumerate(parts if isinstance(parts, list) else ()):
                channel = _OF_PART.get(part.get("type")) if isinstance(part, dict) else None
                if channel and isinstance(part.get(_FORMS[channel].field), str):
                    yield channel, number, part
