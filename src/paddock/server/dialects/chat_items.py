"""Deltas of a chat message as parts: items that open, grow and close.

Law     one item is open at a time: reasoning, message, each call. A custom tool's text comes at once when its call
        closes, since it can't be told from the function's arguments before. An answer that says nothing is an empty
        message.
Errors  UnreadableError for a call that goes on after another item began.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from paddock.server.dialects.failures import UnreadableError
from paddock.server.dialects.parts import Channel, ItemClosed, ItemDelta, ItemOpened, Part
from paddock.server.dialects.tools import NO_NAMESPACES, input_of
from paddock.types import JsonObject
from paddock.types.responses import (
    CALLS,
    call_item,
    content_text,
    custom_call_item,
    message_item,
    output_items,
    reasoning_item,
)


@dataclass
class _Item:
    """The item that is open."""

    nth: int
    item: JsonObject
    channel: Channel
    texts: list[str] = field(default_factory=list)


class ChatItems:
    """The items of one answer, from the deltas of its chat message."""

    def __init__(self, custom: frozenset[str], namespaces: Mapping[str, tuple[str, str]] = NO_NAMESPACES) -> None:
        """`custom`, `namespaces`: how the tools were offered (`OfferedTools`); their calls are turned back."""
        self.output: list[JsonObject] = []
        """Items that have closed."""
        self._custom = custom
        self._namespaces = namespaces
        self._open: _Item | None = None
        self._call: Any = None
        """The index, in the stream, of the call that is open."""
        self.call_indices: set[Any] = set()
        """Indices, in the stream, of the calls so far."""

    def end(self) -> Iterator[Part]:
        """The last parts, once nothing more comes."""
        if not self.output and self._open is None:
            yield from self._start(message_item(""), "text")
        yield from self._close()

    def delta(self, delta: JsonObject) -> Iterator[Part]:
        """The parts of a chunk's `delta`; a whole message is one, too."""
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
            yield from self._call_delta(call)

    def _call_delta(self, call: JsonObject) -> Iterator[Part]:
        function = call.get("function")
        spec = function if isinstance(function, dict) else {}
        number = call.get("index", len(self.call_indices))
        if number not in self.call_indices:
            self.call_indices.add(number)
            used_ids = {item["call_id"] for item in self.output if item["type"] in CALLS}
            call_id = call.get("id") if call.get("id") not in used_ids else None
            item = call_of(str(spec.get("name") or ""), "", call_id, self._custom, self._namespaces)
            yield from self._start(item, "input" if item["type"] == "custom_tool_call" else "arguments")
            self._call = number
        elif self._open is None or self._open.channel not in ("arguments", "input") or number != self._call:
            raise UnreadableError(f"tool call {number} goes on after another item began")
        yield from self._grow(str(spec.get("arguments") or ""))

    def _start(self, item: JsonObject, channel: Channel) -> Iterator[Part]:
        yield from self._close()
        self._open = _Item(len(self.output), item, channel)
        yield ItemOpened(self._open.nth, item)

    def _grow(self, text: str) -> Iterator[Part]:
        assert self._open is not None
        if not text:
            return
        self._open.texts.append(text)
        if self._open.channel != "input":
            yield ItemDelta(self._open.nth, self._open.channel, text)

    def _close(self) -> Iterator[Part]:
        if self._open is None:
            return
        item, text = self._open.item, "".join(self._open.texts)
        if self._open.channel == "text":
            item = {**message_item(text), "id": item["id"]}
        elif self._open.channel == "summary":
            item = reasoning_item(text, item["id"])
        else:
            item = {**item, **({"input": input_of(text)} if self._open.channel == "input" else {"arguments": text})}
        self.output.append(item)
        yield ItemClosed(self._open.nth, item)
        self._open = None


def reasoning_of(message: JsonObject) -> str:
    """The reasoning of a message or delta, under either of its names."""
    return content_text(message.get("reasoning")) or content_text(message.get("reasoning_content"))


def call_of(
    name: str,
    arguments: str,
    call_id: str | None,
    custom: frozenset[str],
    namespaces: Mapping[str, tuple[str, str]] = NO_NAMESPACES,
) -> JsonObject:
    """The item of one tool call; `name` as the model was shown it."""
    namespace, own = namespaces.get(name, ("", name))
    is_custom = name in custom
    item = custom_call_item(own, input_of(arguments), call_id) if is_custom else call_item(own, arguments, call_id)
    if namespace:
        item["namespace"] = namespace
    return item
