"""Chat messages and tools as chat templates get them from an engine.

Source  what vLLM's chat endpoint makes of a request before it renders, so that equal requests give equal ids; but
        content is a list of parts only where a template takes nothing else, as in `apply_chat_template`.
Shapes  content that is null becomes "" (beside calls null, where the template wants that); text parts are joined by
        newlines, empty ones left out, unless the template takes parts; reasoning is there under both of its names; a
        call's arguments are an object where their string holds one, else that string (an empty one: {}), unless the
        template takes strings; a `developer` speaks as `system` where the template knows none.
Errors  RequestError `content_unsupported` for content that is no text.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from paddock.errors import RequestError
from paddock.tokens.forms import Forms
from paddock.types import JsonObject
from paddock.types.responses import output_items

_TEXT_TYPES = ("text", "input_text", "output_text", "refusal", "thinking")
_SHORT_ID_CHARS = 9


def template_messages(messages: Sequence[JsonObject], forms: Forms) -> list[JsonObject]:
    """`forms`: of the template."""
    given = messages if forms.developer else map(_as_system, messages)
    return [_message(message, forms) for message in given]


def with_one_system(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """Messages of which some are a developer's, for a template that doesn't know that role: what developers and systems
    say, at the start."""
    if all(message.get("role") != "developer" for message in messages):
        return list(messages)
    spoken = [_as_system(message) for message in messages]
    systems = [message for message in spoken if message.get("role") == "system"]
    if len(systems) == 1 and spoken[0] is systems[0]:
        return spoken
    contents = [_content(message.get("content"), parts=False) for message in systems]
    merged = {"role": "system", "content": "\n\n".join(str(content) for content in contents if content)}
    return [merged, *(message for message in spoken if message.get("role") != "system")]


def template_tools(tools: Sequence[JsonObject] | None) -> list[JsonObject] | None:
    """None for no tools."""
    return [_tool(tool) for tool in tools] if tools else None


def with_empty_arguments(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """Arguments that are no object, which some templates can't write, become {}; `messages`: as templates get them."""
    return [
        {**message, "tool_calls": [_with_object(call) for call in message["tool_calls"]]}
        if "tool_calls" in message
        else message
        for message in messages
    ]


def with_short_ids(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """Ids of calls as nine letters and digits, the same for a call and its result."""
    found: list[JsonObject] = []
    for message in messages:
        changed = dict(message)
        if isinstance(message.get("tool_call_id"), str):
            changed["tool_call_id"] = _short_id(message["tool_call_id"])
        if message.get("tool_calls"):
            changed["tool_calls"] = [
                {**call, "id": _short_id(str(call.get("id", "")))} for call in output_items(message["tool_calls"])
            ]
        found.append(changed)
    return found


def _message(message: JsonObject, forms: Forms) -> JsonObject:
    role = str(message.get("role", ""))
    parts = ("system" if role == "developer" else role) in forms.parts
    found: JsonObject = {"role": role, "content": _content(message.get("content"), parts=parts)}
    if role == "assistant":
        calls = output_items(message.get("tool_calls") or [])
        if calls:
            found["tool_calls"] = [_call(call, forms) for call in calls]
            if forms.null_content and not found["content"]:
                found["content"] = None
        reasoning = message.get("reasoning")
        reasoning = message.get("reasoning_content") if reasoning is None else reasoning
        if reasoning is not None:
            found["reasoning"] = found["reasoning_content"] = reasoning
    if role == "tool" and "tool_call_id" in message:
        found["tool_call_id"] = message["tool_call_id"]
    if isinstance(message.get("name"), str):
        found["name"] = message["name"]
    return found


def _content(content: Any, *, parts: bool) -> str | list[JsonObject]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if parts else content
    texts = [_text(part) for part in (() if content is None else content)]
    if parts:
        return [{"type": "text", "text": text} for text in texts]
    return "\n".join(text for text in texts if text)


def _text(part: Any) -> str:
    if isinstance(part, str):
        return part
    kind = part.get("type", "text") if isinstance(part, dict) else type(part).__name__
    text = part.get("refusal" if kind == "refusal" else "thinking" if kind == "thinking" else "text")
    if kind not in _TEXT_TYPES or not isinstance(text, str):
        raise RequestError(f"content of type {kind!r}: exact ids are of text alone", kind="content_unsupported")
    return text


def _call(call: JsonObject, forms: Forms) -> JsonObject:
    function = call.get("function")
    function = dict(function) if isinstance(function, dict) else {}
    given = function.get("arguments") or {}
    if forms.argument_strings:
        function["arguments"] = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    else:
        function["arguments"] = _arguments(given)
    return {**call, "type": "function", "function": function}


def _arguments(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    try:
        found = json.loads(given)  # the reader that engines use: it takes NaN, and keeps long integers
    except (ValueError, RecursionError):
        return given
    return found if isinstance(found, dict) else given


def _with_object(call: JsonObject) -> JsonObject:
    function = call["function"]
    return call if isinstance(function["arguments"], dict) else {**call, "function": {**function, "arguments": {}}}


def _tool(tool: JsonObject) -> JsonObject:
    function = tool.get("function")
    given = function if isinstance(function, dict) else {}
    found: JsonObject = {key: given.get(key) for key in ("name", "description", "parameters")}
    if given.get("strict") is not None:
        found["strict"] = given["strict"]
    return {"type": "function", "function": found}


def _as_system(message: JsonObject) -> JsonObject:
    return {**message, "role": "system"} if message.get("role") == "developer" else message


def _short_id(given: str) -> str:
    if len(given) == _SHORT_ID_CHARS and given.isascii() and given.isalnum():
        return given
    return hashlib.sha256(given.encode(errors="surrogatepass")).hexdigest()[:_SHORT_ID_CHARS]
