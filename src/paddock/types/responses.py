"""Responses API objects as plain JSON: lenient readers, makers of standard objects, and a check of an object's shape.

Source  OpenAI Responses API, "The Response object" and "Input items".
Shapes  an item is a JSON object with `type`; a message without `type` but with `role` is a message.
Law     every item that is made has an id, every call a call id, unique beyond the rollout. Items that were given are
        not changed; completed copies are made.
Errors  readers never raise on any JSON: a value of another shape is ignored. A response that is judged has passed
        `response_problem` before, for which a field of another type is a problem, and not taken for an empty one; a
        missing or null field may be empty. What a model may write is no problem: an unknown name, arguments that are
        no JSON, no text, unknown kinds of items.
"""

import random
import time
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from paddock.types.records import JsonObject, Usage

TURN_ID = "paddock_turn_id"
"""Key of a response within a rollout: the turn that it is recorded as."""
MODEL_PATCH = "model_patch"
"""Key of a coding agent's response, which may stand without items."""
Status = Literal["completed", "incomplete", "failed", "in_progress"]
ShapeField = Literal["output", "item", "content", "name", "arguments"]


ID_PREFIX = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "custom_tool_call": "ctc",
}
CALLS = ("function_call", "custom_tool_call")


class ToolCall(NamedTuple):
    """One tool call as the model wrote it: `arguments` is the raw string, decodable or not."""

    name: str
    arguments: str
    call_id: str | None = None


_random = random.Random()  # ids must be unique, not secret


def new_id(prefix: str) -> str:
    """A fresh globally unique id such as `resp_…`: 96 random bits, which may be guessed from others."""
    return f"{prefix}_{_random.getrandbits(96):024x}"


def output_items(response: Any) -> list[JsonObject]:
    """The output items of a response, or of a bare list of items; anything else has none."""
    items = response.get("output") if isinstance(response, dict) else response
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def item_type(item: JsonObject) -> str:
    kind = item.get("type")
    return kind if isinstance(kind, str) else ("message" if "role" in item else "")


def calls(response: Any) -> list[ToolCall]:
    """Function calls and custom tool calls in order. A custom call's arguments are its `input` text.

    A call without a string name is kept with the name `""`: it was a call, and it can match nothing.
    """
    return [tool_call(item) for item in output_items(response) if item_type(item) in CALLS]


def tool_call(item: JsonObject) -> ToolCall:
    """The call of an item whose type is one of `CALLS`."""
    name, call_id = item.get("name"), item.get("call_id")
    raw = item.get("arguments" if item_type(item) == "function_call" else "input")
    return ToolCall(
        name if isinstance(name, str) else "",
        raw if isinstance(raw, str) else "",
        call_id if isinstance(call_id, str) else None,
    )


