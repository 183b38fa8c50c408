"""A streamed answer in the Chat dialect.

Source  OpenAI, "The chat completion chunk object": a role delta, then `reasoning_content`, `content` and `tool_calls`
        deltas (id and name first, arguments after), the finish reason, on request a chunk with usage and no choices,
        `[DONE]`. An error is a chunk with `error`, after which the stream ends.
"""

import time
from typing import Any

import orjson

from paddock.server.dialects.answers import Answer, TokenCounts
from paddock.server.dialects.parts import Channel, ItemClosed, ItemDelta, ItemOpened, Part
from paddock.server.dialects.replies import chat_finish_reason, chat_usage, tool_call
from paddock.server.dialects.sse import plain_event
from paddock.types import JsonObject
from paddock.types.responses import CALLS, content_text, item_type, new_id, reasoning_text

_FIELDS: dict[Channel, str] = {
    "text": "content",
    "refusal": "refusal",
    "summary": "reasoning_content",
    "reasoning": "reasoning_content",
}


class ChatWriter:
    """Writes parts as chat completion chunks."""

    def __init__(self, request: JsonObject, *, model: str) -> None:
        options = request.get("stream_options")
        self._with_usage = isinstance(options, dict) and options.get("include_usage") is True
        self._head = {
            "id": new_id("chatcmpl"),
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": model,
        }
        self._calls: dict[int, int] = {}
        self._streamed: set[int] = set()
        self._thoughts: dict[int, Channel] = {}

    def start(self) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    def write(self, part: Part) -> bytes:
        if isinstance(part, ItemDelta):
            return self._delta(part)
        if isinstance(part, ItemOpened):
            return self._open(part.nth, part.item)
        if isinstance(part, ItemClosed):
            return self._close(part.nth, part.item)
        return self._end(part)

    def keepalive(self) -> bytes:
        return self._chunk({})

    def fail(self, message: str, code: str) -> bytes:
        error = {"message": message, "type": "server_error", "code": code}
        return plain_event(orjson.dumps({"error": error}))

    def _open(self, index: int, item: JsonObject) -> bytes:
        if item_type(item) not in CALLS:
            return b""
        number = self._calls[index] = len(self._calls)
        call = tool_call(item)
        spec = call[call["type"]]
        spec["input" if call["type"] == "custom" else "arguments"] = ""
        return self._chunk({"tool_calls": [{"index": number, **call}]})

    def _delta(self, delta: ItemDelta) -> bytes:
        if not delta.text:
            return b""
        self._streamed.add(delta.nth)
        field = _FIELDS.get(delta.channel)
        # Reasoning may come twice, in full and as a summary: a chat client gets what came first.
        if field == "reasoning_content" and self._thoughts.setdefault(delta.nth, delta.channel) != delta.channel:
            return b""
        if field is not None:
            return self._chunk({field: delta.text})
        kind, key = ("custom", "input") if delta.channel == "input" else ("function", "arguments")
        return self._chunk({"tool_calls": [{"index": self._calls[delta.nth], kind: {key: delta.text}}]})

    def _close(self, index: int, item: JsonObject) -> bytes:
        kind = item_type(item)
        opened = self._open(index, item) if kind in CALLS and index not in self._calls else b""
        if index in self._streamed:
            return opened
        if kind == "message":
            return self._delta(ItemDelta(index, "text", content_text(item.get("content"))))
        if kind == "reasoning":
            return self._delta(ItemDelta(index, "summary", reasoning_text(item)))
        if kind == "function_call":
            return opened + self._delta(ItemDelta(index, "arguments", str(item.get("arguments") or "")))
        if kind == "custom_tool_call":
            return opened + self._delta(ItemDelta(index, "input", str(item.get("input") or "")))
        return b""

    def _end(self, answer: Answer) -> bytes:
        end = self._chunk({}, chat_finish_reason(answer))
        if self._with_usage:
            usage = chat_usage(answer.counts or TokenCounts())
            end += plain_event(orjson.dumps({**self._head, "choices": [], "usage": usage}))
        return end + plain_event(b"[DONE]")

    def _chunk(self, delta: JsonObject, finish_reason: str | None = None) -> bytes:
        choice: dict[str, Any] = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return plain_event(orjson.dumps({**self._head, "choices": [choice]}))
