"""A Messages request as a Responses request: its history as canonical items, its other keys under their names there.

Source  Anthropic, "Messages". `cache_control` and what else a block says about itself counts for nothing.
Law     a message becomes one item per thought, text, call and result, in their order; texts next to each other in the
        assistant's become one. A thought's `signature` (or redacted `data`) is its opaque handle. Arguments that were
        no JSON object come back as they were said. Thinking is turned off where the client says so; its budget is
        the engine's business. Tools that the provider would run are left out, by name, as are their blocks.
Errors  RequestError for what would be lost unseen: documents that are no text, and images that are elsewhere.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from paddock.errors import RequestError
from paddock.server.dialects.canonical import canonical_call, canonical_message, canonical_output, canonical_reasoning
from paddock.types import JsonObject
from paddock.types.responses import output_items

MALFORMED = "malformed_arguments"
"""The one key of a call's input whose arguments are no JSON object: as they were said."""
BILLING = "x-anthropic-billing-header:"
"""A system block of Claude Code's that begins so is for the provider, and differs in each request."""
_SAME = ("model", "temperature", "top_p", "top_k", "stream", "service_tier")
_RENAMED = {"max_tokens": "max_output_tokens", "stop_sequences": "stop"}
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_EFFORTS = {"xhigh": "high", "max": "high"}
"""Efforts that engines have no word for."""


class ResponsesForm(NamedTuple):
    """A request in Responses form."""

    body: JsonObject
    chat_template_kwargs: JsonObject
    dropped: list[str]


def responses_form(body: JsonObject) -> ResponsesForm:
    """`body`: known keys without nulls."""
    dropped: list[str] = []
    out: JsonObject = {key: body[key] for key in _SAME if key in body}
    out.update({name: body[key] for key, name in _RENAMED.items() if key in body})
    out["input"] = [*_system(body.get("system")), *_history(body["messages"], dropped)]
    tools = list(_tools(body.get("tools"), dropped))
    if tools:
        out["tools"] = tools
    out.update(_choice(body.get("tool_choice")))
    out.update(_output(body.get("output_config")))
    metadata = body.get("metadata")
    dropped += [f"metadata.{key}" for key in metadata] if isinstance(metadata, dict) else []
    thinking = body.get("thinking")
    mode = thinking if isinstance(thinking, dict) else {}
    dropped += [f"thinking.{key}" for key in mode if key != "type"]
    kwargs = {"enable_thinking": False} if mode.get("type") == "disabled" else {}
    return ResponsesForm(out, kwargs, dropped)


def _system(given: Any) -> Iterator[JsonObject]:
    if isinstance(given, list):
        given = [block for block in output_items(given) if not _text(block.get("text")).startswith(BILLING)]
    content = _content(given, [])
    if content:
        yield canonical_message("system", content)


def _history(messages: Any, dropped: list[str]) -> Iterator[JsonObject]:
    for message in output_items(messages):
        role, content = message.get("role"), message.get("content")
        if role == "assistant":
            yield from _assistant_items(content, dropped)
        elif isinstance(content, str):
            yield canonical_message(str(role or "user"), content)
        else:
            yield from _environment_items(str(role or "user"), output_items(content), dropped)


def _assistant_items(content: Any, dropped: list[str]) -> Iterator[JsonObject]:
    """The items of an assistant's message."""
    if isinstance(content, str):
        yield canonical_message("assistant", content)
        return
    texts: list[str] = []
    for block in output_items(content):
        kind = block.get("type")
        if kind == "text":
            texts.append(_text(block.get("text")))
            continue
        if any(texts):
            yield canonical_message("assistant", "".join(texts))
        texts = []
        if kind == "tool_use":
            yield canonical_call(block.get("id"), block.get("name"), _arguments(block.get("input")))
        elif kind == "thinking":
            yield canonical_reasoning(_text(block.get("thinking")), block.get("signature"))
        elif kind == "redacted_thinking":
            yield canonical_reasoning("", block.get("data"))
        else:
            dropped.append(f"messages.{kind}")
    if any(texts):
        yield canonical_message("assistant", "".join(texts))


