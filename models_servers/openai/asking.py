"""From a client's request to the body that the endpoint gets.

Law     `sampling_overrides` stand over `extra_body`, this over the client's own extras, these over the request.
        What was asked is hashed before anything is added or taken away.
"""

from collections.abc import Callable
from typing import NamedTuple

import orjson

from paddock.models_servers.openai.config import OpenAIConfig
from paddock.server.dialects import Dialect
from paddock.server.dialects.reading import take
from paddock.server.dialects.to_chat import chat_request
from paddock.server.dialects.to_responses import responses_request
from paddock.server.dialects.tools import custom_names
from paddock.types import JsonObject

_OURS = ("stream", "stream_options", "n")
"""Keys that extras may not set: they change the form of the answer."""
_BUDGET = {"max_tokens", "max_completion_tokens", "max_output_tokens"}


class Asked(NamedTuple):
    """One call as it goes to the endpoint."""

    body: bytes
    stream: bool
    custom: frozenset[str]
    """Names of custom tools that are offered as functions."""


def ask(config: OpenAIConfig, dialect: Dialect, request: JsonObject, drop: Callable[[str], None]) -> Asked:
    """`drop` is told each thing of the request that is not passed on."""
    taken = take(dialect, request)
    body = taken.body
    in_chat = config.upstream_api == "chat"
    converted = chat_request(body, reasoning_fields=config.reasoning_fields) if in_chat else responses_request(body)
    for key in (*taken.dropped, *converted.dropped):
        drop(key)
    found = {**converted.body, **taken.extra_body, **config.extra_body}
    kwargs = {**found.get("chat_template_kwargs", {}), **config.chat_template_kwargs}
    if kwargs:
        found["chat_template_kwargs"] = kwargs
    _override(found, config.sampling_overrides, "max_tokens" if in_chat else "max_output_tokens")
    for key in _OURS:
        found.pop(key, None)
    found["model"] = config.model
    stream = body.get("stream") is True
    if stream:
        found["stream"] = True
        if in_chat:
            found["stream_options"] = {"include_usage": True}
    if config.request_token_ids:
        found |= {"return_token_ids": True, "logprobs": True}
    return Asked(orjson.dumps(found), stream, custom_names(body.get("tools")) if in_chat else frozenset())


def _override(body: JsonObject, overrides: JsonObject, budget: str) -> None:
    """A token budget has three names; the endpoint is told one."""
    for key, value in overrides.items():
        names = _BUDGET if key in _BUDGET else {key}
        for name in names:
            body.pop(name, None)
        if value is not None:
            body[budget if key in _BUDGET else key] = value
