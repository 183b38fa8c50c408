"""A client's history in one form, whatever the dialect and the client: Responses items of known keys.

Shapes  message: `role`, `content`. reasoning: `summary` of at most one part, `encrypted_content` if it has a handle.
        Calls: `call_id`, `name` as the model was shown it, `arguments` or `input`. Outputs: `call_id`, `output`. An
        item that had an `id` keeps it. Content is a string; a list of `input_text` and `input_image` parts only where
        there is more than one text or an image.
Chat    an assistant message becomes its reasoning, its text and its calls, in this order; a `tool` message the output
        of its call, a custom one's if the call was. Reasoning is `reasoning` or `reasoning_content`; a handle is the
        `signature` of the last of litellm's `thinking_blocks`. The other way items of one turn (reasoning, message,
        calls) become one assistant message, and the order of turns is kept; a content of one text part becomes a plain
        string, because many chat templates take nothing else.
Law     one pass, and no deep copies: texts are shared with the request. An item of another kind is left out, and named.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import orjson

from paddock.server.dialects.tools import arguments_of
from paddock.types import JsonObject
from paddock.types.responses import content_text, item_type, output_items, reasoning_text


def canonical_message(role: str, content: Any) -> JsonObject:
    """A message with canonical content; the assistant's is one text."""
    return {"type": "message", "role": role, "content": content}


def canonical_reasoning(text: str, handle: Any = None) -> JsonObject:
    item: JsonObject = {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}] if text else []}
    if isinstance(handle, str) and handle:
        item["encrypted_content"] = handle
    return item


def canonical_call(call_id: Any, name: Any, arguments: Any) -> JsonObject:
    text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    return {"type": "function_call", "call_id": _text(call_id), "name": _text(name), "arguments": text}


def canonical_custom_call(call_id: Any, name: Any, text: Any) -> JsonObject:
    return {"type": "custom_tool_call", "call_id": _text(call_id), "name": _text(name), "input": _text(text)}


def canonical_output(call_id: Any, output: Any, *, custom: bool = False) -> JsonObject:
    kind = "custom_tool_call_output" if custom else "function_call_output"
    return {"type": kind, "call_id": _text(call_id), "output": output}


def canonical_content(content: Any) -> str | list[JsonObject]:
    """Content of Responses or Chat."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [part for part in map(_part, content) if part is not None]
    if len(parts) == 1 and parts[0]["type"] == "input_text":
        return str(parts[0]["text"])
    return parts or content_text(content)


def canonical_history(
    body: JsonObject, dropped: list[str], namespaces: Mapping[str, tuple[str, str]]
) -> list[JsonObject]:
    """The history of a Responses request, its instructions first. `namespaces`: as the tools are offered."""
    shown = dict(zip(namespaces.values(), namespaces, strict=True))
    items = canonical_items(body["input"], dropped, shown)
    if not body.get("instructions"):
        return items
    return [canonical_message("system", canonical_content(body["instructions"])), *items]


def canonical_items(
    given: Any, dropped: list[str], shown: Mapping[tuple[str, str], str] | None = None
) -> list[JsonObject]:
    """The items of a Responses request's `input`. `shown`: the name that is offered, by namespace and name."""
    if isinstance(given, str):
        return [canonical_message("user", given)]
    names = shown or {}
    items: list[JsonObject] = []
    for item in output_items(given):
        kind = item_type(item)
        read = _READERS.get(kind)
        if read is None:
            dropped.append(f"input.{kind}")
            continue
        canonical = read(item)
        item_id = item.get("id")
        if isinstance(item_id, str) and item_id:
            canonical["id"] = item_id
        if names and "namespace" in item and "name" in canonical:
            canonical["name"] = names.get((_text(item["namespace"]), canonical["name"]), canonical["name"])
        items.append(canonical)
    return items


def _message(item: JsonObject) -> JsonObject:
    role = item.get("role", "assistant")
    content = item.get("content")
    if role == "assistant":
        return canonical_message(
            role, content if isinstance(content, str) else content_text(content) or _refusal(content)
        )
    return canonical_message(_text(role), canonical_content(content))


def _reasoning(item: JsonObject) -> JsonObject:
    return canonical_reasoning(reasoning_text(item), item.get("encrypted_content"))


def _call(item: JsonObject) -> JsonObject:
    return canonical_call(item.get("call_id") or item.get("id"), item.get("name"), item.get("arguments") or "")


def _custom_call(item: JsonObject) -> JsonObject:
    return canonical_custom_call(item.get("call_id") or item.get("id"), item.get("name"), item.get("input"))


def _output(item: JsonObject) -> JsonObject:
    output = item.get("output")
    if not isinstance(output, str):
        output = canonical_content(output) if isinstance(output, list) else orjson.dumps(output).decode()
    return canonical_output(item.get("call_id"), output, custom=item["type"] == "custom_tool_call_output")


_READERS: dict[str, Callable[[JsonObject], JsonObject]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _call,
    "custom_tool_call": _custom_call,
    "function_call_output": _output,
    "custom_tool_call_output": _output,
}


