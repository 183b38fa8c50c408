"""A whole answer as the body of a reply, in each of the three dialects.

Source  OpenAI: "The Response object", "The chat completion object". Reasoning in Chat is `reasoning_content`, as
        open-weight engines write it. A custom tool's call is a tool call of type `custom`.
        Anthropic, "Messages": the message object and its content blocks, one per item that says something: `thinking`,
        `text`, `tool_use`. A thought's signature is the answer's handle. A call's input has to be a JSON object:
        arguments that are none stand under the one key `MALFORMED`, so that the client can refuse the call to the
        model's face. Tokens of the input that came from the cache are counted apart from the others.
Law     token ids and log-probs never ride along: they are in the rollout's turns.
"""

import time
from collections.abc import Sequence
from typing import Any, Literal

import orjson

from paddock.server.dialects.answers import Answer, Dialect, TokenCounts
from paddock.server.dialects.from_messages import MALFORMED
from paddock.types import JsonObject
from paddock.types.responses import (
    CALLS,
    TURN_ID,
    content_text,
    item_type,
    make_response,
    new_id,
    output_items,
    reasoning_text,
)

IncompleteReason = Literal["max_output_tokens", "content_filter"]


def body_of(dialect: Dialect, answer: Answer, request: JsonObject, *, model: str) -> JsonObject:
    """The body of a reply that is no stream."""
    if dialect == "messages":
        return message_body(answer, model=model)
    if dialect == "chat":
        return completion_body(answer, model=model)
    return response_body(answer, request, model=model)


def incomplete_reason(answer: Answer) -> IncompleteReason | None:
    if answer.finish_reason == "length":
        return "max_output_tokens"
    return "content_filter" if answer.finish_reason == "content_filter" else None


def response_body(answer: Answer, request: JsonObject, *, model: str) -> JsonObject:
    """A Responses object; what an engine of that dialect said besides is passed on. One within a rollout says which
    turn it is."""
    output = [with_handle(item, request, answer.handle) for item in answer.output]
    turn_id = {TURN_ID: answer.handle} if answer.handle else {}
    if answer.response:
        return {**answer.response, "output": output, **turn_id}
    body = make_response(
        output,
        request,
        model=answer.model or model,
        incomplete_reason=incomplete_reason(answer),
    )
    body["usage"] = responses_usage(answer.counts or TokenCounts())
    if request.get("instructions") is not None:
        body["instructions"] = request["instructions"]
    return {**body, **turn_id}


def with_handle(item: JsonObject, request: JsonObject, handle: str | None) -> JsonObject:
    """An item of an answer, its reasoning with the answer's handle if the client asks for such. What the engine put
    there itself stays: it wants that back."""
    include = request.get("include")
    wants_handle = isinstance(include, list) and "reasoning.encrypted_content" in include
    if not (handle and wants_handle) or item_type(item) != "reasoning" or item.get("encrypted_content"):
        return item
    return {**item, "encrypted_content": handle}


def completion_body(answer: Answer, *, model: str) -> JsonObject:
    """A chat completion of one choice."""
    choice = {
        "index": 0,
        "message": assistant_message(answer.output),
        "logprobs": None,
        "finish_reason": chat_finish_reason(answer),
    }
    return {
        "id": new_id("chatcmpl"),
        "object": "chat.completion",
        "created": int(time.time()),
        "model": answer.model or model,
        "choices": [choice],
        "usage": chat_usage(answer.counts or TokenCounts()),
    }


def chat_usage(counts: TokenCounts) -> JsonObject:
    return {
        "prompt_tokens": counts.input_tokens,
        "completion_tokens": counts.output_tokens,
        "total_tokens": counts.input_tokens + counts.output_tokens,
        "prompt_tokens_details": {"cached_tokens": counts.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": counts.reasoning_tokens},
    }


def responses_usage(counts: TokenCounts) -> JsonObject:
    return {
        "input_tokens": counts.input_tokens,
        "input_tokens_details": {"cached_tokens": counts.cached_tokens},
        "output_tokens": counts.output_tokens,
        "output_tokens_details": {"reasoning_tokens": counts.reasoning_tokens},
        "total_tokens": counts.input_tokens + counts.output_tokens,
    }


def chat_finish_reason(answer: Answer) -> str:
    """`tool_calls` when there are some, also where an engine says `stop`."""
    if answer.finish_reason in ("length", "content_filter"):
        return answer.finish_reason
    return "stop" if set(CALLS).isdisjoint(map(item_type, answer.output)) else "tool_calls"


def assistant_message(output: Sequence[JsonObject]) -> JsonObject:
    """The items of one answer as one assistant message."""
    texts, refusals, thoughts = [], [], []
    tool_calls: list[JsonObject] = []
    for item in output:
        kind = item_type(item)
        if kind == "message":
            texts.append(content_text(item.get("content")))
            for part in output_items(item.get("content")):
                refusals.append(str(part.get("refusal") or ""))
        elif kind == "reasoning":
            thoughts.append(reasoning_text(item))
        elif kind in CALLS:
            tool_calls.append(tool_call(item))
    text = "".join(texts)
    message: JsonObject = {"role": "assistant", "content": text if text or not tool_calls else None}
    if any(thoughts):
        message["reasoning_content"] = "\n".join(thought for thought in thoughts if thought)
    if any(refusals):
        message["refusal"] = "".join(refusals)
    if tool_calls:
        message["tool_calls"] = tool_calls
    return message


def tool_call(item: JsonObject) -> JsonObject:
    """A call item as an entry of `tool_calls`."""
    if item_type(item) == "custom_tool_call":
        custom = {"name": item.get("name", ""), "input": item.get("input", "")}
        return {"id": item["call_id"], "type": "custom", "custom": custom}
    function = {"name": item.get("name", ""), "arguments": item.get("arguments", "")}
    return {"id": item["call_id"], "type": "function", "function": function}


def message_body(answer: Answer, *, model: str) -> JsonObject:
    """The body of a Messages reply."""
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
        text = message_text(item)
        return {"type": "text", "text": text} if text else None
    if kind == "reasoning":
        text, signature = reasoning_text(item), signature_of(item, handle)
        return {"type": "thinking", "thinking": text, "signature": signature} if text or signature else None
    if kind in CALLS:
        return {**tool_use(item), "input": orjson.loads(input_json(item))}
    return None


def message_text(item: JsonObject) -> str:
    """The text of a message item, that of a refusal too."""
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
    arguments = str(item.get("arguments") or "")
    if not arguments.strip():
        return "{}"
    try:
        if isinstance(orjson.loads(arguments), dict):
            return arguments
    except orjson.JSONDecodeError:
        pass
    return orjson.dumps({MALFORMED: arguments}).decode()
