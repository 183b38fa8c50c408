"""Which sampling parameters an engine is given: the server's config over the row's over the client's.

Names   those of the Chat API, and vLLM's beside them; a token budget has three names, and is `max_tokens` here, which
        every engine knows, unless the client named another.
Law     a null of the config or the row takes the client's parameter away. What was set over the client's is named.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from paddock.types import JsonObject
from paddock.types.request_fields import BUDGETS, FIELDS, SAMPLING

_SAME = [name for name, field in FIELDS.items() if "c" in field.sent]
PARAMETERS = frozenset([*SAMPLING, *BUDGETS])
"""All that an engine of ids is given."""


def chat_params(body: JsonObject) -> JsonObject:
    """What a request says about sampling, under the names of Chat. `body` as `read_request` gave it."""
    params = {key: body[key] for key in _SAME if key in body}
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
