"""Errors as they go inside: what the tunnel answers itself, and the upstream's without where it is.

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


class Turned(Exception):  # noqa: N818 - an answer, not an error of ours
    """A request that is answered without being passed on. `body`: the answer, if it has a form of its own."""

    def __init__(self, status: int, kind: str, message: str, body: JsonObject | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.body: JsonObject = body or {"error": {"type": kind, "message": message}}

    @classmethod
    def of_field(cls, path: str, field: str | None, message: str) -> Self:
        """A request that says what it may not, in the form that the path's clients know. `field` None: all of it."""
        kind = "invalid_request_error"
        error: JsonObject = {"type": kind, "message": message}
        if path == _MESSAGES:
            return cls(400, kind, message, {"type": "error", "error": error})
        return cls(400, kind, message, {"error": {**error, "param": field, "code": FIELD_KIND}})


def without_places(text: bytes) -> bytes:
    """An error's text, or body, without where anything is."""
    return _PLACES.sub(_HIDDEN, text)


def error_body(path: str, status: int, body: bytes) -> bytes:
    """Of an answer with that status, 400 or more."""
    if status < 500:
        return without_places(body)
    try:
        wire = orjson.loads(body)
    except orjson.JSONDecodeError:
        wire = None
    told = _nameless(wire) if isinstance(wire, dict) and isinstance(wire.get("error"), dict) else None
    if told is None:
        error = {"type": "api_error", "message": _no_answer({})}
        told = {"type": "error", "error": error} if path == _MESSAGES else {"error": error}
    return orjson.dumps(told)


class StreamErrors:
    """A stream of events, of whose errors only the kind is told. What is no line of data passes as it comes."""

    def __init__(self) -> None:
        self._rest = bytearray()
        """Of a line that has not ended."""

    def read(self, chunk: bytes) -> bytes:
        """What can go on."""
        if b"\n" not in chunk:
            self._rest += chunk
            return b""
        whole, _, rest = (bytes(self._rest) + chunk).rpartition(b"\n")
        self._rest = bytearray(rest)
        return _lines(whole + b"\n")

    def rest(self) -> bytes:
        """After the last chunk."""
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
    held = event.get("response")
    holder = held if isinstance(held, dict) else event
    if isinstance(holder.get("error"), dict):
        told = _nameless(holder)
        return b"data: " + orjson.dumps({**event, "response": told} if holder is held else told) + b"\n"
    return line


def _nameless(body: JsonObject) -> JsonObject:
    return {**body, "error": {**body["error"], "message": _no_answer(body["error"])}}


def _no_answer(error: JsonObject) -> str:
    kinds: list[Any] = [error.get("kind"), error.get("code"), error.get("type")]
    kind = next((kind for kind in kinds if isinstance(kind, str) and _KIND.fullmatch(kind)), "no reason given")
    return f"the model gave no answer: {kind}"
