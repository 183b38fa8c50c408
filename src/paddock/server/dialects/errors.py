"""Errors as the clients of each dialect understand them: status, body and headers of a reply.

Source  OpenAI and Anthropic, "Errors". Both clients retry 408, 409, 429 and 5xx unless `x-should-retry` is `false`.
Shapes  a body is the house's own error with what the dialect's clients read: `type`, `code` and `param` for OpenAI's;
        `type: error` around it and a `type` of Anthropic's for Messages. So peers of ours rebuild it from any of them.
Law     a prompt that is too long is 400: `context_length_exceeded`, or a message that begins with `prompt is too long`,
        with the numbers where they are known. What asking again can't mend says so.
"""

import re
from typing import Any, NamedTuple

from paddock.errors import InfraError, PaddockError, RequestError
from paddock.server.dialects.answers import Dialect
from paddock.types import JsonObject

CONTEXT_KIND = "context_length_exceeded"
OVERLOADED = 529
_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    OVERLOADED: "overloaded_error",
}
_PATHS: dict[str, Dialect] = {
    "/v1/responses": "responses",
    "/v1/chat/completions": "chat",
    "/v1/messages": "messages",
}
_RETRIED = (408, 409, 429)
_NUMBER = r"(\d[\d,]*)"
_PROMPT = re.compile(
    rf"(?:\(length |requested |resulted in |prompt of |prompt has |too long: ){_NUMBER}|{_NUMBER} tokens >",
    re.IGNORECASE,
)
_LIMIT = re.compile(
    rf"(?:maximum model length of |maximum context length is |maximum of |takes |> ){_NUMBER}", re.IGNORECASE
)

_PROMPT_ALONE = re.compile(rf"{_NUMBER} in the messages|(?:has|passed) {_NUMBER} input tokens", re.IGNORECASE)
_CONTEXT = re.compile(rf"context length is (?:only )?{_NUMBER}", re.IGNORECASE)


class ErrorReply(NamedTuple):
    """An error as it is sent."""

    status: int
    body: JsonObject
    headers: dict[str, str]


def dialect_of(path: str) -> Dialect | None:
    """What clients of a path speak; None: the house's own."""
    return next((dialect for end, dialect in _PATHS.items() if path.endswith(end)), None)


def error_reply(path: str, error: PaddockError, status: int | None = None) -> ErrorReply:
    """The reply to a call of `path`; `status` if it is not the error's own."""
    dialect = dialect_of(path)
    code = error.status if status is None else status
    body: dict[str, Any] = error.to_wire()
    if dialect is None:
        return ErrorReply(code, body, {})
    if dialect == "messages":
        if isinstance(error, InfraError) and error.retryable:
            code = OVERLOADED
        body = messages_error(error.message, error.kind, code, body["error"])
    else:
        openai_fields = {
            "type": "server_error" if code >= 500 else "invalid_request_error",
            "code": error.kind,
            "param": None,
        }
        body = {"error": {**openai_fields, **body["error"]}}
    final = not error.retryable and (code in _RETRIED or code >= 500)
    return ErrorReply(code, body, {"x-should-retry": "false"} if final else {})


def is_overlong(error: RequestError) -> bool:
    """Whether a prompt is longer than its model takes. One that would fit without the budget which was asked for its
    answer is not: that is for whoever asked for so much to mend."""
    if error.kind != CONTEXT_KIND:
        return False
    prompt, limit = _PROMPT_ALONE.search(error.message), _CONTEXT.search(error.message)
    if prompt is None or limit is None:
        return True
    tokens = next(number for number in prompt.groups() if number)
    return int(_plain(tokens)) >= int(_plain(limit.group(1)))


def messages_error(message: str, kind: str, status: int = 500, own: JsonObject | None = None) -> JsonObject:
    """The body, or a stream's `error` event; `own`: further keys."""
    if kind == CONTEXT_KIND:
        status, message = 400, _too_long(message)
    error_type = _TYPES.get(status) or ("api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {**(own or {}), "type": error_type, "message": message}}


def _too_long(message: str) -> str:
    prompt, limit = _PROMPT.search(message), _LIMIT.search(message)
    if prompt is None or limit is None:
        return f"prompt is too long: {message}"
    tokens = next(number for number in prompt.groups() if number)
    return f"prompt is too long: {_plain(tokens)} tokens > {_plain(limit.group(1))} maximum"


def _plain(number: str) -> str:
    return number.replace(",", "")
