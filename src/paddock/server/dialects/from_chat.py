"""The history of a Chat request as items of `told`.

Law     an assistant message becomes its reasoning, its text and its calls, in this order; a `tool` message the output
        of its call, a custom one's if the call was. Reasoning is `reasoning` or `reasoning_content`; a handle is the
        `signature` of the last of litellm's `thinking_blocks`.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from paddock.server.dialects.canonical import (
    canonical_call,
    canonical_content,
    canonical_custom_call,
    canonical_message,
    canonical_output,
    canonical_reasoning,
)
from paddock.types import JsonObject
from paddock.types.responses import content_text, output_items

REASONING_FIELDS = ("reasoning", "reasoning_content")
"""Under these an assistant message may hold its reasoning; engines differ in which they read."""


def items_of_chat(messages: Any, custom: Iterable[str] = ()) -> Iterator[JsonObject]:
    """Of `messages`. `custom`: ids of custom tools' calls before them."""
    custom_ids: set[Any] = set(custom)
    for message in output_items(messages):
        role = message.get("role", "user")
        content = message.get("content")
        if role == "assistant":
            yield from _said(message, content, custom_ids)
        elif role == "tool":
            call_id = message.get("tool_call_id")
            told = content if isinstance(content, str) else canonical_content(content)
            yield canonical_output(call_id, told, custom=isinstance(call_id, str) and call_id in custom_ids)
        else:
            told = content if isinstance(content, str) else canonical_content(content)
            yield canonical_message(role if isinstance(role, str) else "user", told)


def _said(message: JsonObject, content: Any, custom_ids: set[Any]) -> Iterator[JsonObject]:
    thought = next((message[field] for field in REASONING_FIELDS if isinstance(message.get(field), str)), "")
    blocks = output_items(message.get("thinking_blocks")) if "thinking_blocks" in message else []
    handle = next((block["signature"] for block in reversed(blocks) if block.get("signature")), None)
    if blocks and not thought:
        thought = "".join(block["thinking"] for block in blocks if isinstance(block.get("thinking"), str))
    if thought or handle:
        yield canonical_reasoning(thought, handle)
    text = content if isinstance(content, str) else content_text(content)
    calls = output_items(message.get("tool_calls"))
    if text or not (calls or thought):
        yield canonical_message("assistant", text)
    for call in calls:
        spec = call.get("custom")
        if isinstance(spec, dict):
            custom_ids.add(call.get("id") if isinstance(call.get("id"), str) else "")
            yield canonical_custom_call(call.get("id"), spec.get("name"), spec.get("input"))
            continue
        function = call.get("function")
        spec = function if isinstance(function, dict) else {}
        yield canonical_call(call.get("id"), spec.get("name"), spec.get("arguments") or "")
