"""Messages over a socket pair: four bytes of length each for the JSON and the bytes after it, then both."""

import asyncio
import socket
import struct
from typing import Self

import orjson

from paddock.collect.jobs import WorkerMessage

_LIMIT = 1 << 20
_LENGTHS = struct.Struct(">II")


def receive_blocking(sock: socket.socket) -> WorkerMessage | None:
    """The first message, before a loop runs; None: the other side is gone. Nothing beyond it is read."""
    lengths = _exactly(sock, _LENGTHS.size)
    if lengths is None:
        return None
    n_head, n_body = _LENGTHS.unpack(lengths)
    data = _exactly(sock, n_head + n_body)
    return None if data is None else _message(data, n_head)


def _exactly(sock: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            return None
        data += more
    return bytes(data)


def _message(data: bytes, n_head: int) -> WorkerMessage:
    return WorkerMessage(orjson.loads(data[:n_head]), data[n_head:])


class MessageChannel:
    """One side of the pair, in a loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, sock: socket.socket) -> Self:
        return cls(*await asyncio.open_unix_connection(sock=sock, limit=_LIMIT))

    async def send(self, message: WorkerMessage) -> None:
        """Send, and wait while the other side is slow. ConnectionError: it is gone."""
        if self._writer.is_closing():  # uvloop's transports raise RuntimeError then
            raise ConnectionResetError("the other side is gone")
        head = orjson.dumps(message.head)
        self._writer.write(_LENGTHS.pack(len(head), len(message.body)) + head + message.body)
        await self._writer.drain()

    async def receive(self) -> WorkerMessage | None:
        """The next message; None: the other side is gone."""
        try:
            n_head, n_body = _LENGTHS.unpack(await self._reader.readexactly(_LENGTHS.size))
            return _message(await self._reader.readexactly(n_head + n_body), n_head)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    def close(self) -> None:
        self._writer.close()
