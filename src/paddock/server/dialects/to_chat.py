"""A request in either dialect as a Chat Completions request for an engine.

Law     items of one turn (reasoning, message, calls) become one assistant message; a tool's output becomes a `tool`
        message; the order of turns is kept. A content of one text part becomes a plain string, because many chat
        templates take nothing else.
Shapes  `max_tokens` for the token budget, which every engine knows, unless the client named another.
Errors  RequestError for `previous_response_id`: the history that it names is not here.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import orjson

from paddock.errors import RequestError
from paddock.server.dialects.items import reasoning_text
from paddock.server.dialects.tools import arguments_of, chat_tool_choice, chat_tools
from paddock.types import JsonObject
from paddock.types.responses import content_text, item_type, output_items

_SAME = [
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "stop",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "user",
    "max_tokens",
    "max_completion_tokens",
    "reasoning_effort",
    "response_format",
    "verbosity",
    "logit_bias",
    "parallel_tool_calls",
]
REASONING_FIELDS = ("reasoning", "reasoning_content")
"""Under these an assistant message may hold its reasoning; engines differ in which they read."""


class Converted(NamedTuple):
    """A request for an engine, and what of the client's could not be said to it."""

    body: JsonObject
    dropped: list[str]


def chat_request(body: JsonObject, *, reasoning_fields: Iterable[str] = REASONING_FIELDS) -> Converted:
    """`body` as `take` gave it."""
    messages = _Messages(tuple(reasoning_fields))
    found = {key: body[key] for key in _SAME if key in body}
    if "messages" in body:
        messages.take_over(body["messages"])
    else:
        found.update(_renamed(body))
        messages.read(body)
    dropped = messages.dropped
    tools = chat_tools(body.get("tools"))
    dropped += tools.dropped
    choice = chat_tool_choice(body.get("tool_choice"))
    if tools.tools:
        found["tools"] = tools.tools
        if choice is not None:
            found["tool_choice"] = choice
    else:
        found.pop("parallel_tool_calls", None)
    return Converted({"messages": messages.finished(), **found}, dropped)


def _renamed(body: JsonObject) -> JsonObject:
    """Keys that Chat calls otherwise."""
    if "previous_response_id" in body:
        raise RequestError("previous_response_id: send the whole history as `input`", kind="request_invalid")
    found: JsonObject = {}
    if "max_output_tokens" in body:
        found["max_tokens"] = body["max_output_tokens"]
    effort = body["reasoning"].get("effort") if isinstance(body.get("reasoning"), dict) else None
    if effort is not None:
        found["reasoning_effort"] = effort
    form = body["text"].get("format") if isinstance(body.get("text"), dict) else None
    if isinstance(form, dict) and form.get("type") not in (None, "text"):
        kind = form["type"]
        schema = {key: value for key, value in form.items() if key != "type" and value is not None}
        found["response_format"] = {"type": kind, kind: schema} if kind == "json_schema" else {"type": kind}
    return found


