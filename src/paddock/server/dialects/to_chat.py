"""A request in any dialect as a Chat Completions request for an engine.

Law     items of one turn (reasoning, message, calls) become one assistant message; a tool's output becomes a `tool`
        message; the order of turns is kept. A content of one text part becomes a plain string, because many chat
        templates take nothing else.
Shapes  `max_tokens` for the token budget, which every engine knows, unless the client named another.
Errors  RequestError for `previous_response_id`: the history that it names is not here.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from paddock.errors import RequestError
from paddock.server.dialects.canonical import REASONING_FIELDS, canonical_history, chat_messages
from paddock.server.dialects.conversation import chat_params
from paddock.server.dialects.tools import arguments_of, chat_tool_choice, chat_tools
from paddock.types import JsonObject
from paddock.types.responses import output_items


class ChatForm(NamedTuple):
    """A request for an engine, and the names of what of the client's it can't hold."""

    body: JsonObject
    dropped: list[str]


def chat_request(body: JsonObject, *, reasoning_fields: Iterable[str] = REASONING_FIELDS) -> ChatForm:
    """`body` as `read_request` gave it."""
    if "previous_response_id" in body:
        raise RequestError("previous_response_id: send the whole history as `input`", kind="request_invalid")
    tools = chat_tools(body.get("tools"))
    dropped: list[str] = []
    params = chat_params(body)
    if "messages" in body:
        messages = _clean_messages(body["messages"], tuple(reasoning_fields))
    else:
        messages = chat_messages(canonical_history(body, dropped, tools.namespaces), reasoning_fields=reasoning_fields)
    choice = chat_tool_choice(body.get("tool_choice"))
    if tools.tools:
        params["tools"] = tools.tools
        if choice is not None:
            params["tool_choice"] = choice
    else:
        params.pop("parallel_tool_calls", None)
    return ChatForm({"messages": messages, **params}, [*dropped, *tools.dropped])


def _clean_messages(given: Any, reasoning_fields: tuple[str, ...]) -> list[JsonObject]:
    """The history of a Chat request: as it is, but for reasoning, custom calls and nulls."""
    messages: list[JsonObject] = []
    for message in output_items(given):
        clean = {key: value for key, value in message.items() if value is not None or key == "content"}
        clean.pop("thinking_blocks", None)
        thought = next((clean[field] for field in REASONING_FIELDS if clean.get(field)), None)
        for field in REASONING_FIELDS:
            clean.pop(field, None)
        if thought is not None:
            clean.update(dict.fromkeys(reasoning_fields, thought))
        if "tool_calls" in clean:
            clean["tool_calls"] = [_as_function_call(call) for call in output_items(clean["tool_calls"])]
        messages.append(clean)
    return messages


def _as_function_call(call: JsonObject) -> JsonObject:
    custom = call.get("custom")
    if not isinstance(custom, dict):
        return call
    function = {"name": custom.get("name", ""), "arguments": arguments_of(str(custom.get("input") or ""))}
    return {"id": call.get("id", ""), "type": "function", "function": function}
