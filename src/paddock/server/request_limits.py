"""What a request may bring, before any of it is read: its body's encoding, content type and size.

Law     a body comes as it is (`content-encoding` identity), and is said to be JSON in UTF-8: another is refused by its
        name, not read as JSON. One that is announced as too long is refused at once, one that is not as soon as it is.
Why     a page of another site can make a browser send any body, but none called JSON without asking first.
Units   sizes in MiB, times in seconds.
Errors  UnsupportedBodyError (415), BodyTooLargeError (413).
"""

import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paddock.errors import RequestError
from paddock.server.endpoints import refusal
from paddock.server.settings import RequestLimits

JSON = b"application/json"
_JSON_TYPE = re.compile(r"application/json|[\w.+-]+/[\w.+-]+\+json")
_CHARSET = re.compile(r"charset\s*=\s*\"?([^\s;\"]+)", re.IGNORECASE)
_READABLE = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})


class UnsupportedBodyError(RequestError):
    status = 415

    def __init__(self, message: str) -> None:
        super().__init__(message, kind="body_unsupported")


class BodyTooLargeError(RequestError):
    status = 413

    def __init__(self, limits: RequestLimits) -> None:
        message = f"body: at most {limits.max_body_mib} MiB (`serve.max_body_mib`)"
        super().__init__(message, kind="body_too_large")


class LimitedBodies:
    """An app whose requests are held against the limits."""

    def __init__(self, app: ASGIApp, limits: RequestLimits) -> None:
        self._app = app
        self._limits = limits
        self._max_bytes = limits.max_body_mib << 20

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        error: RequestError | None = None
        length: int | None = None
        has_body = False
        types: list[bytes] = []
        for name, value in scope["headers"]:
            if name == b"content-length":
                length = int(value) if value.isdigit() else None
                has_body = has_body or length != 0
            elif name == b"transfer-encoding":
                has_body = True
            elif name == b"content-encoding":
                error = error or _encoded(value)
            elif name == b"content-type":
                types.append(value)
        if has_body and types != [JSON]:
            error = error or _typed(types)
        if length is not None and length > self._max_bytes:
            error = error or BodyTooLargeError(self._limits)
        if error is not None:
            # What is left of the body is not waited for.
            await refusal(scope["path"], error, headers={"connection": "close"}).send(receive, send)
            return
        await self._app(scope, receive if length is not None else self._counted(receive), send)

    def _counted(self, receive: Receive) -> Receive:
        size = 0

        async def counting() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._max_bytes:
                raise BodyTooLargeError(self._limits)
            return message

        return counting


def _encoded(value: bytes) -> UnsupportedBodyError | None:
    encoding = value.decode("latin-1").strip()
    if encoding.lower() in ("", "identity"):
        return None
    return UnsupportedBodyError(f"content-encoding `{encoding[:40]}`: send the body as it is (`identity`)")


def _typed(values: list[bytes]) -> UnsupportedBodyError | None:
    """`values`: of the header, each time that it was sent."""
    said = ", ".join(value.decode("latin-1") for value in values)
    name, _, parameters = said.partition(";")
    if not _JSON_TYPE.fullmatch(name.strip().lower()):
        given = f"`{name.strip()[:80]}`" if values else "(none)"
        return UnsupportedBodyError(
            f"content-type {given}: a body is JSON, and is sent as that: -H 'Content-Type: application/json'"
        )
    named = _CHARSET.search(parameters)
    if named is None or named.group(1).lower() in _READABLE:
        return None
    return UnsupportedBodyError(f"content-type charset `{named.group(1)[:40]}`: send JSON in UTF-8")