class _Messages:
    """Chat messages in the making. `_open` is the assistant message that more items of its turn may join."""

    def __init__(self, reasoning_fields: tuple[str, ...]) -> None:
        self.dropped: list[str] = []
        self._done: list[JsonObject] = []
        self._open: JsonObject | None = None
        self._thoughts: list[str] = []
        self._reasoning_fields = reasoning_fields
        self._readers: dict[str, Callable[[JsonObject], None]] = {
            "message": self._message,
            "reasoning": self._reasoning,
            "function_call": self._call,
            "custom_tool_call": self._call,
            "function_call_output": self._output,
            "custom_tool_call_output": self._output,
        }

    def read(self, body: JsonObject) -> None:
        """The history of a Responses request."""
        if body.get("instructions"):
            self._done.append({"role": "system", "content": chat_content(body["instructions"])})
        given = body["input"]
        if isinstance(given, str):
            self._done.append({"role": "user", "content": given})
            return
        for item in output_items(given):
            reader = self._readers.get(item_type(item))
            if reader is None:
                self.dropped.append(f"input.{item_type(item)}")
            else:
                reader(item)

    def take_over(self, given: Any) -> None:
        """The history of a Chat request: as it is, but for reasoning, custom calls and nulls."""
        for message in output_items(given):
            said = {key: value for key, value in message.items() if value is not None or key == "content"}
            thought = next((said[field] for field in REASONING_FIELDS if said.get(field)), None)
            for field in REASONING_FIELDS:
                said.pop(field, None)
            if thought is not None:
                said.update(dict.fromkeys(self._reasoning_fields, thought))
            if "tool_calls" in said:
                said["tool_calls"] = [_as_function_call(call) for call in output_items(said["tool_calls"])]
            self._done.append(said)

    def finished(self) -> list[JsonObject]:
        self._close()
        return self._done

    def _close(self) -> None:
        """Ends the open assistant message."""
        if self._open is None and self._thoughts:
            self._open = {"role": "assistant", "content": ""}
        if self._open is None:
            return
        if self._thoughts:
            self._open.update(dict.fromkeys(self._reasoning_fields, "\n".join(self._thoughts)))
        self._done.append(self._open)
        self._open, self._thoughts = None, []

    def _message(self, item: JsonObject) -> None:
        role = item.get("role", "assistant")
        if role != "assistant":
            self._close()
            self._done.append({"role": role, "content": chat_content(item.get("content"))})
            return
        text = content_text(item.get("content"))
        if self._open is not None and self._open["content"] is None:
            self._open["content"] = text  # it speaks after its calls, which must stay next to their outputs
            return
        if self._open is not None:
            self._close()
        self._open = {"role": "assistant", "content": text}

    def _reasoning(self, item: JsonObject) -> None:
        if self._open is not None and "tool_calls" not in self._open:
            self._close()
        text = reasoning_text(item)
        if text:
            self._thoughts.append(text)

    def _call(self, item: JsonObject) -> None:
        if self._open is None:
            self._open = {"role": "assistant", "content": None}
        if item_type(item) == "function_call":
            arguments = item.get("arguments", "")
        else:
            arguments = arguments_of(str(item.get("input") or ""))
        if not isinstance(arguments, str):
            arguments = orjson.dumps(arguments).decode()
        function = {"name": item.get("name", ""), "arguments": arguments}
        calls = self._open.setdefault("tool_calls", [])
        calls.append({"id": item.get("call_id") or item.get("id", ""), "type": "function", "function": function})

    def _output(self, item: JsonObject) -> None:
        self._close()
        output = item.get("output")
        content = chat_content(output) if isinstance(output, str | list) else orjson.dumps(output).decode()
        self._done.append({"role": "tool", "tool_call_id": item.get("call_id", ""), "content": content})


def chat_content(content: Any) -> str | list[JsonObject]:
    """Responses content as Chat content."""
    if not isinstance(content, list):
        return content_text(content)
    parts = [part for part in map(_part, output_items(content)) if part]
    if len(parts) == 1 and parts[0]["type"] == "text":
        return str(parts[0]["text"])
    return parts or content_text(content)


def _part(part: JsonObject) -> JsonObject | None:
    if isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if isinstance(part.get("refusal"), str):
        return {"type": "text", "text": part["refusal"]}
    if part.get("type") == "input_image" and isinstance(part.get("image_url"), str):
        image = {"url": part["image_url"]}
        return {"type": "image_url", "image_url": image | ({"detail": part["detail"]} if part.get("detail") else {})}
    return None


def _as_function_call(call: JsonObject) -> JsonObject:
    custom = call.get("custom")
    if not isinstance(custom, dict):
        return call
    function = {"name": custom.get("name", ""), "arguments": arguments_of(str(custom.get("input") or ""))}
    return {"id": call.get("id", ""), "type": "function", "function": function}
