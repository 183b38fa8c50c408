"""What a program sends, byte for byte, read on its way into the tunnel: also what the tunnel turns away.

Law     the tap changes nothing. A request is written down when it is whole, in the order in which they became so.
"""

from collections.abc import AsyncIterator
from typing import NamedTuple

import h11

from paddock.sandbox.protocol import TunnelConnection, TunnelListener


class TappedRequest(NamedTuple):
    """One request, as it came."""

    method: str
    path: str
    """With its query."""
    headers: tuple[str, ...]
    """Names, in lower case, in order."""
    body: bytes


class Tap:
    """A listener that writes down what comes."""

    def __init__(self, listener: TunnelListener, sent: list[TappedRequest]) -> None:
        self._listener = listener
        self._requests = sent

    @property
    def port(self) -> int:
        return self._listener.port

    async def connections(self) -> AsyncIterator[TunnelConnection]:
        async for connection in self._listener.connections():
            yield _TappedConnection(connection, self._requests)

    async def close(self) -> None:
        await self._listener.close()


class _TappedConnection:
    def __init__(self, connection: TunnelConnection, sent: list[TappedRequest]) -> None:
        self._connection = connection
        self._requests = sent
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
        self._head: h11.Request | None = None
        self._body = bytearray()
        self._over = False

    async def read(self, max_bytes: int = 65536) -> bytes:
        data = await self._connection.read(max_bytes)
        if not self._over:
            try:
                self._note(data)
            except h11.RemoteProtocolError:
                self._over = True  # no HTTP: the tunnel says so
        return data

    async def write(self, data: bytes) -> None:
        await self._connection.write(data)

    async def close(self) -> None:
        await self._connection.close()

    def _note(self, data: bytes) -> None:
        self._http.receive_data(data)
        while (event := self._http.next_event()) is not h11.NEED_DATA:
            if isinstance(event, h11.Request):
                self._head = event
            elif isinstance(event, h11.Data):
                self._body += event.data
            else:
                self._over = True
                if isinstance(event, h11.EndOfMessage) and self._head is not None:
                    self._requests.append(_request_of(self._head, bytes(self._body)))
                return


def _request_of(head: h11.Request, body: bytes) -> TappedRequest:
    names = tuple(name.decode("latin-1") for name, _ in head.headers)
    return TappedRequest(head.method.decode(), head.target.decode("latin-1"), names, body)
