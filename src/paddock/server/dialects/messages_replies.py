"""A whole answer as the body of a reply in the Messages dialect.

Source  Anthropic, "Messages": the message object and its content blocks.
Law     a block per item that says something: `thinking`, `text`, `tool_use`. A thought's signature is the answer's
        handle. A call's input has to be a JSON object: arguments that are none are told under the one key `MALFORMED`,
        so that the client can refuse the call to the model's face. Tokens of the input that came from the cache are
        counted apart from the others.
"""

from typing import Any

import orjson

from paddock.server.dialects.answers import Answer, TokenCounts
from paddock.server.dialects.from_messages import MALFORMED
from paddock.server.dialects.items import CALLS, reasoning_text
from paddock.types import JsonObject
from paddock.types.responses import content_text, item_type, new_id, output_items


def message_body(answer: Answer, *, model: str) -> JsonObject:
    """A message."""
    blocks = (block_of(item, answer.handle) for item in answer.output)
    return {
        **message_head(model=answer.model or model),
        "content": [block for block in blocks if block is not None],
        **stop_of(answer),
        "usage": messages_usage(answer.counts or TokenCounts()),
    }


def message_head(*, model: str) -> JsonObject:
    """A message that nothing has been said in."""
    return {
        "id": new_id("msg"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": messages_usage(TokenCounts()),
    }


def stop_of(answer: Answer) -> JsonObject:
    """`stop_reason` and `stop_sequence`."""
    reason = "end_turn"
    if answer.finish_reason == "length":
        reason = "max_tokens"
    elif answer.finish_reason == "content_filter":
        reason = "refusal"
    elif any(item_type(item) in CALLS for item in answer.output):
        reason = "tool_use"
    elif answer.stop_sequence is not None:
        reason = "stop_sequence"
    return {"stop_reason": reason, "stop_sequence": answer.stop_sequence if reason == "stop_sequence" else None}


def messages_usage(counts: TokenCounts) -> JsonObject:
    return {
        "input_tokens": max(0, counts.input_tokens - counts.cached_tokens),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": counts.cached_tokens,
        "output_tokens": counts.output_tokens,
    }


def block_of(item: JsonObject, handle: str | None) -> JsonObject | None:
    """The content block of an item; None: it says nothing here."""
    kind = item_type(item)
    if kind == "message":
        text = said_text(item)
        return {"type": "text", "text": text} if text else None
    if kind == "reasoning":
        text, signature = reasoning_text(item), signature_of(item, handle)
        return {"type": "thinking", "thinking": text, "signature": signature} if text or signature else None
    if kind in CALLS:
        return {**tool_use(item), "input": orjson.loads(input_json(item))}
    return None


def said_text(item: JsonObject) -> str:
    """Of a message, what it refuses with too."""
    content = item.get("content")
    refusals = (part.get("refusal") for part in output_items(content))
    return content_text(content) + "".join(text for text in refusals if isinstance(text, str))


def signature_of(item: JsonObject, handle: str | None) -> str:
    """The engine's own, if it gave one: it wants that back."""
    own: Any = item.get("encrypted_content")
    return own if own and isinstance(own, str) else handle or ""


def tool_use(item: JsonObject) -> JsonObject:
    """The block of a call, its input still empty."""
    return {"type": "tool_use", "id": item["call_id"], "name": item.get("name", ""), "input": {}}


def input_json(item: JsonObject) -> str:
    """A call's input, as the JSON text of an object."""
    if item_type(item) == "custom_tool_call":
        return orjson.dumps({"input": str(item.get("input") or "")}).decode()
    said = str(item.get("arguments") or "")
    if not said.strip():
        return "{}"
    try:
        if isinstance(orjson.loads(said), dict):
            return said
    except orjson.JSONDecodeError:
        pass
    return orjson.dumps({MALFORMED: said}).decode()
