"""A request in any dialect as a Chat Completions request for an engine.

Law     items of one turn (reasoning, message, calls) become one assistant message; a tool's output becomes a `tool`
        message; the order of turns is kept. A content of one text part becomes a plain string, because many chat
        templates take nothing else.
Shapes  `max_tokens` for the token budget, which every engine knows, unless the client named another.
Errors  RequestError for `previous_response_id`: the history that it names is not here.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from paddock.errors import RequestError
from paddock.server.dialects.canonical import canonical_history
from paddock.server.dialects.from_chat import REASONING_FIELDS
from paddock.server.dialects.items import reasoning_text
from paddock.server.dialects.params import SAMPLING
from paddock.server.dialects.tools import arguments_of, chat_tool_choice, chat_tools
from paddock.types import JsonObject
from paddock.types.responses import content_text, output_items

_SAME = [
    *SAMPLING,
    "user",
    "max_tokens",
    "max_completion_tokens",
    "reasoning_effort",
    "response_format",
    "verbosity",
    "logit_bias",
    "parallel_tool_calls",
]


class ChatForm(NamedTuple):
    """A request for an engine, and what of the client's could not be said to it."""

    body: JsonObject
    dropped: list[str]


def chat_request(body: JsonObject, *, reasoning_fields: Iterable[str] = REASONING_FIELDS) -> ChatForm:
    """`body` as `take` gave it."""
    if "previous_response_id" in body:
        raise RequestError("previous_response_id: send the whole history as `input`", kind="request_invalid")
    tools = chat_tools(body.get("tools"))
    dropped: list[str] = []
    found = chat_params(body)
    if "messages" in body:
        messages = _taken_over(body["messages"], tuple(reasoning_fields))
    else:
        messages = chat_messages(canonical_history(body, dropped, tools.namespaces), reasoning_fields=reasoning_fields)
    choice = chat_tool_choice(body.get("tool_choice"))
    if tools.tools:
        found["tools"] = tools.tools
        if choice is not None:
            found["tool_choice"] = choice
    else:
        found.pop("parallel_tool_calls", None)
    return ChatForm({"messages": messages, **found}, [*dropped, *tools.dropped])


def chat_params(body: JsonObject) -> JsonObject:
    """What a request says about sampling, under the names of Chat. `body` as `take` gave it."""
    found = {key: body[key] for key in _SAME if key in body}
    return found if "messages" in body else {**found, **_renamed(body)}


def chat_messages(
    items: Iterable[JsonObject], *, reasoning_fields: Iterable[str] = REASONING_FIELDS
) -> list[JsonObject]:
    """A history, or a part of one, as chat messages. `items`: of `told`."""
    messages = _Messages(tuple(reasoning_fields))
    for item in items:
        messages.read(item)
    return messages.finished()


def _renamed(body: JsonObject) -> JsonObject:
    """Keys that Chat calls otherwise."""
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


def _taken_over(given: Any, reasoning_fields: tuple[str, ...]) -> list[JsonObject]:
    """The history of a Chat request: as it is, but for reasoning, custom calls and nulls."""
    found: list[JsonObject] = []
    for message in output_items(given):
        said = {key: value for key, value in message.items() if value is not None or key == "content"}
        said.pop("thinking_blocks", None)
        thought = next((said[field] for field in REASONING_FIELDS if said.get(field)), None)
        for field in REASONING_FIELDS:
            said.pop(field, None)
        if thought is not None:
            said.update(dict.fromkeys(reasoning_fields, thought))
        if "tool_calls" in said:
            said["tool_calls"] = [_as_function_call(call) for call in output_items(said["tool_calls"])]
        found.append(said)
    return found


class _Messages:
    """Chat messages in the making. `_open` is the assistant message that more items of its turn may join."""

    def __init__(self, reasoning_fields: tuple[str, ...]) -> None:
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

    def read(self, item: JsonObject) -> None:
        self._readers[item["type"]](item)

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
        role, content = item["role"], item["content"]
        if role != "assistant":
            self._close()
            self._done.append({"role": role, "content": _content(content)})
            return
        text = content_text(content)
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
        arguments = item["arguments"] if item["type"] == "function_call" else arguments_of(item["input"])
        calls = self._open.setdefault("tool_calls", [])
        function = {"name": item["name"], "arguments": arguments}
        calls.append({"id": item["call_id"], "type": "function", "function": function})

    def _output(self, item: JsonObject) -> None:
        self._close()
        self._done.append({"role": "tool", "tool_call_id": item["call_id"], "content": _content(item["output"])})


def _content(content: str | list[JsonObject]) -> str | list[JsonObject]:
    return content if isinstance(content, str) else [_part(part) for part in content]


def _part(part: JsonObject) -> JsonObject:
    if part["type"] == "input_text":
        return {"type": "text", "text": part["text"]}
    return {"type": "image_url", "image_url": {"url": part["image_url"], "detail": part["detail"]}}


def _as_function_call(call: JsonObject) -> JsonObject:
    custom = call.get("custom")
    if not isinstance(custom, dict):
        return call
    function = {"name": custom.get("name", ""), "arguments": arguments_of(str(custom.get("input") or ""))}
    return {"id": call.get("id", ""), "type": "function", "function": function}
