"""A scripted answer as a Responses object: whole, or in events."""

from collections.abc import Iterator

import orjson

from paddock.testing.upstream.answer import ScriptedAnswer
from paddock.testing.upstream.chat import PIECE
from paddock.types import JsonObject


def response(answer: ScriptedAnswer, body: JsonObject, mark: str) -> JsonObject:
    """`mark` makes the ids of this answer unique."""
    cut = answer.finish_reason == "length"
    whole: JsonObject = {
        "id": f"resp_{mark}",
        "object": "response",
        "created_at": 1,
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "error": None,
        "model": "scripted",
        "output": _items(answer, _custom(body), mark),
        "tools": body.get("tools") or [],
        "tool_choice": body.get("tool_choice") or "auto",
        "parallel_tool_calls": True,
        "usage": {
            "input_tokens": answer.input_tokens,
            "input_tokens_details": {"cached_tokens": 3},
            "output_tokens": answer.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 2},
            "total_tokens": answer.input_tokens + answer.output_tokens,
        },
    }
    return whole


def events(answer: ScriptedAnswer, body: JsonObject, mark: str) -> Iterator[bytes]:
    """Server-sent events."""
    whole = response(answer, body, mark)
    started = {**whole, "output": [], "status": "in_progress", "usage": None, "incomplete_details": None}
    stream = [("response.created", {"response": started}), ("response.in_progress", {"response": started})]
    for nth, item in enumerate(whole["output"]):
        stream += _item_events(nth, item)
    stream.append((f"response.{whole['status']}", {"response": whole}))
    for number, (kind, fields) in enumerate(stream):
        data = {"type": kind, "sequence_number": number, **fields}
        yield b"event: %s\ndata: %s\n\n" % (kind.encode(), orjson.dumps(data))


def _custom(body: JsonObject) -> frozenset[str]:
    return frozenset(tool["name"] for tool in body.get("tools") or [] if tool.get("type") == "custom")


def _items(answer: ScriptedAnswer, custom: frozenset[str], mark: str) -> list[JsonObject]:
    items: list[JsonObject] = []
    if answer.reasoning:
        summary = [{"type": "summary_text", "text": answer.reasoning}]
        items.append({"type": "reasoning", "id": f"rs_{mark}", "summary": summary})
    if answer.text:
        content = [{"type": "output_text", "text": answer.text, "annotations": []}]
        message = {"type": "message", "id": f"msg_{mark}", "role": "assistant", "status": "completed"}
        items.append({**message, "content": content})
    for nth, (name, raw) in enumerate(answer.calls):
        named = {"call_id": f"call_{mark}_{nth}"} if answer.call_ids else {}
        call = {**named, "id": f"fc_{mark}_{nth}", "name": name, "status": "completed"}
        if name in custom:
            items.append({**call, "type": "custom_tool_call", "input": raw})
        else:
            items.append({**call, "type": "function_call", "arguments": raw})
    return items


def _item_events(nth: int, item: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    position: JsonObject = {"output_index": nth, "item_id": item["id"]}
    empty: JsonObject
    if item["type"] == "reasoning":
        kind, text, empty = "response.reasoning_summary_text", item["summary"][0]["text"], {"summary": []}
        position["summary_index"] = 0
    elif item["type"] == "message":
        kind, text, empty = "response.output_text", item["content"][0]["text"], {"content": []}
        position["content_index"] = 0
    elif item["type"] == "custom_tool_call":
        kind, text, empty = "response.custom_tool_call_input", item["input"], {"input": ""}
    else:
        kind, text, empty = "response.function_call_arguments", item["arguments"], {"arguments": ""}
    yield "response.output_item.added", {"output_index": nth, "item": {**item, **empty}}
    for start in range(0, len(text), PIECE):
        yield f"{kind}.delta", {**position, "delta": text[start : start + PIECE]}
    yield "response.output_item.done", {"output_index": nth, "item": item}
