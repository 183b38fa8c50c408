"""From a client's request to the body that the judge's endpoint gets.

Shapes  a comparison is a request with `response_1` and `response_2` in `metadata`, and `principle` where one holds; any
        other request passes as chat.
Law     `extra_body` and `chat_template_kwargs` of the config stand over the client's. A judge is given no tools, and no
        reasoning of earlier turns.
Errors  RequestError for a comparison with one text only, and those of `prompt` and of the dialects.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import orjson

from paddock.errors import RequestError
from paddock.models_servers.genrm.config import GenrmModelConfig
from paddock.models_servers.genrm.prompt import Comparison, plain_messages, role_messages
from paddock.server.dialects import Dialect
from paddock.server.dialects.conversation import read_request
from paddock.server.dialects.to_chat import chat_request
from paddock.types import JsonObject

TEXTS = ("response_1", "response_2", "principle")
_RESERVED_KEYS = ("stream", "stream_options", "n", "messages", "model")
"""Keys that extras may not set."""


class JudgeRequest(NamedTuple):
    """A request as the judge's endpoint gets it, and its key."""

    body: bytes
    key: bytes
    """The hash of what is asked; equal requests have one key."""


def judge_request(
    config: GenrmModelConfig, dialect: Dialect, request: JsonObject, drop: Callable[[str], None]
) -> JudgeRequest:
    """Translate a client's request; `drop` is called with the name of each thing that is not passed on."""
    client_request = read_request(dialect, request)
    metadata = client_request.body.get("metadata")
    own_metadata: JsonObject = dict(metadata) if isinstance(metadata, dict) else {}
    comparison = _comparison(own_metadata)
    converted = chat_request(client_request.body, reasoning_fields=())
    for key in (*client_request.dropped, *converted.dropped):
        drop(key)
    request_body = converted.body
    if comparison is not None:
        for key in ("tools", "tool_choice", "parallel_tool_calls"):
            request_body.pop(key, None)
        request_body["messages"] = _comparison_messages(config, request_body["messages"], comparison)
    extra = {**client_request.extra_body, **config.extra_body}
    request_body |= {key: value for key, value in extra.items() if key not in _RESERVED_KEYS}
    kwargs = {**request_body.get("chat_template_kwargs", {}), **config.chat_template_kwargs}
    if kwargs:
        request_body["chat_template_kwargs"] = kwargs
    request_body["model"] = config.model
    others = {key: value for key, value in own_metadata.items() if key not in TEXTS}
    return JudgeRequest(orjson.dumps(request_body), _request_key(request_body, others))


def _comparison_messages(
    config: GenrmModelConfig, history: list[JsonObject], comparison: Comparison
) -> list[JsonObject]:
    if config.prompt_form == "plain":
        return plain_messages(history, comparison)
    return role_messages(history, comparison, principle_role=config.supports_principle_role)


def _comparison(metadata: Mapping[str, Any]) -> Comparison | None:
    """The comparison of a request's metadata; None: it has none."""
    if "response_1" not in metadata and "response_2" not in metadata:
        return None
    for key in TEXTS:
        value = metadata.get(key)
        if not isinstance(value, str) and (key != "principle" or value is not None):
            raise RequestError(f"metadata.{key}: a comparison needs it as a text", kind="comparison_invalid")
    return Comparison(metadata["response_1"], metadata["response_2"], metadata.get("principle") or None)


def _request_key(body: JsonObject, others: JsonObject) -> bytes:
    return hashlib.sha256(orjson.dumps([body, others], option=orjson.OPT_SORT_KEYS)).digest()
