"""Which requests a server reads at all: decided by their headers, before any of the body is read.

Token   where one is asked for, every route but the open ones answers 401 without it.
Local   a server without a configured token answers this machine's own clients, no page's: a page from anywhere can make
        a browser on this machine send requests to loopback, and can point a name of its own at loopback, so that the
        browser takes the server for the page's. The browser names both: the page in `Origin`, the name in `Host`.
        `Host` is an IP address or `localhost`, with or without a port: no name that others can point somewhere. Where
        `Origin` is sent, it is the server's own: its host and port are those of `Host`. Each is sent once at most. A
        unix socket has no name, so its `Host` says nothing; a browser can't reach it.
Bodies  a body comes as it is (`content-encoding` identity), and is said to be JSON in UTF-8: another is refused by its
        name, not read as JSON, because a page of another site can make a browser send any body, but none called JSON
        without asking first. One that is announced as too long is refused at once, one that is not as soon as it is.
Units   sizes in MiB.
Errors  401 and 403 with what was wrong; UnsupportedBodyError (415), BodyTooLargeError (413). A WebSocket is closed
        before it opens.
"""

import hmac
import ipaddress
import re
from collections.abc import Collection
from functools import lru_cache
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paddock.errors import RequestError
from paddock.http.access import SCHEME
from paddock.http.client import API_KEY
from paddock.server.endpoints import refusal
from paddock.server.pages import ASSETS, PAGES
from paddock.server.settings import RequestLimits

OPEN_PATHS = frozenset({"/", "/healthz"})
NEEDS_TOKEN = "this server needs `Authorization: Bearer <token>`"
HOW_TO_FIND = (
    ": `paddock.connect(url)` and `headers=paddock.http.headers_for(url)` find it for its user, by the "
    "server's address (127.0.0.1, not `localhost`); with curl, `-H @FILE` as `paddock serve` said at its start"
)


class RequireToken:
    """Answers 401 to whoever does not bring the token. `made`: at start; its user's clients find it by themselves.
    `also_open`: how paths begin that need none."""

    def __init__(self, app: ASGIApp, token: str, made: bool, *, also_open: str | None = None) -> None:
        self._app = app
        self._expected = (SCHEME + token).encode()
        self._made = made
        self._also_open = also_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or self._has_token(scope):
            await self._app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if self._is_open(scope["path"]):
            await self._app(scope, receive, send)
            return
        error = RequestError(NEEDS_TOKEN + (HOW_TO_FIND if self._made else ""), kind="unauthorized")
        await refusal(scope["path"], error, 401)(scope, receive, send)

    def _is_open(self, path: str) -> bool:
        if self._also_open is not None and path.startswith(self._also_open):
            return True
        return path in OPEN_PATHS or (self._made and (path in PAGES or path.startswith(f"{ASSETS}/")))

    def _has_token(self, scope: Scope) -> bool:
        headers = dict(scope["headers"])
        keys = (headers.get(b"authorization", b""), SCHEME.encode() + headers.get(API_KEY.encode(), b""))
        return any(hmac.compare_digest(key, self._expected) for key in keys)


LOCAL_NAME = "localhost"
_HOST = re.compile(rf"(?i:{LOCAL_NAME}|(?P<v4>[0-9.]+)|\[(?P<v6>[0-9a-f:.]+)\])(?::(?P<port>[0-9]{{0,5}}))?", re.ASCII)
_LAST_PORT = 65535
MAX_QUOTED = 100
"""Characters of a header that an error repeats."""


class LocalRequests:
    """Answers 403 to what may have been sent by a page of another site."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = None if scope["type"] == "lifespan" else refusal_reason(scope)
        if error is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await refusal(scope["path"], error, 403)(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})


def refusal_reason(scope: Scope) -> RequestError | None:
    """Why a request is not answered; None: it is."""
    server: Any = scope.get("server")
    if server is None or server[1] is None:
        return None  # a socket of the file system: it has a path, or says nothing, and has no port
    given: dict[bytes, list[str]] = {b"host": [], b"origin": []}
    for key, value in scope["headers"]:
        if key in given:
            given[key].append(value.decode("latin-1"))
    hosts, origins = given.values()
    if len(hosts) != 1 or not _is_local(hosts[0]):
        return RequestError(
            f"Host {_quoted(hosts)}: a server without a configured token answers only to an IP address or "
            f"`{LOCAL_NAME}`; ask it by one of these, or serve it with a token (--token-file)",
            kind="host_refused",
        )
    if origins and (len(origins) != 1 or not _is_own(origins[0], hosts[0])):
        return RequestError(
            f"Origin {_quoted(origins)}: a server without a configured token answers no page of another site; "
            f"its own is http://{hosts[0]}",
            kind="origin_refused",
        )
    return None


# Read at each request, and the same for all of a client.
@lru_cache(maxsize=64)
def _is_local(host: str) -> bool:
    match = _HOST.fullmatch(host)
    if match is None or int(match["port"] or 0) > _LAST_PORT:
        return False
    address = match["v4"] or match["v6"]
    try:
        return address is None or bool(ipaddress.ip_address(address))
    except ValueError:
        return False


def _is_own(origin: str, host: str) -> bool:
    return origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")


def _quoted(values: list[str]) -> str:
    return ", ".join(repr(value[:MAX_QUOTED]) for value in values) or "(none)"


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
    """An app whose requests are held against the limits. `also`: types of bodies that are welcome beside JSON; none
    that a page can send without asking first."""

    def __init__(self, app: ASGIApp, limits: RequestLimits, *, also: Collection[bytes] = ()) -> None:
        self._app = app
        self._limits = limits
        self._max_bytes = limits.max_body_mib << 20
        self._welcome = ([JSON], *([name] for name in also))

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
                error = error or _encoding_error(value)
            elif name == b"content-type":
                types.append(value)
        if has_body and types not in self._welcome:
            error = error or _type_error(types)
        if length is not None and length > self._max_bytes:
            error = error or BodyTooLargeError(self._limits)
        if error is not None:
            # What is left of the body is not waited for.
            await refusal(scope["path"], error, headers={"connection": "close"})(scope, receive, send)
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


def _encoding_error(value: bytes) -> UnsupportedBodyError | None:
    encoding = value.decode("latin-1").strip()
    if encoding.lower() in ("", "identity"):
        return None
    return UnsupportedBodyError(f"content-encoding `{encoding[:40]}`: send the body as it is (`identity`)")


def _type_error(values: list[bytes]) -> UnsupportedBodyError | None:
    """`values`: of the header, each time that it was sent."""
    text = ", ".join(value.decode("latin-1") for value in values)
    name, _, parameters = text.partition(";")
    if not _JSON_TYPE.fullmatch(name.strip().lower()):
        shown = f"`{name.strip()[:80]}`" if values else "(none)"
        return UnsupportedBodyError(
            f"content-type {shown}: a body is JSON, and is sent as that: -H 'Content-Type: application/json'"
        )
    named = _CHARSET.search(parameters)
    if named is None or named.group(1).lower() in _READABLE:
        return None
    return UnsupportedBodyError(f"content-type charset `{named.group(1)[:40]}`: send JSON in UTF-8")
