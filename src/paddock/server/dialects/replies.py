"""A whole answer as the body of a reply, in either of OpenAI's dialects.

Source  OpenAI: "The Response object", "The chat completion object". Reasoning in Chat is `reasoning_content`, as
        open-weight engines write it. A custom tool's call is a tool call of type `custom`.
Law     token ids and log-probs never ride along: they are in the rollout's turns.
"""

import time
from collections.abc import Sequence
from typing import Literal

from paddock.server.dialects.answers import Answer, TokenCounts
from paddock.server.dialects.items import CALLS, reasoning_text
from paddock.server.dialects.usage import chat_usage, responses_usage
from paddock.types import JsonObject
from paddock.types.responses import TURN_ID, content_text, item_type, make_response, new_id

IncompleteReason = Literal["max_output_tokens", "content_filter"]


def incomplete_reason(answer: Answer) -> IncompleteReason | None:
    if answer.finish_reason == "length":
        return "max_output_tokens"
    return "content_filter" if answer.finish_reason == "content_filter" else None


def response_body(answer: Answer, request: JsonObject, *, model: str) -> JsonObject:
    """A Responses object; what an engine of that dialect said besides is passed on. One within a rollout says which
    turn it is."""
    output = [with_handle(item, request, answer.handle) for item in answer.output]
    named = {TURN_ID: answer.handle} if answer.handle else {}
    if answer.response:
        return {**answer.response, "output": output, **named}
    body = make_response(
        output,
        request,
        model=answer.model or model,
        incomplete_reason=incomplete_reason(answer),
    )
    body["usage"] = responses_usage(answer.counts or TokenCounts())
    if request.get("instructions") is not None:
        body["instructions"] = request["instructions"]
    return {**body, **named}


def with_handle(item: JsonObject, request: JsonObject, handle: str | None) -> JsonObject:
    """An item of an answer, its reasoning with the answer's handle if the client asks for such. What the engine put
    there itself stays: it wants that back."""
    include = request.get("include")
    asked = isinstance(include, list) and "reasoning.encrypted_content" in include
    if not (handle and asked) or item_type(item) != "reasoning" or item.get("encrypted_content"):
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


def chat_finish_reason(answer: Answer) -> str:
    """`tool_calls` when there are some, also where an engine says `stop`."""
    if answer.finish_reason in ("length", "content_filter"):
        return answer.finish_reason
    return "tool_calls" if any(item_type(item) in CALLS for item in answer.output) else "stop"


def assistant_message(output: Sequence[JsonObject]) -> JsonObject:
    """The items of one answer as one assistant message."""
    texts, refusals, thoughts = [], [], []
    tool_calls: list[JsonObject] = []
    for item in output:
        kind = item_type(item)
        if kind == "message":
            texts.append(content_text(item.get("content")))
            refusals.append(_refusal(item))
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


def _refusal(item: JsonObject) -> str:
    content = item.get("content")
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("refusal") or "") for part in parts if isinstance(part, dict))
