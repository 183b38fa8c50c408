"""From a client's request to the body that the endpoint gets.

Law     `sampling_overrides` stand over the row's sampling parameters, these over `extra_body`, this over the client's
        own extras, these over the request.
        What was asked is hashed before anything is added or taken away.
NeMo-RL its chat server wants the temperature and the top_p that its trainer has, both of them, and is asked for whole
        answers; what else would change how it samples or splices is taken out of the request, and counted.
Errors  InfraError `sampling_unset` where nobody sets temperature or top_p for it.
"""

from collections.abc import Callable
from typing import NamedTuple

import orjson

from paddock.errors import InfraError
from paddock.models_servers.openai.config import REFUSED, OpenAIConfig
from paddock.server.dialects.conversation import ClientRequest, MergedSampling, merge_sampling
from paddock.server.dialects.to_chat import chat_request
from paddock.server.dialects.to_responses import responses_request
from paddock.types import JsonObject
from paddock.types.request_fields import BUDGETS

_RESERVED_KEYS = ("stream", "stream_options", "n")
"""Keys that extras may not set: they change the form of the answer."""
ON_POLICY = ("temperature", "top_p")
"""What NeMo-RL's chat server holds against its trainer's; of another pair it says no more than that it failed."""
_TOKENS_OF_VLLM: JsonObject = {"return_token_ids": True, "logprobs": True}
_TOKENS_OF_NEMO_RL: JsonObject = {"logprobs": True, "top_logprobs": 0, "return_tokens_as_token_ids": True}


class EndpointRequest(NamedTuple):
    """One call as the endpoint gets it."""

    body: bytes
    stream: bool
    sampling: MergedSampling


def endpoint_request(
    config: OpenAIConfig,
    client_request: ClientRequest,
    row: JsonObject,
    drop: Callable[[str], None],
    messages: list[JsonObject] | None = None,
) -> EndpointRequest:
    """What the endpoint gets for a request. `row`: the row's sampling parameters. `drop` is called with the name
    of each thing that is not passed on. `messages` take the place of the request's."""
    body = client_request.body
    in_chat = config.upstream_api == "chat"
    converted = chat_request(body, reasoning_fields=config.reasoning_fields) if in_chat else responses_request(body)
    for key in (*client_request.dropped, *converted.dropped):
        drop(key)
    request_body = {**converted.body, **client_request.extra_body, **config.extra_body}
    kwargs = {**request_body.get("chat_template_kwargs", {}), **config.chat_template_kwargs}
    if kwargs:
        request_body["chat_template_kwargs"] = kwargs
    in_nemo_rl = config.token_protocol == "nemo_rl"
    overrides = config.sampling_overrides
    if in_nemo_rl:
        overrides = {**overrides, **_refused_overrides(request_body, row, drop)}
    sampling = merge_sampling(request_body, row, overrides)
    if in_nemo_rl:
        _require_on_policy(sampling.params)
    for layer in (row, overrides):
        _override(request_body, layer, "max_tokens" if in_chat else "max_output_tokens")
    for key in _RESERVED_KEYS:
        request_body.pop(key, None)
    request_body["model"] = config.model
    request_body |= {} if messages is None else {"messages": messages}
    stream = body.get("stream") is True and not in_nemo_rl  # its streams have no ids
    if stream:
        request_body["stream"] = True
        if in_chat:
            request_body["stream_options"] = {"include_usage": True}
    if config.request_token_ids:
        request_body |= _TOKENS_OF_NEMO_RL if in_nemo_rl else _TOKENS_OF_VLLM
    return EndpointRequest(orjson.dumps(request_body), stream, sampling)


def _refused_overrides(request_body: JsonObject, row: JsonObject, drop: Callable[[str], None]) -> JsonObject:
    """Overrides that take away what NeMo-RL's chat server is never sent."""
    for key in REFUSED:
        if request_body.get(key) is not None or row.get(key) is not None:
            drop(key)
    return dict.fromkeys(REFUSED)


def _require_on_policy(params: JsonObject) -> None:
    unset = [name for name in ON_POLICY if name not in params]
    if unset:
        raise InfraError(
            f"{' and '.join(unset)}: NeMo-RL's chat server needs both temperature and top_p, as its trainer has them: "
            "set them in the rows, or in `sampling_overrides`",
            kind="sampling_unset",
            stage="model",
            retryable=False,
        )


def _override(body: JsonObject, overrides: JsonObject, budget: str) -> None:
    """A token budget has three names; the endpoint is told one."""
    for key, value in overrides.items():
        names = BUDGETS if key in BUDGETS else {key}
        for name in names:
            body.pop(name, None)
        if value is not None:
            body[budget if key in BUDGETS else key] = value
