"""A scripted answer as a chat completion: whole, or in chunks. Token ids in vLLM's form, when asked for."""

from collections.abc import Iterator
from typing import Any

import orjson

from paddock.testing.upstream.answer import ARGUMENTS, END, NAME, ScriptedAnswer, log_probs, prompt_ids, thought_ids
from paddock.types import JsonObject

PIECE = 12
"""Characters of a text per chunk."""


def completion(answer: ScriptedAnswer, body: JsonObject, mark: str) -> JsonObject:
    """`mark` makes the ids of this answer unique."""
    message: JsonObject = {"role": "assistant", "content": answer.text or None}
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    if answer.calls:
        message["tool_calls"] = [_call(answer, mark, nth) for nth in range(len(answer.calls))]
    choice: JsonObject = {"index": 0, "message": message, "finish_reason": answer.reason, "logprobs": None}
    whole = {
        "id": f"chatcmpl-{mark}",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [choice],
        "usage": _usage(answer, body),
    }
    if answer.weight_version:
        whole["weight_version"] = answer.weight_version
    if body.get("return_token_ids"):
        ids = answer.sampled_ids()
        whole["prompt_token_ids"] = prompt_ids(body["messages"])
        choice["token_ids"] = ids
        choice["logprobs"] = _log_probs(0, len(ids))
    return whole


def chunks(answer: ScriptedAnswer, body: JsonObject, mark: str) -> Iterator[bytes]:
    """Server-sent events, one chunk each."""
    with_ids = bool(body.get("return_token_ids"))
    head: JsonObject = {"id": f"chatcmpl-{mark}", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
    opening = {"prompt_token_ids": prompt_ids(body["messages"])} if with_ids else {}
    yield _event({**head, **opening, "choices": [_choice({"role": "assistant", "content": ""})]})
    position = 0
    for delta, ids in _deltas(answer, mark):
        choice = _choice(delta)
        if with_ids:
            choice |= {"token_ids": ids, "logprobs": _log_probs(position, len(ids))}
        position += len(ids)
        yield _event({**head, "choices": [choice]})
    last = _choice({}) | {"finish_reason": answer.reason}
    if with_ids:
        last |= {"token_ids": [END], "logprobs": _log_probs(position, 1)}
    yield _event({**head, "choices": [last]})
    if (body.get("stream_options") or {}).get("include_usage"):
        yield _event({**head, "choices": [], "usage": _usage(answer, body)})
    yield b"data: [DONE]\n\n"


def _deltas(answer: ScriptedAnswer, mark: str) -> Iterator[tuple[JsonObject, list[int]]]:
    thought = thought_ids(answer.reasoning)
    for nth, piece in enumerate(_pieces(answer.reasoning)):
        yield {"reasoning_content": piece}, thought if nth == 0 else []
    for piece in _pieces(answer.text):
        yield {"content": piece}, list(piece.encode())
    for nth, (name, raw) in enumerate(answer.calls):
        call: JsonObject = {**_call(answer, mark, nth), "index": nth}
        call["function"] = {"name": name, "arguments": ""}
        yield {"tool_calls": [call]}, [NAME, *name.encode(), ARGUMENTS]
        for piece in _pieces(raw):
            yield {"tool_calls": [{"index": nth, "function": {"arguments": piece}}]}, list(piece.encode())


def _call(answer: ScriptedAnswer, mark: str, nth: int) -> JsonObject:
    name, raw = answer.calls[nth]
    named = {"id": f"chatcmpl-tool-{mark}-{nth}"} if answer.call_ids else {}
    return {**named, "type": "function", "function": {"name": name, "arguments": raw}}


def _pieces(text: str) -> list[str]:
    return [text[start : start + PIECE] for start in range(0, len(text), PIECE)]


def _choice(delta: JsonObject) -> JsonObject:
    return {"index": 0, "delta": delta, "finish_reason": None}


def _log_probs(start: int, count: int) -> JsonObject:
    return {"content": [{"token": "", "logprob": value} for value in log_probs(start, count)]}


def _usage(answer: ScriptedAnswer, body: JsonObject) -> JsonObject:
    """Scripted counts; with token ids, the counts of those."""
    used = answer.input_tokens, answer.output_tokens
    if body.get("return_token_ids"):
        used = len(prompt_ids(body["messages"])), len(answer.sampled_ids())
    return {
        "prompt_tokens": used[0],
        "completion_tokens": used[1],
        "total_tokens": sum(used),
        "prompt_tokens_details": {"cached_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }


def _event(data: Any) -> bytes:
    return b"data: %s\n\n" % orjson.dumps(data)
