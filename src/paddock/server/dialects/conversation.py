"""A client's request as a conversation: the history, the tools, what else a chat template gets, and the sampling.

Law     whatever the dialect, one history becomes the same items (`canonical.py`), instructions first as a system
        message; only ids differ, which not every dialect carries.
Lenient real programs send more than the standard: a key that is not known here is dropped, and named to the caller of
        these functions for counting; an explicit null is as if the key were not there. Log-probs and token ids are
        not for clients: they are in the turns. NeMo-Gym's JSON strings in `metadata` are read as what they say. Tools
        that a Responses client adds within its input are tools like the others.
Sampling parameters of the server's config go over the row's, these over the client's; a null there takes the client's
        away. What was set over the client's is named. Names are those of the Chat API, and vLLM's beside them; a token
        budget has three names, and is `max_tokens` here, which every engine knows, unless the client named another.
Errors  RequestError for what would change the meaning if it were left out: `n` above 1, and a body that is no request;
        `require_renderable` refuses what no chat template can be given.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args

import orjson

from paddock.errors import RequestError
from paddock.server.dialects.answers import Dialect
from paddock.server.dialects.canonical import canonical_history, items_of_chat
from paddock.server.dialects.from_messages import responses_form
from paddock.server.dialects.tools import NO_TOOLS, chat_tools
from paddock.types import JsonObject
from paddock.types.request_fields import BUDGETS, FIELDS, SAMPLING
from paddock.types.responses import output_items

KNOWN = {
    dialect: frozenset(name for name, field in FIELDS.items() if dialect[0] in field.read)
    for dialect in get_args(Dialect)
}
ADDED_TOOLS = "additional_tools"
_NESTED = ("chat_template_kwargs", "extra_body")


class ClientRequest(NamedTuple):
    """A client's request, parsed."""

    body: JsonObject
    """Known keys without nulls; shares its values with the request. Of a Messages request, its Responses form."""
    extra_body: JsonObject
    """What the client wants to be sent to the engine besides."""
    dropped: list[str]
    """Keys that were not known, and what a Messages request says that no other dialect can."""


def read_request(dialect: Dialect, request: JsonObject) -> ClientRequest:
    """Read a client's request; keys that are not known are left out."""
    accepted = KNOWN[dialect]
    body: JsonObject = {}
    dropped: list[str] = []
    for key, value in request.items():
        if key not in accepted and value is not None:
            dropped.append(key)
        elif value is not None:
            body[key] = value
    needed = "input" if dialect == "responses" else "messages"
    if not isinstance(body.get(needed), list | str if dialect == "responses" else list):
        raise RequestError(f"body: needs `{needed}`", kind="request_invalid")
    if body.pop("n", 1) != 1:
        raise RequestError("n: one answer per call; ask again for another", kind="request_invalid")
    nested = _nested(body)
    if dialect == "responses":
        return ClientRequest(_with_added_tools(body), nested, dropped)
    if dialect == "chat":
        return ClientRequest(body, nested, dropped)
    converted = responses_form(body)
    kwargs = {**converted.chat_template_kwargs, **nested.get("chat_template_kwargs", {})}
    if kwargs:
        nested["chat_template_kwargs"] = kwargs
    return ClientRequest(converted.body, nested, [*dropped, *converted.dropped])


def _with_added_tools(body: JsonObject) -> JsonObject:
    """The body with the tools of `additional_tools` items, in which Codex's code mode sends them."""
    items = output_items(body["input"])
    if ADDED_TOOLS not in [item.get("type") for item in items]:
        return body
    added = [item for item in items if item.get("type") == ADDED_TOOLS]
    tools = [*output_items(body.get("tools")), *(tool for item in added for tool in output_items(item.get("tools")))]
    items = [item for item in items if item.get("type") != ADDED_TOOLS]
    return {**body, "input": items, "tools": tools}


def _nested(body: JsonObject) -> JsonObject:
    """Take the client's `extra_body` and `chat_template_kwargs` out of the body, wherever they are."""
    metadata = body.get("metadata")
    nested: JsonObject = {}
    for key in _NESTED:
        value = body.pop(key, None)
        if value is None and isinstance(metadata, dict) and key in metadata:
            value = _object(metadata[key], f"metadata.{key}")
            metadata = body["metadata"] = {name: metadata[name] for name in metadata if name != key}
        if value is None:
            continue
        nested.update(_object(value, key) if key == "extra_body" else {key: _object(value, key)})
    if metadata == {}:
        del body["metadata"]
    return nested


def _object(value: Any, where: str) -> JsonObject:
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            value = None
    if not isinstance(value, dict):
        raise RequestError(f"{where}: needs a JSON object", kind="request_invalid")
    return value