def _part(part: Any) -> JsonObject | None:
    if not isinstance(part, dict):
        return {"type": "input_text", "text": part} if isinstance(part, str) else None
    for field in ("text", "refusal"):
        if isinstance(part.get(field), str):
            return {"type": "input_text", "text": part[field]}
    url: Any = part.get("image_url")
    detail = part.get("detail")
    if isinstance(url, dict):
        url, detail = url.get("url"), url.get("detail")
    if not isinstance(url, str):
        return None
    return {"type": "input_image", "image_url": url, "detail": detail or "auto"}


def _refusal(content: Any) -> str:
    return "".join(_text(part.get("refusal")) for part in output_items(content))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


REASONING_FIELDS = ("reasoning", "reasoning_content")
"""Under these an assistant message may hold its reasoning; engines differ in which they read."""


def items_of_chat(messages: Any, custom: Iterable[str] = ()) -> Iterator[JsonObject]:
    """The items of a Chat request's `messages`. `custom`: ids of custom tools' calls before them."""
    custom_ids: set[Any] = set(custom)
    for message in output_items(messages):
        role = message.get("role", "user")
        content = message.get("content")
        if role == "assistant":
            yield from _assistant_items(message, content, custom_ids)
        elif role == "tool":
            call_id = message.get("tool_call_id")
            output = content if isinstance(content, str) else canonical_content(content)
            yield canonical_output(call_id, output, custom=isinstance(call_id, str) and call_id in custom_ids)
        else:
            output = content if isinstance(content, str) else canonical_content(content)
            yield canonical_message(role if isinstance(role, str) else "user", output)


def _assistant_items(message: JsonObject, content: Any, custom_ids: set[Any]) -> Iterator[JsonObject]:
    thought, handle = "", None
    for field in reversed(REASONING_FIELDS):
        thought = message[field] if isinstance(message.get(field), str) else thought
    if "thinking_blocks" in message:
        blocks = output_items(message["thinking_blocks"])
        handle = next((block["signature"] for block in reversed(blocks) if block.get("signature")), None)
        thought = thought or "".join(block["thinking"] for block in blocks if isinstance(block.get("thinking"), str))
    if thought or handle:
        yield canonical_reasoning(thought, handle)
    text = content if isinstance(content, str) else content_text(content)
    calls = output_items(message.get("tool_calls"))
    if text or not (calls or thought):
        yield canonical_message("assistant", text)
    for call in calls:
        spec = call.get("custom")
        if isinstance(spec, dict):
            custom_ids.add(call.get("id") if isinstance(call.get("id"), str) else "")
            yield canonical_custom_call(call.get("id"), spec.get("name"), spec.get("input"))
            continue
        function = call.get("function")
        spec = function if isinstance(function, dict) else {}
        yield canonical_call(call.get("id"), spec.get("name"), spec.get("arguments") or "")


def chat_messages(
    items: Iterable[JsonObject], *, reasoning_fields: Iterable[str] = REASONING_FIELDS
) -> list[JsonObject]:
    """A history, or a part of one, as chat messages. `items` are canonical."""
    messages: list[JsonObject] = []
    # The assistant's message that more items of its turn may join; whether it has a text, and its thoughts.
    answer: JsonObject | None = None
    has_text, thoughts = False, [""]
    for item in items:
        kind, role = item["type"], item.get("role")
        if kind in ("function_call_output", "custom_tool_call_output"):
            answer = None
            content = _chat_content(item["output"])
            messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": content})
            continue
        if kind == "message" and role != "assistant":
            answer = None
            messages.append({"role": role, "content": _chat_content(item["content"])})
            continue
        if (
            answer is not None
            and has_text
            and (kind == "message" or (kind == "reasoning" and "tool_calls" not in answer))
        ):
            answer = None
        thought = reasoning_text(item) if kind == "reasoning" else ""
        if kind == "reasoning" and not thought:
            continue
        if answer is None:
            answer, has_text, thoughts = {"role": "assistant", "content": ""}, False, []
            messages.append(answer)
        if kind == "message":
            # Behind its calls, too, which must stay next to their outputs.
            answer["content"], has_text = content_text(item["content"]), True
        elif kind == "reasoning":
            thoughts.append(thought)
            answer.update(dict.fromkeys(reasoning_fields, "\n".join(thoughts)))
        else:
            answer["content"] = answer["content"] if has_text else None
            arguments = item["arguments"] if kind == "function_call" else arguments_of(item["input"])
            function = {"name": item["name"], "arguments": arguments}
            answer.setdefault("tool_calls", []).append(
                {"id": item["call_id"], "type": "function", "function": function}
            )
    return messages


def _chat_content(content: str | list[JsonObject]) -> str | list[JsonObject]:
    return content if isinstance(content, str) else [_chat_part(part) for part in content]


def _chat_part(part: JsonObject) -> JsonObject:
    if part["type"] == "input_text":
        return {"type": "text", "text": part["text"]}
    return {"type": "image_url", "image_url": {"url": part["image_url"], "detail": part["detail"]}}
