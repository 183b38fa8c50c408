"""POSTs over HTTP/1.1 with next to nothing between: one write out, the answer as it comes in.

Why     of a short exchange with a server nearby, aiohttp's interface costs more than all the rest of a model call's.
Shapes  bodies are sent and received as they are: nothing is decompressed, redirected or sent again.
Limits  one clock for the whole of an exchange, by which others may end it too (`Bound`). A slow reader holds up its
        server beyond `MAX_UNREAD` bytes. Connections are as many as there are exchanges; idle ones are kept for
        `KEEPALIVE_S`.
Errors  every failure of a connection is an aiohttp.ClientError, after what had come was read; TimeoutError when the
        time is over. An answer whose length is not said ends with its connection.
"""

import asyncio
import base64
import ssl
import time
from collections.abc import Callable, Mapping
from math import inf
from typing import NamedTuple, Self, cast
from urllib.parse import unquote_to_bytes

import aiohttp
import httptools
import httpx

from paddock.http.transport import KEEPALIVE_S

MAX_UNREAD = 1 << 20


class Target(NamedTuple):
    """A server, as each request names it."""

    host: str
    port: int
    tls: bool
    path: bytes
    """Before that of a request."""
    head: bytes
    """Headers of every request."""

    @classmethod
    def of(cls, root: httpx.URL, headers: Mapping[str, str]) -> Self:
        """ValueError for headers that can't be sent."""
        tls = root.scheme == "https"
        lines = {"host": root.netloc.decode(), **headers}
        if root.userinfo and "authorization" not in lines:
            lines["authorization"] = f"Basic {base64.b64encode(unquote_to_bytes(root.userinfo)).decode()}"
        for name, value in lines.items():
            if not value.isascii() or not value.isprintable():
                raise ValueError(f"header `{name}`: needs visible ASCII")
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items()).encode()
        host = root.raw_host.decode()
        return cls(host, root.port or (443 if tls else 80), tls, root.raw_path.rstrip(b"/"), head)


class Bound:
    """Ends an exchange: when its time is over, or before."""

    def __init__(self, due: float = inf) -> None:
        """`due`: in the running loop's time."""
        self.error: Exception | None = None
        """Once it was ended: what whoever waits is told."""
        self._due = due
        self._fail: Callable[[Exception], object] | None = None
        self._clock: asyncio.TimerHandle | None = None

    def shorten(self, due: float) -> None:
        """It is over then, if not before."""
        if due < self._due:
            self.lift()
            self._due = due
            self._run()

    def lift(self) -> None:
        """It has all the time."""
        clock, self._clock = self._clock, None
        if clock is not None:
            clock.cancel()

    def end(self, error: Exception) -> None:
        """Now. Again: nothing happens."""
        self.lift()
        if self.error is None:
            self.error = error
            if self._fail is not None:
                self._fail(error)

    def on_end(self, fail: Callable[[Exception], object]) -> None:
        """`fail` in place of an earlier one; at once, where it is over. From now on the clock runs."""
        self._fail = fail
        if self.error is not None:
            fail(self.error)
        elif self._clock is None:
            self._run()

    def _run(self) -> None:
        if self._due < inf:
            self._clock = asyncio.get_running_loop().call_at(self._due, self._over)

    def _over(self) -> None:
        self.end(TimeoutError())