def content_text(content: Any) -> str:
    """Text of a message's content: a string, or the text parts of a list, joined."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts: list[str] = []
    for part in content:
        text = part.get("text") if isinstance(part, dict) else part
        if isinstance(text, str):
            texts.append(text)
    return "".join(texts)


def messages(response: Any) -> list[str]:
    """Texts of the assistant messages of a response, in order, empty ones included."""
    return [
        content_text(item.get("content"))
        for item in output_items(response)
        if item_type(item) == "message" and item.get("role", "assistant") == "assistant"
    ]


def without_thought(text: str) -> str | None:
    """What follows the last `</think>` of a text; None: a thought in it does not end."""
    answer = text.rpartition("</think>")[2]
    return None if "<think>" in answer else answer


def final_text(response: Any) -> str | None:
    """The last message with text, without its thought; None: there is none, or its thought does not end."""
    text = next((text for text in reversed(messages(response)) if text.strip()), None)
    return None if text is None else without_thought(text)


def is_complete(response: Any) -> bool:
    """False when the response says that it was cut or failed; a response that says nothing is complete."""
    if not isinstance(response, dict):
        return False
    if response.get("status") in ("incomplete", "failed", "cancelled", "in_progress"):
        return False
    return not response.get("incomplete_details")


def is_cut(response: Any) -> bool:
    """True when a token budget ended the response."""
    if not isinstance(response, dict) or is_complete(response):
        return False
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    return response.get("status") == "incomplete" and reason in (None, "max_output_tokens")


def turn_id_of(response: Any) -> str | None:
    """The id of the recorded turn that a response is; None: the response has none."""
    named = response.get(TURN_ID) if isinstance(response, dict) else None
    return named if isinstance(named, str) and named else None


def usage_of(response: Any) -> Usage:
    """Token counts of a response; zeros where it gives none."""
    usage = response.get("usage") if isinstance(response, dict) else None
    if not isinstance(usage, dict):
        return Usage()
    return Usage(
        input_tokens=_count(usage, "input_tokens"),
        output_tokens=_count(usage, "output_tokens"),
        cached_tokens=_count(usage.get("input_tokens_details"), "cached_tokens"),
        reasoning_tokens=_count(usage.get("output_tokens_details"), "reasoning_tokens"),
    )


def _count(holder: Any, key: str) -> int:
    value = holder.get(key) if isinstance(holder, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def user_message(text: str) -> JsonObject:
    return {"type": "message", "role": "user", "content": text}


def message_item(text: str) -> JsonObject:
    return {
        "type": "message",
        "id": new_id("msg"),
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def call_item(name: str, arguments: str, call_id: str | None = None) -> JsonObject:
    return {
        "type": "function_call",
        "id": new_id("fc"),
        "call_id": call_id or new_id("call"),
        "name": name,
        "arguments": arguments,
        "status": "completed",
    }


def reasoning_item(text: str, item_id: str | None = None) -> JsonObject:
    return {
        "type": "reasoning",
        "id": item_id or new_id("rs"),
        "summary": [{"type": "summary_text", "text": text}] if text else [],
    }


def custom_call_item(name: str, text: str, call_id: str | None = None) -> JsonObject:
    return {
        "type": "custom_tool_call",
        "id": new_id("ctc"),
        "call_id": call_id or new_id("call"),
        "name": name,
        "input": text,
        "status": "completed",
    }


def with_ids(item: JsonObject, *, fresh: bool = False) -> JsonObject:
    """The item with its type, id and call id; `fresh`: new ones, whatever it had."""
    kind = item_type(item)
    out = dict(item)
    out["type"] = kind
    if fresh or not isinstance(item.get("id"), str) or not item["id"]:
        out["id"] = new_id(ID_PREFIX.get(kind, "item"))
    if kind in CALLS and (fresh or not isinstance(item.get("call_id"), str) or not item["call_id"]):
        out["call_id"] = new_id("call")
    return out


def reasoning_text(item: JsonObject) -> str:
    """The text of a reasoning item: its summary, else its content."""
    return content_text(item.get("summary")) or content_text(item.get("content"))


def skeleton(item: JsonObject) -> JsonObject:
    """The item as it is when it opens: nothing said yet."""
    kind = item_type(item)
    empty: JsonObject = {}
    if kind == "message":
        empty = {"content": [], "status": "in_progress"}
    elif kind == "reasoning":
        empty = {"summary": []}
        item = {key: value for key, value in item.items() if key not in ("content", "encrypted_content")}
    elif kind == "function_call":
        empty = {"arguments": "", "status": "in_progress"}
    elif kind == "custom_tool_call":
        empty = {"input": "", "status": "in_progress"}
    return {**item, **empty}


def make_response(
    output: Sequence[JsonObject],
    request: JsonObject,
    *,
    model: str,
    usage: Usage | None = None,
    incomplete_reason: Literal["max_output_tokens", "content_filter"] | None = None,
) -> JsonObject:
    """A standard response object for `request`."""
    counts = usage or Usage()
    return {
        "id": new_id("resp"),
        "object": "response",
        "created_at": int(time.time()),
        "status": "incomplete" if incomplete_reason else "completed",
        "incomplete_details": {"reason": incomplete_reason} if incomplete_reason else None,
        "error": None,
        "model": model,
        "output": list(output),
        "parallel_tool_calls": request.get("parallel_tool_calls") is not False,
        "tool_choice": request.get("tool_choice") or "auto",
        "tools": request.get("tools") or [],
        "temperature": request.get("temperature"),
        "top_p": request.get("top_p"),
        "max_output_tokens": request.get("max_output_tokens"),
        "metadata": request.get("metadata") or {},
        "usage": {
            "input_tokens": counts.input_tokens,
            "input_tokens_details": {"cached_tokens": counts.cached_tokens},
            "output_tokens": counts.output_tokens,
            "output_tokens_details": {"reasoning_tokens": counts.reasoning_tokens},
            "total_tokens": counts.input_tokens + counts.output_tokens,
        },
    }


class ShapeProblem(NamedTuple):
    """One field that is wrong."""

    path: str
    """Its path, as `output.0.arguments`."""
    field: ShapeField
    needs: str
    got: str
    """Its type in Python's words."""

    def __str__(self) -> str:
        return f"{self.path}: needs {self.needs}, got {self.got}"


def response_problem(response: JsonObject, path: str = "response") -> ShapeProblem | None:
    """What is wrong with a response that is to be judged; None: nothing. `path`: its name in messages."""
    output = response.get("output")
    if "output" not in response and MODEL_PATCH in response:
        return None
    if not isinstance(output, list):
        return _problem(f"{path}.output", "output", "a list of items", output)
    for nth, item in enumerate(output):
        if (problem := item_problem(item, f"{path}.output.{nth}")) is not None:
            return problem
    return None


def item_problem(item: Any, path: str) -> ShapeProblem | None:
    """What is wrong with a complete output item; None: nothing."""
    kind = item_type(item) if isinstance(item, dict) else ""
    if not kind:
        return _problem(path, "item", "an object with a `type`", item)
    if not isinstance(item.get("type", ""), str):
        return _problem(f"{path}.type", "item", "a text", item["type"])
    if kind in ("function_call", "custom_tool_call"):
        text = "arguments" if kind == "function_call" else "input"
        wrong_name = name_problem(item.get("name"), f"{path}.name")
        return wrong_name or arguments_problem(item.get(text), f"{path}.{text}")
    if kind == "message":
        if item.get("content") is None:
            return _problem(f"{path}.content", "content", "a text or a list of parts", None)
        return content_problem(item["content"], f"{path}.content")
    if kind == "reasoning":
        summary = content_problem(item.get("summary"), f"{path}.summary")
        return summary or content_problem(item.get("content"), f"{path}.content")
    return None


def name_problem(name: Any, path: str) -> ShapeProblem | None:
    return None if isinstance(name, str) else _problem(path, "name", "a text", name)


def arguments_problem(arguments: Any, path: str) -> ShapeProblem | None:
    # An object is no substitute: the text that the model wrote is judged, and can't be recovered from an object.
    return None if isinstance(arguments, str | None) else _problem(path, "arguments", "the model's text", arguments)


def content_problem(value: Any, path: str) -> ShapeProblem | None:
    parts = value if isinstance(value, list) else []
    if isinstance(value, str | list | None) and all(map(_is_part, parts)):
        return None
    return _problem(path, "content", "a text or a list of parts", value)


def _is_part(part: Any) -> bool:
    return isinstance(part, str) or (isinstance(part, dict) and isinstance(part.get("text"), str | None))


def _problem(path: str, field: ShapeField, needs: str, got: Any) -> ShapeProblem:
    return ShapeProblem(path, field, needs, type(got).__name__)
