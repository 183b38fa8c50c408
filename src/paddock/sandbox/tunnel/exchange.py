"""One HTTP/1.1 exchange on a connection from inside: a request in, an answer out, then the connection is over.

Source  h11 for the protocol. A request is read whole, within bounds; an answer is written as it comes.
Errors  `TunnelRefusal` for a request that is refused; ConnectionError when the client has gone.
"""

import asyncio
from typing import NamedTuple

import h11
import orjson

from paddock.sandbox.protocol import TunnelConnection
from paddock.sandbox.tunnel.errors import TunnelRefusal
from paddock.sandbox.tunnel.settings import TunnelSettings
from paddock.sandbox.tunnel.upstream import Headers

LINGER_S = 1.0
LINGER_BYTES = 1 << 22


class TunnelRequest(NamedTuple):
    method: str
    target: str
    headers: Headers
    """Names in lower case; of one that comes twice, the last."""
    body: bytes


class HeldBytes:
    """Bytes of request bodies that a tunnel holds."""

    def __init__(self) -> None:
        self.bytes = 0


class TunnelExchange:
    """The server's side of one connection."""

    def __init__(self, connection: TunnelConnection, settings: TunnelSettings, held: HeldBytes) -> None:
        self._connection = connection
        self._settings = settings
        self._held = held
        self._holds = 0
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=settings.max_head_bytes)
        self._answer_started = False

    @property
    def answer_started(self) -> bool:
        """Whether the answer's head has been sent."""
        return self._answer_started

    async def request(self) -> TunnelRequest | None:
        """The request; None: the client left without one."""
        try:
            async with asyncio.timeout(self._settings.request_timeout_s):
                return await self._read()
        except TimeoutError:
            raise TunnelRefusal(408, "timeout", "the request did not come in time") from None
        except h11.RemoteProtocolError as error:
            raise TunnelRefusal(error.error_status_hint or 400, "malformed", f"no HTTP/1.1 request: {error}") from error

    async def gone(self) -> None:
        """Returns when the client has left."""
        while await self._connection.read():
            continue  # bytes after the one request of a connection mean nothing

    async def head(self, status: int, headers: Headers) -> None:
        fields = [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
        self._answer_started = True
        await self._send(h11.Response(status_code=status, headers=[*fields, (b"connection", b"close")]))

    async def data(self, data: bytes) -> None:
        await self._send(h11.Data(data=data))

    async def end(self) -> None:
        await self._send(h11.EndOfMessage())

    async def refuse(self, refusal: TunnelRefusal) -> None:
        """Answer with an error, and let the client read it."""
        body = orjson.dumps(refusal.body)
        await self.head(refusal.status, {"content-type": "application/json", "content-length": str(len(body))})
        await self.data(body)
        await self.end()
        await self._linger()

    async def close(self) -> None:
        self._held.bytes -= self._holds
        self._holds = 0
        await self._connection.close()

    async def _read(self) -> TunnelRequest | None:
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    await self._send(h11.InformationalResponse(status_code=100, headers=[]))
                data = await self._connection.read()
                if not data and head is None and self._http.trailing_data == (b"", False):
                    return None
                self._http.receive_data(data)
            elif isinstance(event, h11.Request):
                head = event
                self._check_length(event)
            elif isinstance(event, h11.Data):
                body += event.data
                self._check_size(len(body))
                self._hold(len(event.data))
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                return TunnelRequest(head.method.decode(), head.target.decode("latin-1"), _fields(head), bytes(body))
            else:
                return None

    def _check_length(self, head: h11.Request) -> None:
        length = _fields(head).get("content-length", "0")
        self._check_size(int(length) if length.isdecimal() else 0)

    def _check_size(self, size: int) -> None:
        max_bytes = self._settings.max_body_bytes
        if size > max_bytes:
            raise TunnelRefusal(413, "too_large", f"a request of {size} bytes or more: at most {max_bytes} pass")

    def _hold(self, size: int) -> None:
        self._holds += size
        self._held.bytes += size
        if self._held.bytes > self._settings.max_held_bytes:
            raise TunnelRefusal(503, "busy", "the open calls hold too many bytes already")

    async def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            try:
                async with asyncio.timeout(self._settings.write_timeout_s):
                    await self._connection.write(data)
            except TimeoutError:
                raise ConnectionError("the client does not read") from None

    async def _linger(self) -> None:
        """Read what the client still sends: closing with unread bytes would take the answer away from it."""
        n_read = 0
        try:
            async with asyncio.timeout(LINGER_S):
                while n_read < LINGER_BYTES and (data := await self._connection.read()):
                    n_read += len(data)
        except TimeoutError:
            return


def _fields(head: h11.Request) -> Headers:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