class Received:
    """An answer whose head has come. To be closed, unless it was read to its end."""

    def __init__(self, connection: "_Connection") -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        """Names in lower case; of several of one name, the last."""
        self.complete = False
        """All has come; it may not have been read."""
        self._connection: _Connection | None = connection
        self._chunks: list[bytes] = []
        self._unread = 0
        self._error: Exception | None = None
        self._news: asyncio.Future[None] | None = None
        self._on_end: Callable[[], object] | None = None

    @property
    def at_end(self) -> bool:
        """Complete, and all of it was read."""
        return self.complete and not self._chunks

    def read_nowait(self) -> bytes:
        """What has come since; empty: nothing yet, or the end."""
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._unread = 0
        if self._connection is not None:
            self._connection.resume()
        return data

    async def read_some(self) -> bytes:
        """What has come since, at least something; empty: the end."""
        while not self._chunks and not self.complete:
            await self.news()
        return self.read_nowait()

    async def read(self) -> bytes:
        """All that is left."""
        while not self.complete:
            if self._connection is not None:
                self._connection.resume()
            await self.news()
        return self.read_nowait()

    def on_end(self, call: Callable[[], object]) -> None:
        """`call` when all has come, or nothing more will."""
        self._on_end = call

    def close(self) -> None:
        """Of one that is not complete the connection is closed. Again: nothing happens."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.transport.abort()

    def fail(self, error: Exception) -> None:
        """It ends here, with `error` for whoever waits."""
        self.close()
        self.end(error)

    async def news(self) -> None:
        """Wait for something to happen. One waits at a time."""
        if self._error is not None:
            raise self._error
        self._news = asyncio.get_running_loop().create_future()
        await self._news

    def feed(self, data: bytes) -> int:
        """How many bytes are not read yet."""
        self._chunks.append(data)
        self._unread += len(data)
        self.tell()
        return self._unread

    def end(self, error: Exception | None = None) -> None:
        """Nothing more comes over its connection. Again: nothing happens."""
        if self.complete or self._error is not None:
            return
        self._connection = None
        self._error = error
        self.complete = error is None
        self.tell()
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()

    def tell(self) -> None:
        news, self._news = self._news, None
        if news is not None and not news.done():
            news.set_result(None)


class LeanClient:
    """Connections to any servers, in one loop. To be closed."""

    def __init__(self) -> None:
        self._idle: dict[tuple[str, int, bool], list[_Connection]] = {}
        self._open: set[_Connection] = set()
        self._tls: ssl.SSLContext | None = None

    async def post(
        self,
        target: Target,
        path: str,
        body: bytes,
        bound: Bound | None = None,
    ) -> Received:
        """The answer, once its head is there. `bound`: of all of it."""
        connection = self._take(target) or await self._connect(target, bound)
        head = b"POST %b%b HTTP/1.1\r\n%bcontent-length: %d\r\n\r\n"
        received = connection.send(head % (target.path, path.encode("ascii"), target.head, len(body)), body)
        if bound is not None:
            bound.on_end(received.fail)
        try:
            while not received.status:
                await received.news()
        except BaseException:
            received.close()
            raise
        return received

    async def close(self) -> None:
        for connection in list(self._open):
            connection.transport.abort()
        self._idle.clear()
        await asyncio.sleep(0)  # what was closed is told so in the next round of the loop

    def _take(self, target: Target) -> "_Connection | None":
        idle = self._idle.get((target.host, target.port, target.tls), [])
        while idle:
            connection = idle.pop()
            if not connection.transport.is_closing() and time.monotonic() - connection.idle_since < KEEPALIVE_S:
                return connection
            connection.transport.abort()
        return None

    async def _connect(self, target: Target, bound: Bound | None) -> "_Connection":
        if target.tls and self._tls is None:
            self._tls = ssl.create_default_context()
        context = self._tls if target.tls else None
        key = (target.host, target.port, target.tls)
        loop = asyncio.get_running_loop()
        made = _Connection(lambda: self._keep(key, made), self._open)
        connecting = loop.create_task(loop.create_connection(lambda: made, target.host, target.port, ssl=context))
        if bound is not None:
            bound.on_end(lambda _error: connecting.cancel())
        try:
            await connecting
        except OSError as error:
            raise aiohttp.ClientConnectionError(f"can't connect: {error}") from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if bound is None or bound.error is None or (task is not None and task.cancelling()):
                raise
            raise bound.error from None
        return made

    def _keep(self, key: tuple[str, int, bool], connection: "_Connection") -> None:
        connection.idle_since = time.monotonic()
        idle = self._idle.setdefault(key, [])
        idle.append(connection)
        while connection.idle_since - idle[0].idle_since > KEEPALIVE_S:
            idle.pop(0).transport.abort()


class _Connection(asyncio.Protocol):
    """One connection, with one exchange at a time; `all_open` has it while it is open. `keep`: called when it is free
    for another."""

    transport: asyncio.Transport

    def __init__(self, keep: Callable[[], None], all_open: "set[_Connection]") -> None:
        self.idle_since = 0.0
        self._keep = keep
        self._all_open = all_open
        self._received: Received | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._paused = self._ended = False

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self.transport.resume_reading()

    def send(self, head: bytes, body: bytes) -> Received:
        self._received = received = Received(self)
        self.transport.writelines((head, body))
        return received

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # of a stream; uvloop's is no subclass
        self.transport.set_write_buffer_limits(0)  # else an older uvloop waits for the end of its round before it sends
        self._all_open.add(self)

    def eof_received(self) -> None:
        self._ended = True

    def connection_lost(self, exc: Exception | None) -> None:
        self._all_open.discard(self)
        received, self._received = self._received, None
        if received is None:
            return
        if self._ended and received.status and not {"content-length", "transfer-encoding"} & received.headers.keys():
            received.end()
        else:
            received.end(aiohttp.ServerDisconnectedError(f"the connection was closed: {exc}" if exc else None))

    def data_received(self, data: bytes) -> None:
        if self._received is None:
            self.transport.abort()  # nobody asked
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            received, self._received = self._received, None
            self.transport.abort()
            if received is not None:
                received.end(aiohttp.ClientPayloadError(f"no HTTP: {error}"))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        headers, self._headers = self._headers, {}
        status = self._parser.get_status_code()
        if status >= 200 and self._received is not None:
            self._received.status, self._received.headers = status, headers
            self._received.tell()

    def on_body(self, data: bytes) -> None:
        if self._received is not None and self._received.feed(data) > MAX_UNREAD and not self._paused:
            self._paused = True
            self.transport.pause_reading()

    def on_message_complete(self) -> None:
        received = self._received
        if received is None or not received.status:  # an answer of 1xx: another comes
            return
        self._received = None
        self.resume()
        received.end()
        # What is not sent yet belongs to this exchange.
        if self._parser.should_keep_alive() and not self.transport.get_write_buffer_size():
            self._keep()
        else:
            self.transport.abort()
