"""Errors that go inside: the tunnel's own answers, and the upstream's errors without its location.

Shapes  OpenAI's `{error: {message, type, param, code}}`, Anthropic's `{type: error, error: {type, message}}`.
Law     no text of an error names a URL, an address, a host or a folder of ours. A failure of the upstream (5xx, or in
        the middle of a stream) says its kind alone: what happened is for the run's own record. A refusal (4xx) keeps
        its words, which are about the request, and its numbers.
"""

import re
from typing import Any, Self

import orjson

from paddock.types import JsonObject

FIELD_KIND = "field_refused"
OVERFLOWS = (b"context_length_exceeded", b"prompt is too long")
"""In the error of a call that is too long, as OpenAI's and Anthropic's clients know it."""
_MESSAGES = "/v1/messages"
_HIDDEN = b"..."
_PLACES = re.compile(
    rb"""\b[a-z][a-z0-9+.-]{0,15}://[^\s"'<>\\,;)]*[^\s"'<>\\,;):.]          # URLs
    | \b\d{1,3}(?:\.\d{1,3}){3}\b(?::\d+)?                               # 10.0.0.7:8000
    | \[[0-9a-f]*:[0-9a-f:.]*\](?::\d+)?                                 # [::1]:8000
    | (?<![\w.-])(?=[\w.-]*[a-z])[\w-]+(?:\.[\w-]+)*:\d{2,5}\b           # node-7:8000
    | (?<![\w.:/~])~?/(?!v1/|r/)(?:[\w.+@%=-]+/)+[\w.+@%=-]*              # /srv/models/seven
    | (?<![^\s"])[^\s"]+(?=\ answered\b)                                 # a host that is only named
    """,
    re.IGNORECASE | re.VERBOSE,
)
_KIND = re.compile(r"[a-z0-9_]{1,64}")
_ERROR = re.compile(rb'"error"\s*:\s*\{')


class TunnelRefusal(Exception):  # noqa: N818 - an answer, not an error of ours
    """A request that the tunnel answers without passing it on. `body`: the answer, if it has a form of its own."""

    def __init__(self, status: int, kind: str, message: str, body: JsonObject | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.body: JsonObject = body or {"error": {"type": kind, "message": message}}

    @classmethod
    def of_field(cls, path: str, field: str | None, message: str) -> Self:
        """The refusal of one field, in the form that the path's clients know. `field` None: the whole request."""
        kind = "invalid_request_error"
        error: JsonObject = {"type": kind, "message": message}
        if path == _MESSAGES:
            return cls(400, kind, message, {"type": "error", "error": error})
        return cls(400, kind, message, {"error": {**error, "param": field, "code": FIELD_KIND}})


def without_places(text: bytes) -> bytes:
    """An error's text, or body, without URLs, addresses, hosts and folders."""
    return _PLACES.sub(_HIDDEN, text)


def error_body(path: str, status: int, body: bytes) -> bytes:
    """The body that goes inside for an answer with that status, 400 or more."""
    if status < 500:
        return without_places(body)
    try:
        wire = orjson.loads(body)
    except orjson.JSONDecodeError:
        wire = None
    safe = _without_message(wire) if isinstance(wire, dict) and isinstance(wire.get("error"), dict) else None
    if safe is None:
        error = {"type": "api_error", "message": _no_answer({})}
        safe = {"type": "error", "error": error} if path == _MESSAGES else {"error": error}
    return orjson.dumps(safe)


class StreamErrors:
    """A stream of events in whose errors only the kind is kept. Lines that are no data pass unchanged."""

    def __init__(self) -> None:
        self._rest = bytearray()
        """The start of a line that has not ended."""

    def read(self, chunk: bytes) -> bytes:
        """The whole lines that can be passed on."""
        if b"\n" not in chunk:
            self._rest += chunk
            return b""
        whole, _, rest = (bytes(self._rest) + chunk).rpartition(b"\n")
        self._rest = bytearray(rest)
        return _lines(whole + b"\n")

    def rest(self) -> bytes:
        """What is left after the last chunk."""
        return _lines(bytes(self._rest))


def _lines(text: bytes) -> bytes:
    if _ERROR.search(text) is None:
        return text
    return b"".join(_line(line) for line in text.splitlines(keepends=True))


def _line(line: bytes) -> bytes:
    field, _, data = line.partition(b":")
    if field != b"data" or _ERROR.search(data) is None:
        return line
    if any(words in data for words in OVERFLOWS):
        return b"data:" + without_places(data)
    try:
        event = orjson.loads(data)
    except orjson.JSONDecodeError:
        return line
    if not isinstance(event, dict):
        return line
    response = event.get("response")
    holder = response if isinstance(response, dict) else event
    if isinstance(holder.get("error"), dict):
        safe = _without_message(holder)
        return b"data: " + orjson.dumps({**event, "response": safe} if holder is response else safe) + b"\n"
    return line


def _without_message(body: JsonObject) -> JsonObject:
    return {**body, "error": {**body["error"], "message": _no_answer(body["error"])}}


def _no_answer(error: JsonObject) -> str:
    kinds: list[Any] = [error.get("kind"), error.get("code"), error.get("type")]
    kind = next((kind for kind in kinds if isinstance(kind, str) and _KIND.fullmatch(kind)), "no reason given")
    return f"the model gave no answer: {kind}"
