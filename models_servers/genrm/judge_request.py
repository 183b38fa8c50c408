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
_OURS = ("stream", "stream_options", "n", "messages", "model")
"""Keys that extras may not set."""


class JudgeRequest(NamedTuple):
    """One request as it goes to the endpoint."""

    body: bytes
    key: bytes
    """Equal for equal requests."""


def judge_request(
    config: GenrmModelConfig, dialect: Dialect, request: JsonObject, drop: Callable[[str], None]
) -> JudgeRequest:
    """`drop` is told each thing of the request that is not passed on."""
    taken = read_request(dialect, request)
    metadata = taken.body.get("metadata")
    said: JsonObject = dict(metadata) if isinstance(metadata, dict) else {}
    comparison = _comparison(said)
    converted = chat_request(taken.body, reasoning_fields=())
    for key in (*taken.dropped, *converted.dropped):
        drop(key)
    found = converted.body
    if comparison is not None:
        for key in ("tools", "tool_choice", "parallel_tool_calls"):
            found.pop(key, None)
        found["messages"] = _put(config, found["messages"], comparison)
    extra = {**taken.extra_body, **config.extra_body}
    found |= {key: value for key, value in extra.items() if key not in _OURS}
    kwargs = {**found.get("chat_template_kwargs", {}), **config.chat_template_kwargs}
    if kwargs:
        found["chat_template_kwargs"] = kwargs
    found["model"] = config.model
    others = {key: value for key, value in said.items() if key not in TEXTS}
    return JudgeRequest(orjson.dumps(found), _key(found, others))


def _put(config: GenrmModelConfig, history: list[JsonObject], comparison: Comparison) -> list[JsonObject]:
    if config.prompt_form == "plain":
        return plain_messages(history, comparison)
    return role_messages(history, comparison, principle_role=config.supports_principle_role)


def _comparison(metadata: Mapping[str, Any]) -> Comparison | None:
    """None: the request is none."""
    if "response_1" not in metadata and "response_2" not in metadata:
        return None
    for key in TEXTS:
        value = metadata.get(key)
        if not isinstance(value, str) and (key != "principle" or value is not None):
            raise RequestError(f"metadata.{key}: a comparison needs it as a text", kind="comparison_invalid")
    return Comparison(metadata["response_1"], metadata["response_2"], metadata.get("principle") or None)


def _key(body: JsonObject, others: JsonObject) -> bytes:
    return hashlib.sha256(orjson.dumps([body, others], option=orjson.OPT_SORT_KEYS)).digest()