_TEMPLATE = "chat_template_kwargs"


class Conversation(NamedTuple):
    """What a request holds, in one form whatever its dialect."""

    request: ClientRequest
    items: list[JsonObject]
    """The history, oldest first: items as `canonical` describes them."""
    tools: Sequence[JsonObject]
    """Tools as the chat template gets them: functions in Chat form, custom tools among them."""
    arguments: JsonObject
    """Arguments of the chat template, as the client gives them."""
    custom: frozenset[str]
    """Names of the functions that stand for custom tools."""
    namespaces: Mapping[str, tuple[str, str]]
    """Namespace and own name of the tools within one, by the name that the model is shown."""
    dropped: list[str]
    """Names of what was left out of the request."""
    params: JsonObject
    """What the client says about sampling, under the names of Chat, and its further keys for the engine."""


def conversation(dialect: Dialect, request: JsonObject) -> Conversation:
    """`request` as the client sent it, which is not changed."""
    client_request = read_request(dialect, request)
    body = client_request.body
    offered = chat_tools(body["tools"]) if body.get("tools") else NO_TOOLS
    dropped = [*client_request.dropped, *offered.dropped]
    if dialect == "messages":
        items = body["input"]
    elif dialect == "chat":
        items = list(items_of_chat(body["messages"]))
    else:
        items = canonical_history(body, dropped, offered.namespaces)
    extra = dict(client_request.extra_body)
    arguments = extra.pop(_TEMPLATE, {})
    params = {**chat_params(body), **extra}
    return Conversation(
        client_request, items, offered.tools, arguments, offered.custom, offered.namespaces, dropped, params
    )


def require_renderable(request: JsonObject, parsed: Conversation) -> None:
    """RequestError for a history that is not all text, or not all here."""
    if request.get("previous_response_id") is not None:
        raise RequestError("previous_response_id: send the whole history as `input`", kind="request_invalid")
    for item in parsed.items:
        content = item.get("content", item.get("output"))
        if isinstance(content, list) and any(part.get("type") == "input_image" for part in content):
            raise RequestError("images: this model takes text alone", kind="image_refused")


_SAME = frozenset(name for name, field in FIELDS.items() if "c" in field.sent)
PARAMETERS = frozenset([*SAMPLING, *BUDGETS])
"""All that an engine of ids is given."""


def chat_params(body: JsonObject) -> JsonObject:
    """What a request says about sampling, under the names of Chat. `body` as `read_request` gave it."""
    params = dict(body)
    for key in body.keys() - _SAME:
        del params[key]
    return params if "messages" in body else {**params, **_renamed(body)}


def _renamed(body: JsonObject) -> JsonObject:
    """Keys that Chat calls otherwise."""
    params: JsonObject = {}
    if "max_output_tokens" in body:
        params["max_tokens"] = body["max_output_tokens"]
    effort = body["reasoning"].get("effort") if isinstance(body.get("reasoning"), dict) else None
    if effort is not None:
        params["reasoning_effort"] = effort
    form = body["text"].get("format") if isinstance(body.get("text"), dict) else None
    if isinstance(form, dict) and form.get("type") not in (None, "text"):
        kind = form["type"]
        schema = {key: value for key, value in form.items() if key != "type" and value is not None}
        params["response_format"] = {"type": kind, kind: schema} if kind == "json_schema" else {"type": kind}
    return params


class MergedSampling(NamedTuple):
    """Parameters, and where they come from."""

    params: JsonObject
    overridden: list[str]
    """Those that the config or the row set, or took away, and that are not as the client asked."""


def merge_sampling(client: Mapping[str, Any], row: Mapping[str, Any], config: Mapping[str, Any]) -> MergedSampling:
    """`client`: a request's body, of which only sampling parameters are read."""
    client_params = sampling_of(client)
    if not (row or config):
        return MergedSampling(client_params, [])
    params = dict(client_params)
    for layer in (row, config):
        for name, value in layer.items():
            params["max_tokens" if name in BUDGETS else name] = value
    params = {name: value for name, value in params.items() if value is not None}
    names = {*client_params, *params}
    return MergedSampling(params, sorted(name for name in names if client_params.get(name) != params.get(name)))


def sampling_of(params: Mapping[str, Any]) -> JsonObject:
    """The sampling parameters of a request's body."""
    sampling: JsonObject = {}
    for name, value in params.items():
        if value is not None and name in SAMPLING:
            sampling[name] = value
    for name in BUDGETS:
        if params.get(name) is not None:
            sampling["max_tokens"] = params[name]
            break
    return sampling
