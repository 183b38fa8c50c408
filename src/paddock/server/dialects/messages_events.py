"""A streamed answer in the Messages dialect.

Source  Anthropic, "Streaming messages": message_start; per block content_block_start, deltas, content_block_stop;
        message_delta with the stop reason and the usage; message_stop. `ping` may come anywhere, `error` ends it.
Law     a block starts when it has something to say. Input of a call comes whole when the call closes: clients parse it
        as it grows, and one that is no JSON object (`input_json`) would break them.
"""

from collections.abc import Iterator

from paddock.server.dialects.answers import Answer, TokenCounts
from paddock.server.dialects.errors import messages_error
from paddock.server.dialects.parts import Channel, ItemClosed, ItemDelta, ItemOpened, Part
from paddock.server.dialects.replies import (
    input_json,
    message_head,
    message_text,
    messages_usage,
    signature_of,
    stop_of,
    tool_use,
)
from paddock.server.dialects.sse import named_event
from paddock.types import JsonObject
from paddock.types.responses import CALLS, item_type, reasoning_text

_EMPTY: dict[str, JsonObject] = {
    "text": {"type": "text", "text": ""},
    "thinking": {"type": "thinking", "thinking": "", "signature": ""},
}
_FIELDS: dict[Channel, str] = {"text": "text", "refusal": "text", "summary": "thinking", "reasoning": "thinking"}


class MessagesWriter:
    """Writes parts as events of a message."""

    def __init__(self, *, model: str, handle: str | None = None) -> None:
        self._model = model
        self._handle = handle
        self._blocks: dict[int, int] = {}
        """Index of an item's block, by the item's number."""
        self._sent: dict[int, list[str]] = {}
        self._thoughts: dict[int, Channel] = {}

    def start(self) -> bytes:
        return named_event({"type": "message_start", "message": message_head(model=self._model)})

    def write(self, part: Part) -> bytes:
        if isinstance(part, ItemDelta):
            return b"".join(self._delta(part))
        if isinstance(part, ItemOpened):
            return b"".join(self._start(part.nth, tool_use(part.item))) if item_type(part.item) in CALLS else b""
        if isinstance(part, ItemClosed):
            return b"".join(self._close(part.nth, part.item))
        return b"".join(self._end(part))

    def keepalive(self) -> bytes:
        return named_event({"type": "ping"})

    def fail(self, message: str, code: str) -> bytes:
        return named_event(messages_error(message, code))

    def _start(self, nth: int, block: JsonObject) -> Iterator[bytes]:
        if nth not in self._blocks:
            self._blocks[nth] = len(self._blocks)
            yield self._event("content_block_start", nth, content_block=block)

    def _delta(self, delta: ItemDelta) -> Iterator[bytes]:
        field = _FIELDS.get(delta.channel)
        if field is None or not delta.text:
            return
        # Reasoning may come twice, in full and as a summary: a client gets what came first.
        if field == "thinking" and self._thoughts.setdefault(delta.nth, delta.channel) != delta.channel:
            return
        yield from self._grow(delta.nth, field, delta.text)

    def _grow(self, nth: int, field: str, text: str) -> Iterator[bytes]:
        yield from self._start(nth, _EMPTY[field])
        self._sent.setdefault(nth, []).append(text)
        yield self._event("content_block_delta", nth, delta={"type": f"{field}_delta", field: text})

    def _close(self, nth: int, item: JsonObject) -> Iterator[bytes]:
        kind = item_type(item)
        if kind in CALLS:
            yield from self._start(nth, tool_use(item))
            delta = {"type": "input_json_delta", "partial_json": input_json(item)}
            yield self._event("content_block_delta", nth, delta=delta)
        elif kind == "message":
            yield from self._rest(nth, "text", message_text(item))
        elif kind == "reasoning":
            yield from self._rest(nth, "thinking", reasoning_text(item))
            signature = signature_of(item, self._handle)
            if signature:
                yield from self._start(nth, _EMPTY["thinking"])
            if nth in self._blocks:
                delta = {"type": "signature_delta", "signature": signature}
                yield self._event("content_block_delta", nth, delta=delta)
        if nth in self._blocks:
            yield self._event("content_block_stop", nth)

    def _rest(self, nth: int, field: str, text: str) -> Iterator[bytes]:
        """The rest of an item's text, which its deltas left out."""
        sent = "".join(self._sent.get(nth, ()))
        if len(text) > len(sent) and text.startswith(sent):
            yield from self._grow(nth, field, text[len(sent) :])

    def _end(self, answer: Answer) -> Iterator[bytes]:
        usage = messages_usage(answer.counts or TokenCounts())
        yield named_event({"type": "message_delta", "delta": stop_of(answer), "usage": usage})
        yield named_event({"type": "message_stop"})

    def _event(self, kind: str, nth: int, **fields: JsonObject) -> bytes:
        return named_event({"type": kind, "index": self._blocks[nth], **fields})
