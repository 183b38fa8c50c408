"""An engine's streamed chat completion as parts.

Law     one item is open at a time: reasoning, message, each call. A custom tool's text comes at once when its call
        closes, since it can't be told from the function's arguments before. The stream is whole when a finish reason
        came; `[DONE]` alone says nothing.
Errors  UnreadableError, EngineFailedError.
"""

from collections.abc import Iterator
from typing import Any

import orjson

from paddock.server.dialects.answers import Answer, Counts
from paddock.server.dialects.chat_answers import call_of, log_probs_of, make_tokens, read_finish_reason, reasoning_of
from paddock.server.dialects.failures import EngineFailedError, UnreadableError
from paddock.server.dialects.items import CALLS, reasoning_item
from paddock.server.dialects.parts import Channel, Closed, Delta, Opened, Part
from paddock.server.dialects.sse import Event
from paddock.server.dialects.usage import read_chat_usage
from paddock.types import FinishReason, JsonObject
from paddock.types.responses import content_text, message_item, output_items


class _Item:
    """The item that is open."""

    def __init__(self, nth: int, item: JsonObject, channel: Channel) -> None:
        self.nth = nth
        self.item = item
        self.channel: Channel = channel
        self.texts: list[str] = []

    def whole(self, custom: frozenset[str]) -> JsonObject:
        text = "".join(self.texts)
        if self.channel == "text":
            return {**message_item(text), "id": self.item["id"]}
        if self.channel == "summary":
            return reasoning_item(text, self.item["id"])
        return {**call_of(self.item["name"], text, self.item["call_id"], custom), "id": self.item["id"]}


class ChatReader:
    """Chunks as parts."""

    def __init__(self, custom: frozenset[str]) -> None:
        self.complete = False
        """Nothing more is to come."""
        self._custom = custom
        self._output: list[JsonObject] = []
        self._open: _Item | None = None
        self._call: Any = None
        """The index, in the stream, of the call that is open."""
        self._calls_seen: set[Any] = set()
        self._finish_reason: FinishReason | None = None
        self._counts: Counts | None = None
        self._model: str | None = None
        self._weight_version: str | None = None
        self._prompt_ids: list[int] | None = None
        self._sampled_ids: list[int] | None = None
        self._log_probs: list[float] | None = None

    def read(self, event: Event) -> Iterator[Part]:
        """The parts of one event."""
        if event.data == b"[DONE]":
            self.complete = True
            return
        try:
            chunk = orjson.loads(event.data)
        except orjson.JSONDecodeError as error:
            raise UnreadableError(f"a chunk is no JSON: {error}") from error
        if not isinstance(chunk, dict):
            raise UnreadableError("a chunk is no JSON object")
        if chunk.get("error"):
            raise EngineFailedError(chunk["error"])
        self._note(chunk)
        for choice in output_items(chunk.get("choices"))[:1]:
            self._note_tokens(choice)
            delta = choice.get("delta")
            if isinstance(delta, dict):
                yield from self._delta(delta)
            self._finish_reason = read_finish_reason(choice.get("finish_reason")) or self._finish_reason

    def end(self) -> Iterator[Part]:
        """What is left when the stream has ended: the last item, and the answer."""
        if self._finish_reason is None:
            raise UnreadableError("the stream ended without a finish reason")
        if not self._output and self._open is None:
            yield from self._start(message_item(""), "text")
        yield from self._close()
        yield Answer(
            self._output,
            self._finish_reason,
            self._counts,
            self._model,
            make_tokens(self._prompt_ids, self._sampled_ids, self._log_probs, self._counts),
            self._weight_version,
        )

    def _note(self, chunk: JsonObject) -> None:
        self._counts = read_chat_usage(chunk.get("usage")) or self._counts
        self._model = chunk.get("model") or self._model
        self._weight_version = chunk.get("weight_version") or self._weight_version
        self._prompt_ids = chunk.get("prompt_token_ids") or self._prompt_ids

    def _note_tokens(self, choice: JsonObject) -> None:
        ids, log_probs = choice.get("token_ids"), log_probs_of(choice)
        if isinstance(ids, list):
            self._sampled_ids = (self._sampled_ids or []) + ids
        if log_probs is not None:
            self._log_probs = (self._log_probs or []) + log_probs

    def _delta(self, delta: JsonObject) -> Iterator[Part]:
        thought = reasoning_of(delta)
        if thought:
            if self._open is None or self._open.channel != "summary":
                yield from self._start(reasoning_item(""), "summary")
            yield from self._grow(thought)
        text = content_text(delta.get("content"))
        if text:
            if self._open is None or self._open.channel != "text":
                yield from self._start(message_item(""), "text")
            yield from self._grow(text)
        for call in output_items(delta.get("tool_calls")):
            yield from self._called(call)

    def _called(self, call: JsonObject) -> Iterator[Part]:
        function = call.get("function")
        said = function if isinstance(function, dict) else {}
        number = call.get("index", len(self._calls_seen))
        if number not in self._calls_seen:
            self._calls_seen.add(number)
            taken = {item["call_id"] for item in self._output if item["type"] in CALLS}
            call_id = call.get("id") if call.get("id") not in taken else None
            item = call_of(str(said.get("name") or ""), "", call_id, self._custom)
            yield from self._start(item, "input" if item["type"] == "custom_tool_call" else "arguments")
            self._call = number
        elif self._open is None or self._open.channel not in ("arguments", "input") or number != self._call:
            raise UnreadableError(f"tool call {number} goes on after another item began")
        yield from self._grow(str(said.get("arguments") or ""))

    def _start(self, item: JsonObject, channel: Channel) -> Iterator[Part]:
        yield from self._close()
        self._open = _Item(len(self._output), item, channel)
        yield Opened(self._open.nth, item)

    def _grow(self, text: str) -> Iterator[Part]:
        assert self._open is not None
        if not text:
            return
        self._open.texts.append(text)
        if self._open.channel != "input":
            yield Delta(self._open.nth, self._open.channel, text)

    def _close(self) -> Iterator[Part]:
        if self._open is None:
            return
        item = self._open.whole(self._custom)
        self._output.append(item)
        yield Closed(self._open.nth, item)
        self._open = None
