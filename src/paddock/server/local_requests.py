"""Which requests a server without a configured token answers: those of this machine's own clients, no page's.

Why     a page from anywhere can make a browser on this machine send requests to loopback, and can point a name of its
        own at loopback, so that the browser takes the server for the page's. The browser names both: the page in
        `Origin`, the name in `Host`.
Law     `Host` is an IP address or `localhost`, with or without a port: no name that others can point somewhere. Where
        `Origin` is sent, it is the server's own: its host and port are those of `Host`. Each is sent once at most. A
        unix socket has no name, so its `Host` says nothing; a browser can't reach it.
Errors  403 with what was wrong, before anything of the body is read; a WebSocket is closed before it opens.
"""

import ipaddress
import re
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from paddock.errors import RequestError
from paddock.server.endpoints import refusal

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
        error = None if scope["type"] == "lifespan" else why_not(scope)
        if error is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await refusal(scope["path"], error, 403).send(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})


def why_not(scope: Scope) -> RequestError | None:
    """Why a request is not answered; None: it is."""
    if _is_unix(scope):
        return None
    hosts, origins = _values(scope, b"host"), _values(scope, b"origin")
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


def _is_unix(scope: Scope) -> bool:
    """A server on a socket of the file system has a path, or says nothing, and has no port."""
    server: Any = scope.get("server")
    return server is None or server[1] is None


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _is_local(host: str) -> bool:
    found = _HOST.fullmatch(host)
    if found is None or int(found["port"] or 0) > _LAST_PORT:
        return False
    address = found["v4"] or found["v6"]
    try:
        return address is None or bool(ipaddress.ip_address(address))
    except ValueError:
        return False


def _is_own(origin: str, host: str) -> bool:
    return origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")


def _quoted(values: list[str]) -> str:
    return ", ".join(repr(value[:MAX_QUOTED]) for value in values) or "(none)"
