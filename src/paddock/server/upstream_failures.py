"""Whose fault a failed exchange with the endpoint is.

Infra   `upstream_status` (408, 425, 429, 5xx), `upstream_timeout`, `upstream_connection`, `upstream_failed`,
        `upstream_wrong_model`, and those of an answer that is none (`AnswerFault`): tried again. `upstream_auth`
        (401, 403), `upstream_not_found` (404), `token_ids_missing`: not. `docs/endpoints.md` is the table of them.
Request `context_length_exceeded`: the prompt is longer than the model takes, said so that OpenAI clients understand
        it. `upstream_refused`: any other refusal. Neither is tried again.
Law     a message names the endpoint's host, never its key.
"""

from typing import Any

import aiohttp
import httpx
import orjson

from paddock.errors import InfraError, PaddockError, RequestError
from paddock.http.transport import failure_text
from paddock.server.dialects.failures import AnswerFault, EngineFailedError, UnreadableError

_RETRIED = (408, 425, 429)
_TOO_LONG = (
    "context_length_exceeded",
    "maximum context length",
    "maximum model length",
    "longer than the model's context length",
    "available context size",
    "no room for output tokens",
    "max_tokens must be at least 1, got 0",
)
MAX_TEXT = 300
"""Characters of the endpoint's own words in a message."""


class UpstreamError(InfraError):
    """The endpoint did not answer; asking again may help."""

    def __init__(self, message: str, *, kind: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message, kind=kind, stage="model")
        self.retry_after_s = retry_after_s
        """How long the endpoint wants to be left alone; 0: it did not say."""


class RefusedError(RequestError):
    """The endpoint refuses the request; the body of the error is one that OpenAI clients read."""

    def to_wire(self) -> dict[str, Any]:
        error = super().to_wire()["error"]
        return {"error": {**error, "type": "invalid_request_error", "code": self.kind, "param": None}}


def host_of(url: httpx.URL) -> str:
    """Host and port of a URL, without user and password."""
    return f"{url.host}:{url.port}" if url.port else url.host


def status_error(host: str, status: int, content: bytes, retry_after: str | None) -> PaddockError:
    """The error of an answer with status 300 or more."""
    text, code = error_text(content)
    if status in (401, 403):
        # Its words are left out: some endpoints repeat the key.
        return InfraError(
            f"{host} answered {status}: check `api_key`", kind="upstream_auth", stage="model", retryable=False
        )
    if status in _RETRIED or status >= 500:
        return UpstreamError(
            f"{host} answered {status}: {text}", kind="upstream_status", retry_after_s=_seconds(retry_after)
        )
    return _refused(f"{host} answered {status}: {text}", f"{code} {text}")


def not_found(url: httpx.URL, model: object, content: bytes) -> InfraError:
    """The error of a 404: the endpoint has no such path, or no such model."""
    path = f"{url.scheme}://{host_of(url)}{url.path}"
    return InfraError(
        f"{path} answered 404 for model `{model}`: {error_text(content)[0]}; check `base_url` and `model`",
        kind="upstream_not_found",
        stage="model",
        retryable=False,
    )


def _failed(host: str, error: dict[str, Any]) -> PaddockError:
    message, code = str(error.get("message") or "")[:MAX_TEXT], str(error.get("code") or "")
    if _is_too_long(f"{code} {message}"):
        return _refused(f"{host} answered: {message}", f"{code} {message}")
    return UpstreamError(f"{host} failed: {code} {message}", kind="upstream_failed")


def unreadable(host: str, why: object, kind: AnswerFault = "upstream_unreadable") -> UpstreamError:
    return UpstreamError(f"{host}: no usable answer: {str(why)[:MAX_TEXT]}", kind=kind)


class upstream_errors:  # noqa: N801 - read as a statement: `with upstream_errors(...):`
    """Gives what goes wrong inside an exchange of `limit_s` seconds its owner."""

    __slots__ = ("_host", "_limit_s")

    def __init__(self, host: str, limit_s: float) -> None:
        self._host = host
        self._limit_s = limit_s

    def __enter__(self) -> None:
        return None

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        if error is None:
            return
        if isinstance(error, TimeoutError):
            limit = f"no whole answer within {self._limit_s:.3g} s"
            raise UpstreamError(f"{self._host}: {limit}", kind="upstream_timeout") from error
        if isinstance(error, aiohttp.ClientError):
            why = f"{type(error).__name__}: {failure_text(error)[:MAX_TEXT]}"
            raise UpstreamError(f"{self._host}: {why}", kind="upstream_connection") from error
        if isinstance(error, UnreadableError):
            raise unreadable(self._host, error, error.kind) from error
        if isinstance(error, EngineFailedError):
            raise _failed(self._host, error.error) from error


def _refused(message: str, words: str) -> RefusedError:
    kind = "context_length_exceeded" if _is_too_long(words) else "upstream_refused"
    return RefusedError(message, kind=kind, stage="model")


def _is_too_long(words: str) -> bool:
    words = words.lower()
    return any(phrase in words for phrase in _TOO_LONG)


def error_text(content: bytes) -> tuple[str, str]:
    """Message and code of an error body, whatever its form."""
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError:
        return content[:MAX_TEXT].decode(errors="replace"), ""
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        return str(error)[:MAX_TEXT], ""
    return str(error.get("message") or error.get("detail") or error)[:MAX_TEXT], str(error.get("code") or "")


def _seconds(retry_after: str | None) -> float:
    try:
        return max(0.0, float(retry_after or 0))
    except ValueError:
        return 0.0  # a date: rare, and the usual wait is as good