def _environment_items(role: str, blocks: list[JsonObject], dropped: list[str]) -> Iterator[JsonObject]:
    """The items of any other message: tool results, and what stands between them."""
    parts: list[JsonObject] = []
    for block in blocks:
        if block.get("type") != "tool_result":
            parts.append(block)
            continue
        if parts:
            yield from _message(role, parts, dropped)
        parts = []
        yield canonical_output(block.get("tool_use_id"), _content(block.get("content"), dropped))
    if parts:
        yield from _message(role, parts, dropped)


def _message(role: str, blocks: list[JsonObject], dropped: list[str]) -> Iterator[JsonObject]:
    content = _content(blocks, dropped)
    if content:
        yield canonical_message(role, content)


def _content(content: Any, dropped: list[str]) -> str | list[JsonObject]:
    if not isinstance(content, list):
        return _text(content)
    parts = [part for block in output_items(content) if (part := _part(block, dropped)) is not None]
    if len(parts) == 1 and parts[0]["type"] == "input_text":
        return str(parts[0]["text"])
    return parts or ""


def _part(block: JsonObject, dropped: list[str]) -> JsonObject | None:
    kind = block.get("type")
    if kind == "text":
        return {"type": "input_text", "text": _text(block.get("text"))}
    given = block.get("source")
    source = given if isinstance(given, dict) else {}
    if kind == "image":
        return {"type": "input_image", "image_url": _image_url(source), "detail": "auto"}
    if kind == "document":
        if source.get("type") != "text":
            raise RequestError("a `document` block: only one whose source is text can be read", kind="request_invalid")
        return {"type": "input_text", "text": _text(source.get("data"))}
    dropped.append(f"messages.{kind}")
    return None


def _image_url(source: JsonObject) -> str:
    if source.get("type") == "base64":
        return f"data:{source.get('media_type')};base64,{source.get('data')}"
    if source.get("type") == "url" and isinstance(source.get("url"), str):
        return str(source["url"])
    raise RequestError("an `image` block: its source has to be `base64` or `url`", kind="request_invalid")


def _arguments(given: Any) -> Any:
    if isinstance(given, dict) and list(given) == [MALFORMED] and isinstance(given[MALFORMED], str):
        return given[MALFORMED]
    return orjson.dumps({} if given is None else given).decode()


def _tools(given: Any, dropped: list[str]) -> Iterator[JsonObject]:
    for tool in output_items(given):
        kind = tool.get("type") or "custom"
        if kind != "custom" or "input_schema" not in tool:
            dropped.append(f"tools.{kind}")
            continue
        function = {"type": "function", "name": tool.get("name", ""), "parameters": tool["input_schema"]}
        yield function | {key: tool[key] for key in ("description", "strict") if tool.get(key) is not None}


def _choice(choice: Any) -> JsonObject:
    if not isinstance(choice, dict):
        return {}
    fields: JsonObject = {"parallel_tool_calls": False} if choice.get("disable_parallel_tool_use") is True else {}
    kind = choice.get("type")
    if kind == "tool":
        return fields | {"tool_choice": {"type": "function", "name": _text(choice.get("name"))}}
    return fields | ({"tool_choice": _CHOICES[kind]} if isinstance(kind, str) and kind in _CHOICES else {})


def _output(config: Any) -> JsonObject:
    if not isinstance(config, dict):
        return {}
    fields: JsonObject = {}
    effort, form = config.get("effort"), config.get("format")
    if isinstance(effort, str):
        fields["reasoning"] = {"effort": _EFFORTS.get(effort, effort)}
    if isinstance(form, dict) and form.get("type") == "json_schema":
        fields["text"] = {"format": {"type": "json_schema", "name": "answer", "schema": form.get("schema")}}
    return fields


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
