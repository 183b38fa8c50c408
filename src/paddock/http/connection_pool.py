"""Connections to one server that are kept between requests: HTTP/1.1 over httptools, whole answers alone.

Why     for calls that are many and short: aiohttp's client takes two to three times the CPU for each.
Law     a request is sent once. A connection serves one at a time, and the next once the answer was whole; where that
        failed or was cancelled, it is cut.
Without redirects, cookies, proxies, compression. A body whose end is the connection's is no whole answer.
Errors  OSError: ConnectionError where there is no connection, or it broke before the answer was whole; TimeoutError.
        ValueError: a path or header with a line break in it.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, cast
from urllib.parse import urlsplit

import httptools

from paddock.http.transport import KEEPALIVE_S, trust

FINAL = 200
"""Statuses below it come before the answer."""


class PooledAnswer(NamedTuple):
    """What came back, whatever it says."""

    status: int
    body: bytes


class ConnectionPool:
    """For the running loop: as many connections as there are requests at once."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        connect_timeout_s: float,
        silence_timeout_s: float,
        ca_file: Path | None = None,
    ) -> None:
        """`headers`: of each request. `silence_timeout_s`: a request without a limit of its own fails after one or two
        of them without a byte either way. `ca_file`: who vouches for the server; None: the system's."""
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._place = f"{parts.hostname}:{self._port}"
        self._tls = trust(ca_file) if parts.scheme == "https" else None
        self._prefix = parts.path
        self._headers = f"host: {parts.netloc.rpartition('@')[2]}\r\n{_lines(headers)}"
        self._connect_timeout_s = connect_timeout_s
        self._silence_timeout_s = silence_timeout_s
        self._idle: deque[PooledConnection] = deque()
        """Those that were used last are last."""
        self._is_closed = False

    async def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, *, timeout_s: float | None = None
    ) -> PooledAnswer:
        """Send a request once; `path`: below the URL's, with its query. `timeout_s`: for all of it; None: as long as
        bytes come."""
        length = "" if body is None else f"content-length: {len(body)}\r\n"
        line = _line(f"{method} {self._prefix}{path} HTTP/1.1")
        head = f"{line}{self._headers}{_lines(headers)}{length}\r\n".encode()
        async with asyncio.timeout(timeout_s):
            connection = self._take() or await self._connect()
            try:
                answer = await connection.ask(head, body, self._silence_timeout_s if timeout_s is None else None)
            except BaseException:
                connection.cut()
                raise
        self._give(connection)
        return answer

    def close(self) -> None:
        """Close those that are idle, and each other when its request has ended."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().cut()

    def _take(self) -> "PooledConnection | None":
        fresh_from = asyncio.get_running_loop().time() - KEEPALIVE_S
        while self._idle:
            connection = self._idle.pop()
            if connection.can_stay and connection.idle_since > fresh_from:
                return connection
            connection.cut()
        return None

    def _give(self, connection: "PooledConnection") -> None:
        if self._is_closed or not connection.can_stay:
            connection.cut()
            return
        connection.idle_since = asyncio.get_running_loop().time()
        self._idle.append(connection)
        while self._idle[0].idle_since < connection.idle_since - KEEPALIVE_S:
            self._idle.popleft().cut()

    async def _connect(self) -> "PooledConnection":
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                _, connection = await loop.create_connection(PooledConnection, self._host, self._port, ssl=self._tls)
        except OSError as error:
            why = f"not within {self._connect_timeout_s:g} s" if isinstance(error, TimeoutError) else error
            raise ConnectionError(f"can't connect to {self._place}: {why}") from error
        return connection


class PooledConnection(asyncio.Protocol):
    """One connection, and the parser's callbacks."""

    _transport: asyncio.Transport
    _answer: "asyncio.Future[PooledAnswer] | None" = None
    """Of the latest request."""
    _guard: asyncio.TimerHandle | None = None
    idle_since = 0.0

    def __init__(self) -> None:
        self.can_stay = False
        """Whether another request can go over it."""
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._parts: list[bytes] = []
        self._n_received = 0

    async def ask(self, head: bytes, body: bytes | None, silence_timeout_s: float | None) -> PooledAnswer:
        answer: asyncio.Future[PooledAnswer] = self._loop.create_future()
        self._answer = answer
        self._transport.writelines([head, body] if body else [head])
        if silence_timeout_s is not None:
            self._guard_silence(silence_timeout_s, self._signs())
        try:
            return await answer
        finally:
            if self._guard is not None:
                self._guard.cancel()

    def cut(self) -> None:
        """Idempotent."""
        self.can_stay = False
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.can_stay = False
        self._fail(ConnectionError(f"the connection broke before the answer was whole: {exc or 'it was closed'}"))

    def data_received(self, data: bytes) -> None:
        self._n_received += 1
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(ConnectionError(f"the answer is no HTTP: {error}"))
            self.cut()

    def on_message_begin(self) -> None:
        self._parts = []
        if not self._is_asked():
            self.cut()

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if self._answer is not None and self._is_asked() and status >= FINAL:
            # A server may answer before it has read the whole request, whose rest would hold up the next one.
            self.can_stay = self._parser.should_keep_alive() and not self._transport.get_write_buffer_size()
            self._answer.set_result(PooledAnswer(status, b"".join(self._parts)))

    def _is_asked(self) -> bool:
        return self._answer is not None and not self._answer.done()

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    def _signs(self) -> tuple[int, int]:
        """Of life: they change with what comes, and with what goes."""
        return self._n_received, self._transport.get_write_buffer_size()

    def _guard_silence(self, timeout_s: float, before: tuple[int, int]) -> None:
        self._guard = self._loop.call_later(timeout_s, self._check_silence, timeout_s, before)

    def _check_silence(self, timeout_s: float, before: tuple[int, int]) -> None:
        if (signs := self._signs()) == before:
            self._fail(TimeoutError(f"nothing came for {timeout_s:g} s"))
        else:
            self._guard_silence(timeout_s, signs)


def _lines(headers: Mapping[str, str]) -> str:
    return "".join([_line(f"{name}: {value}") for name, value in headers.items()])


def _line(text: str) -> str:
    """End a line. Raises ValueError where the text would end it earlier, and say more than its caller meant."""
    if "\r" in text or "\n" in text:
        raise ValueError(f"a line of a request has a line break: {text!r}")
    return text + "\r\n"
