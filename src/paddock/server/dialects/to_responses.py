"""A request in either dialect as a Responses request for an engine.

Law     the inverse of `to_chat` for what both dialects can say. An assistant message becomes its reasoning, its text
        and its calls, in this order. Nothing is stored at the engine unless the client asks for that.
"""

from collections.abc import Iterator
from typing import Any

from paddock.server.dialects.items import reasoning_item
from paddock.server.dialects.to_chat import REASONING_FIELDS, Converted
from paddock.server.dialects.tools import responses_tool_choice, responses_tools
from paddock.types import JsonObject
from paddock.types.responses import content_text, output_items

_SAME = [
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "user",
    "metadata",
    "store",
    "parallel_tool_calls",
    "service_tier",
    "prompt_cache_key",
]
_UNSAYABLE = [
    "seed",
    "stop",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "verbosity",
    "logit_bias",
    "safety_identifier",
]


def responses_request(body: JsonObject) -> Converted:
    """`body` as `take` gave it."""
    if "messages" not in body:
        return _passed(body)
    found = {key: body[key] for key in _SAME if key in body}
    found.setdefault("store", False)
    found.update(_renamed(body))
    tools = responses_tools(body.get("tools"))
    if tools.tools:
        found["tools"] = tools.tools
        if "tool_choice" in body:
            found["tool_choice"] = responses_tool_choice(body["tool_choice"])
    else:
        found.pop("parallel_tool_calls", None)
    messages = output_items(body["messages"])
    custom_ids = frozenset(
        call.get("id") for message in messages for call in output_items(message.get("tool_calls")) if "custom" in call
    )
    items = [item for message in messages for item in _items(message, custom_ids)]
    return Converted({"input": items, **found}, [key for key in _UNSAYABLE if key in body])


def _passed(body: JsonObject) -> Converted:
    """A Responses request: its items lose their nulls, nothing else."""
    found = {key: value for key, value in body.items() if key not in ("stream", "stream_options")}
    if isinstance(body["input"], list):
        found["input"] = [
            {key: value for key, value in item.items() if value is not None} for item in output_items(body["input"])
        ]
    if not body.get("tools"):
        found.pop("tool_choice", None)
    return Converted(found, [])


def _renamed(body: JsonObject) -> JsonObject:
    found: JsonObject = {}
    budget = body.get("max_completion_tokens", body.get("max_tokens"))
    if budget is not None:
        found["max_output_tokens"] = budget
    if "reasoning_effort" in body:
        found["reasoning"] = {"effort": body["reasoning_effort"]}
    form = body.get("response_format")
    if isinstance(form, dict) and form.get("type") not in (None, "text"):
        nested = form.get(form["type"])
        found["text"] = {"format": {"type": form["type"], **(nested if isinstance(nested, dict) else {})}}
    return found


def _items(message: JsonObject, custom_ids: frozenset[Any]) -> Iterator[JsonObject]:
    role = message.get("role", "user")
    if role == "tool":
        call_id = message.get("tool_call_id", "")
        kind = "custom_tool_call_output" if call_id in custom_ids else "function_call_output"
        yield {"type": kind, "call_id": call_id, "output": _content(message.get("content"), "input_text")}
        return
    if role != "assistant":
        yield {"type": "message", "role": role, "content": _content(message.get("content"), "input_text")}
        return
    thought = next((message[field] for field in REASONING_FIELDS if isinstance(message.get(field), str)), "")
    if thought:
        yield reasoning_item(thought)
    text = content_text(message.get("content"))
    calls = output_items(message.get("tool_calls"))
    if text or not (calls or thought):
        yield {"type": "message", "role": "assistant", "content": text}
    for call in calls:
        yield _call(call)


def _call(call: JsonObject) -> JsonObject:
    spec = call.get("custom")
    if isinstance(spec, dict):
        said = {"name": spec.get("name", ""), "input": spec.get("input", "")}
        return {"type": "custom_tool_call", "call_id": call.get("id", ""), **said}
    function = call.get("function")
    spec = function if isinstance(function, dict) else {}
    said = {"name": spec.get("name", ""), "arguments": spec.get("arguments", "")}
    return {"type": "function_call", "call_id": call.get("id", ""), **said}


def _content(content: Any, kind: str) -> str | list[JsonObject]:
    if not isinstance(content, list):
        return content_text(content)
    parts: list[JsonObject] = []
    for part in output_items(content):
        image = part.get("image_url")
        if isinstance(part.get("text"), str):
            parts.append({"type": kind, "text": part["text"]})
        elif isinstance(image, dict):
            detail = image.get("detail") or "auto"
            parts.append({"type": "input_image", "image_url": image.get("url", ""), "detail": detail})
    return parts
