"""One app on one listening socket, in the running loop: uvicorn with httptools, without its signals and access log.

Law     stopping ends every request in flight at once: one that was not answered yet gets a retryable InfraError of
        kind `stopping` (503), one that was half answered is cut off, so that no part passes for the whole.
Stalls  a request that is not whole, and of which nothing more comes, is refused (408), and its connection closed.
Errors  what an app raises is logged; where it has not answered yet, the caller gets a BugError.
"""

import asyncio
import logging
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from paddock.errors import BugError, ConfigError, InfraError, PaddockError, RequestError
from paddock.http.transport import SERVER_KEEPALIVE_S
from paddock.server.dialects import error_reply
from paddock.server.settings import DEFAULT_LIMITS
from paddock.server.sockets import BACKLOG

STALL_GRACE_S = 1.0
"""Seconds that a request that has stalled is given beyond its limit."""
_log = logging.getLogger("paddock.server")


class EndableApp:
    """An app whose requests in flight can all be ended."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._running: set[asyncio.Task[Any]] = set()
        self._is_closed = False

    def end(self) -> None:
        """End what runs; refuse what still comes."""
        self._is_closed = True
        for task in self._running:
            task.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._is_closed:
            await _refuse(scope, send, _stopping())
            return
        task = asyncio.current_task()
        assert task is not None  # an ASGI server runs each request in a task
        self._running.add(task)
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            if not self._is_closed:
                raise
            await _refuse(scope, send, _stopping())
        except Exception as error:  # noqa: BLE001 - the last boundary
            _log.exception("%s %s", scope.get("method"), scope.get("path"))
            text = f"{scope.get('path')}: {type(error).__name__}: {error}"
            await _refuse(scope, send, BugError(text, kind=type(error).__name__))
        finally:
            self._running.discard(task)


class _Protocol(HttpToolsProtocol):
    """A connection that ends when a request stalls: one that has begun, or the first, which has not. What is paused on
    our side does not stall."""

    STALL_TIMEOUT_S = DEFAULT_LIMITS.stall_timeout_s
    _received_at = 0.0
    """The loop's time at which the last bytes came."""
    _guard: asyncio.TimerHandle
    """While the connection lasts."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvicorn's own
        super().connection_made(transport)
        self._received_at = self.loop.time()
        self._check_stall()

    def connection_lost(self, exc: Exception | None) -> None:
        self._guard.cancel()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        self._guard.cancel()
        super().handle_websocket_upgrade()

    def data_received(self, data: bytes) -> None:
        self._received_at = self.loop.time()
        super().data_received(data)

    def _is_due(self) -> bool:
        """Whether more of a request is to come, or the first."""
        cycle = self.cycle
        return cycle is None or cycle.scope is not self.scope or cycle.more_body

    def _check_stall(self) -> None:
        """A loop that was held up may have bytes to read that came in time: they are given a moment."""
        left_s = self._received_at + self.STALL_TIMEOUT_S - self.loop.time()
        if not self._is_due():
            self._guard = self.loop.call_later(self.STALL_TIMEOUT_S, self._check_stall)
        elif left_s > 0 or self.flow.read_paused:
            self._guard = self.loop.call_later(max(left_s, STALL_GRACE_S), self._check_stall)
        else:
            self._guard = self.loop.call_later(STALL_GRACE_S, self._end, self._received_at)

    def _end(self, received_at: float) -> None:
        if self._received_at != received_at or self.flow.read_paused:
            self._check_stall()
            return
        if self.cycle is None or not self.cycle.response_started:
            message = f"no more of the request came within {self.STALL_TIMEOUT_S:g} s (`serve.stall_timeout_s`)"
            body = orjson.dumps(RequestError(message, kind="request_stalled").to_wire())
            head = b"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\nconnection: close\r\n"
            self.transport.write(head + b"content-length: %d\r\n\r\n" % len(body) + body)
        self.transport.close()


class TlsFiles(NamedTuple):
    """What a server shows its clients, in PEM."""

    certificate: Path
    """Its own first, then those that lead to an authority's."""
    key: Path

    def check(self) -> None:
        """ConfigError where a server can't use them."""
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(self.certificate, self.key)
        except OSError as error:  # ssl.SSLError is one
            message = f"certificate {self.certificate} and key {self.key}: {error.strerror or error}"
            raise ConfigError(message, kind="tls_unusable") from error


class HttpServer:
    """An app served on a socket, which it closes at the end. `stall_timeout_s`: of a request that is not whole. `tls`:
    None: plain HTTP."""

    def __init__(
        self,
        app: ASGIApp,
        sock: socket.socket,
        *,
        stall_timeout_s: float = DEFAULT_LIMITS.stall_timeout_s,
        websockets: bool = False,
        tls: TlsFiles | None = None,
    ) -> None:
        self._app = EndableApp(app)
        self._sock = sock
        config = uvicorn.Config(
            self._app,
            http=type("Protocol", (_Protocol,), {"STALL_TIMEOUT_S": stall_timeout_s}),
            ws="websockets-sansio" if websockets else "none",
            ws_per_message_deflate=False,
            lifespan="off",
            interface="asgi3",
            backlog=BACKLOG,
            timeout_keep_alive=SERVER_KEEPALIVE_S,
            proxy_headers=False,
            server_header=False,
            access_log=False,
            log_config=None,
            # What an app raises is logged above; what uvicorn would add is about requests that were cut off on purpose.
            log_level="critical",
            ssl_certfile=tls.certificate if tls else None,
            ssl_keyfile=tls.key if tls else None,
        )
        config.load()
        self._server = uvicorn.Server(config)
        self._server.lifespan = config.lifespan_class(config)
        self._main_loop: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Accept; the first request may come before this returns."""
        await self._server.startup(sockets=[self._sock])
        self._main_loop = asyncio.create_task(self._server.main_loop())

    async def stop(self) -> None:
        """Refuse new connections, end requests in flight, close. As long as the longest handler ignores its end."""
        if self._main_loop is None:
            self._sock.close()
            return
        self._main_loop.cancel()
        self._app.end()
        await self._server.shutdown(sockets=[self._sock])


def _stopping() -> InfraError:
    return InfraError("the server is stopping", kind="stopping")


async def _refuse(scope: Scope, send: Send, error: PaddockError) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1012})
        return
    reply = error_reply(str(scope.get("path", "")), error)
    body = orjson.dumps(reply.body)
    fields = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
    headers = [(name.encode(), value.encode()) for name, value in {**fields, **reply.headers}.items()]
    with suppress(RuntimeError):  # an answer that has begun can't begin again: uvicorn cuts it off
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
