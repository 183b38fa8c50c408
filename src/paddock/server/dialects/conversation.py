"""A client's request as a conversation: the whole history, the tools and what else a chat template gets.

Law     whatever the dialect, one history is told by the same items (`told`), instructions first as a system message;
        only ids differ, which not every dialect carries.
Errors  RequestError of `take`; `require_renderable` refuses what no chat template can be given.
"""

from collections.abc import Mapping
from typing import NamedTuple

from paddock.errors import RequestError
from paddock.server.dialects.answers import Dialect
from paddock.server.dialects.canonical import canonical_history, canonical_instructions, has_image
from paddock.server.dialects.client_request import take
from paddock.server.dialects.from_chat import items_of_chat
from paddock.server.dialects.to_chat import chat_params
from paddock.server.dialects.tools import chat_tools
from paddock.types import JsonObject

_TEMPLATE = "chat_template_kwargs"


class Conversation(NamedTuple):
    """What a request tells, in one form."""

    items: list[JsonObject]
    """The history, oldest first: items as `told` describes them."""
    tools: list[JsonObject]
    """As the chat template gets them: functions in Chat form, custom tools among them."""
    arguments: JsonObject
    """Of the chat template, as the client gives them."""
    custom: frozenset[str]
    """Names of the functions that stand for custom tools."""
    namespaces: Mapping[str, tuple[str, str]]
    """Namespace and own name of the tools within one, by the name that the model is shown."""
    dropped: list[str]
    """What of the request is not here, by name."""
    params: JsonObject
    """What the client says about sampling, under the names of Chat, and its further keys for the engine."""


def conversation(dialect: Dialect, request: JsonObject) -> Conversation:
    """`request` as the client sent it, which is not changed."""
    taken = take(dialect, request)
    body = taken.body
    offered = chat_tools(body.get("tools"))
    dropped = [*taken.dropped, *offered.dropped]
    if dialect == "messages":
        items = body["input"]
    elif dialect == "chat":
        items = [*canonical_instructions(body), *items_of_chat(body["messages"])]
    else:
        items = canonical_history(body, dropped, offered.namespaces)
    extra = dict(taken.extra_body)
    arguments = extra.pop(_TEMPLATE, {})
    params = {**chat_params(body), **extra}
    return Conversation(items, offered.tools, arguments, offered.custom, offered.namespaces, dropped, params)


def require_renderable(request: JsonObject, told: Conversation) -> None:
    """RequestError for a history that is not all text, or not all here."""
    if request.get("previous_response_id") is not None:
        raise RequestError("previous_response_id: send the whole history as `input`", kind="request_invalid")
    if has_image(told.items):
        raise RequestError("images: this model takes text alone", kind="image_refused")
