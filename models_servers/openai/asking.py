"""From a client's request to the body that the endpoint gets.

Law     `sampling_overrides` stand over the row's sampling parameters, these over `extra_body`, this over the client's
        own extras, these over the request.
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
from paddock.server.sampling import BUDGET, Merged, merged
from paddock.types import JsonObject

_OURS = ("stream", "stream_options", "n")
"""Keys that extras may not set: they change the form of the answer."""


class Asked(NamedTuple):
    """One call as it goes to the endpoint."""

    body: bytes
    stream: bool
    sampling: Merged


def ask(
    config: OpenAIConfig, dialect: Dialect, request: JsonObject, row: JsonObject, drop: Callable[[str], None]
) -> Asked:
    """`row`: its sampling parameters. `drop` is told each thing of the request that is not passed on."""
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
    sampling = merged(found, row, config.sampling_overrides)
    for overrides in (row, config.sampling_overrides):
        _override(found, overrides, "max_tokens" if in_chat else "max_output_tokens")
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
    return Asked(orjson.dumps(found), stream, sampling)


def _override(body: JsonObject, overrides: JsonObject, budget: str) -> None:
    """A token budget has three names; the endpoint is told one."""
    for key, value in overrides.items():
        names = BUDGET if key in BUDGET else {key}
        for name in names:
            body.pop(name, None)
        if value is not None:
            body[budget if key in BUDGET else key] = value
