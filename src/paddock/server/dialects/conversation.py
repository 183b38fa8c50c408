"""A client's request as a conversation: the whole history, the tools and what else a chat template gets.

Law     whatever the dialect, one history is told by the same items (`told`), instructions first as a system message;
        only ids differ, which not every dialect carries. One pass at most: asked for with every call of a rollout.
Errors  RequestError of `take`; `require_renderable` refuses what no chat template can be given.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from paddock.errors import RequestError
from paddock.server.dialects.answers import Dialect
from paddock.server.dialects.from_chat import items_of_chat
from paddock.server.dialects.reading import ADDED_TOOLS, Taken, added_tools, take, take_more
from paddock.server.dialects.to_chat import chat_params
from paddock.server.dialects.told import has_image, shown_names, told_history, told_instructions, told_items
from paddock.server.dialects.tools import chat_tools
from paddock.types import JsonObject
from paddock.types.responses import output_items

_TEMPLATE = "chat_template_kwargs"


class History(NamedTuple):
    """What a request's own list of items or messages tells."""

    length: int
    """Of that list."""
    items: list[JsonObject]
    added: list[JsonObject]
    """Tools that the list tells."""
    dropped: list[str]
    shown: Mapping[tuple[str, str], str]
    """The names under which calls are told, by namespace and name."""
    image: bool
    """One of the items holds an image."""


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
    """What of the request is not here, by name; last what of its history is not."""
    params: JsonObject
    """What the client says about sampling, under the names of Chat, and its further keys for the engine."""
    history: History | None = None
    """That of `items` which can be `earlier` of a request that goes on; None: nothing can."""


def history_key(dialect: Dialect) -> str:
    """Of a request's list of items or messages."""
    return "input" if dialect == "responses" else "messages"


def conversation(dialect: Dialect, request: JsonObject, *, earlier: History | None = None) -> Conversation:
    """`request` as the client sent it, which is not changed. `earlier`: of one in the same dialect whose list of items
    or messages this one's begins with: it is not read again."""
    key = history_key(dialect)
    taken = take(dialect, request if earlier is None else {**request, key: _rest(request[key], earlier)})
    body = taken.body
    offered = chat_tools(body.get("tools"))
    shown = shown_names(offered.namespaces)
    if earlier is not None and earlier.shown != shown:
        return conversation(dialect, request)
    dropped = [*taken.dropped[: len(taken.dropped) - taken.dropped_of_messages], *offered.dropped]
    history: History | None = None
    if isinstance(body.get("input"), str):
        items = told_history(body, dropped, offered.namespaces)
    else:
        history = _history(dialect, request[key], taken, shown, earlier)
        dropped += history.dropped
        system = body["input"][: taken.system_items] if dialect == "messages" else told_instructions(body)
        items = [*system, *history.items]
    extra = dict(taken.extra_body)
    arguments = extra.pop(_TEMPLATE, {})
    params = {**chat_params(body), **extra}
    return Conversation(items, offered.tools, arguments, offered.custom, offered.namespaces, dropped, params, history)


def continued(dialect: Dialect, told: Conversation, given: list[Any]) -> Conversation | None:
    """`told`, gone on: that of a request which says the same besides its list of items or messages, and whose list,
    `given`, begins with the one that was told. None: the whole request has to be read."""
    earlier = told.history
    if earlier is None:
        return None
    history = _history(dialect, given, take_more(dialect, given[earlier.length :]), earlier.shown, earlier)
    if len(history.added) > len(earlier.added):
        return None
    system = told.items[: len(told.items) - len(earlier.items)]
    dropped = [*told.dropped, *history.dropped[len(earlier.dropped) :]]
    return told._replace(items=[*system, *history.items], dropped=dropped, history=history)


def _rest(given: list[Any], earlier: History) -> list[Any]:
    """What is new, behind the tools that were told before."""
    told = [{"type": ADDED_TOOLS, "tools": earlier.added}] if earlier.added else []
    return [*told, *given[earlier.length :]]


def _history(
    dialect: Dialect, given: list[Any], taken: Taken, shown: Mapping[tuple[str, str], str], earlier: History | None
) -> History:
    """`given`: the whole list; `taken`: of it what is not in `earlier`."""
    earlier = earlier or History(0, [], [], [], shown, image=False)
    dropped = [*earlier.dropped]
    added = earlier.added
    if dialect == "chat":
        custom = {item["call_id"] for item in earlier.items if item["type"] == "custom_tool_call"}
        items = list(items_of_chat(taken.body["messages"], custom))
    elif dialect == "messages":
        items = taken.body["input"][taken.system_items :]
        dropped += taken.dropped[len(taken.dropped) - taken.dropped_of_messages :]
    else:
        items = told_items(taken.body["input"], dropped, shown)
        added = [*added, *added_tools(output_items(given[earlier.length :]))]
    image = earlier.image or has_image(items)
    return History(len(given), [*earlier.items, *items], added, dropped, shown, image)


def require_renderable(request: JsonObject, told: Conversation) -> None:
    """RequestError for a history that is not all text, or not all here."""
    if request.get("previous_response_id") is not None:
        raise RequestError("previous_response_id: send the whole history as `input`", kind="request_invalid")
    before = len(told.items) - len(told.history.items) if told.history else None
    if has_image(told.items[:before]) or (told.history is not None and told.history.image):
        raise RequestError("images: this model takes text alone", kind="image_refused")
