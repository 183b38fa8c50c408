"""A row's conversation and a policy's response as a judge sees them: roles and texts.

Shown   everything that was said, in order: instructions, messages (texts of all their parts), tool calls with their
        arguments, and what the tools gave. Reasoning is left out; tools are listed by name.
Marks   what is no message stands between marks (`paddock.quote`), so that no message can pass for a call or a result.
        A response of messages alone is their text and nothing else.
Errors  none: whatever is not of the expected shape is shown as the JSON that it is, or is as if it were not there.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

from paddock import quote
from paddock.types import JsonObject
from paddock.types.responses import item_type, output_items

Role = Literal["system", "user", "assistant"]
EMPTY = "(The response is empty: it has no text and calls no tool.)"
PARAGRAPH = "\n\n"
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_RESULTS = ("function_call_output", "custom_tool_call_output")
_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "assistant": "assistant"}


class _Part(NamedTuple):
    """A piece of a conversation."""

    role: Role
    text: str
    label: str | None = None
    """The label of the marks around it; None: a message, which has no marks."""


def history(params: JsonObject) -> list[JsonObject]:
    """Return the conversation that the response answers, as `{role, content}`; neighbours of one role become one."""
    parts = [*_preface(params), *_input_parts(params.get("input"))]
    nonce = _nonce(parts)
    messages: list[JsonObject] = []
    for part in parts:
        text = _render(part, nonce)
        if messages and messages[-1]["role"] == part.role:
            messages[-1]["content"] += PARAGRAPH + text
        else:
            messages.append({"role": part.role, "content": text})
    return messages


def response_text(response: Any) -> str:
    """Return what of a response is judged, as one text."""
    parts = [part for part in _parts(output_items(response), "assistant") if part.text.strip()]
    nonce = _nonce(parts)
    return PARAGRAPH.join(_render(part, nonce) for part in parts) or EMPTY


def _preface(params: JsonObject) -> Iterator[_Part]:
    instructions = params.get("instructions")
    if isinstance(instructions, str) and instructions:
        yield _Part("system", instructions)
    names = [name for tool in params.get("tools") or () if isinstance(name := _tool_name(tool), str)]
    if names:
        yield _Part("system", "\n".join(names), "names of the assistant's tools")


def _tool_name(tool: Any) -> Any:
    if not isinstance(tool, dict):
        return None
    function = tool.get("function")
    return tool.get("name") or (function.get("name") if isinstance(function, dict) else None) or tool.get("type")


def _input_parts(given: Any) -> Iterator[_Part]:
    if isinstance(given, str):
        yield _Part("user", given)
    elif isinstance(given, list):
        yield from _parts((item for item in given if isinstance(item, dict)), "user")


def _parts(items: Iterable[JsonObject], unnamed: Role) -> Iterator[_Part]:
    """Yield the parts of some items; `unnamed` is the role of a message that has none."""
    for item in items:
        kind = item_type(item)
        if kind == "message":
            role = item.get("role")
            yield _Part(_ROLES.get(role, "user") if isinstance(role, str) else unnamed, _content(item.get("content")))
        elif kind in _CALLS:
            name, given = item.get("name"), item.get(_CALLS[kind])
            yield _Part("assistant", f"{_text(name)}\n{_text(given)}", "tool call")
        elif kind in _RESULTS:
            yield _Part("user", _content(item.get("output")), "tool result")
        elif kind != "reasoning":
            yield _Part("assistant", _text(item), "other item")


def _content(content: Any) -> str:
    """Return the text of a content's parts; of a part without text, such as an image, its type in brackets."""
    if not isinstance(content, list):
        return _text(content)
    return "".join(_part_text(part) for part in content)


def _part_text(part: Any) -> str:
    if not isinstance(part, dict):
        return _text(part)
    for key in ("text", "refusal"):
        if isinstance(part.get(key), str):
            return str(part[key])
    return f"[{_text(part.get('type') or 'part')}]"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, sort_keys=True, default=str)


def _nonce(parts: list[_Part]) -> str:
    """Return the nonce of the marks; empty where nothing stands between marks."""
    marked = any(part.label is not None for part in parts)
    return quote.nonce_of(part.text for part in parts) if marked else ""


def _render(part: _Part, nonce: str) -> str:
    text = part.text if part.label is None else quote.enclose(part.label, part.text, nonce)
    # Half a surrogate pair is JSON, but no text that could be stored or sent.
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
