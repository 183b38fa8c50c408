"""Messages over a socket pair: four bytes of length each for the JSON and the bytes after it, then both."""

import asyncio
import socket
import struct
from collections import deque
from typing import Self, cast

import orjson

from paddock.collect.jobs import WorkerMessage

_LENGTHS = struct.Struct(">II")
_MOST_UNREAD_BYTES = 1 << 20
"""Of messages that are taken off the socket before their reader comes to them; those beyond it wait with the sender."""


def receive_blocking(sock: socket.socket) -> WorkerMessage | None:
    """The first message, before a loop runs; None: the other side is gone. Nothing beyond it is read."""
    lengths = _exactly(sock, _LENGTHS.size)
    if lengths is None:
        return None
    n_head, n_body = _LENGTHS.unpack(lengths)
    data = _exactly(sock, n_head + n_body)
    return None if data is None else _message(memoryview(data), n_head)


def _exactly(sock: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            return None
        data += more
    return bytes(data)


def _message(data: memoryview, n_head: int) -> WorkerMessage:
    return WorkerMessage(orjson.loads(data[:n_head]), bytes(data[n_head:]))


class MessageChannel(asyncio.Protocol):
    """One side of the pair, in a loop: all messages that arrive together are taken off the socket at once."""

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._unread: deque[WorkerMessage] = deque()
        self._unread_bytes = 0
        self._rest = bytearray()
        """The start of a message that has not arrived in full."""
        self._arrived = asyncio.Event()
        """Set while a message is unread, and once the other side is gone."""
        self._writable = asyncio.Event()
        self._is_gone = False

    @classmethod
    async def over(cls, sock: socket.socket) -> Self:
        _, channel = await asyncio.get_running_loop().create_unix_connection(cls, sock=sock)
        return channel

    async def send(self, message: WorkerMessage) -> None:
        """Send, and wait while the other side is slow. ConnectionError: it is gone."""
        if not self._writable.is_set():
            await self._writable.wait()
        if self._is_gone:
            raise ConnectionResetError("the other side is gone")
        head = orjson.dumps(message.head)
        self._transport.write(_LENGTHS.pack(len(head), len(message.body)) + head)
        self._transport.write(message.body)

    async def receive(self) -> WorkerMessage | None:
        """The next message; None: the other side is gone."""
        while not self._unread:
            if self._is_gone:
                return None
            self._arrived.clear()
            self._transport.resume_reading()
            await self._arrived.wait()
        message = self._unread.popleft()
        self._unread_bytes -= len(message.body)
        return message

    def close(self) -> None:
        self._is_gone = True
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._writable.set()

    def connection_lost(self, _error: Exception | None) -> None:
        self._is_gone = True
        self._writable.set()
        self._arrived.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        self._rest += data
        start = 0
        with memoryview(self._rest) as view:
            while len(view) - start >= _LENGTHS.size:
                n_head, n_body = _LENGTHS.unpack_from(view, start)
                end = start + _LENGTHS.size + n_head + n_body
                if end > len(view):
                    break
                self._unread.append(_message(view[start + _LENGTHS.size : end], n_head))
                self._unread_bytes += n_body
                start = end
        del self._rest[:start]
        if self._unread:
            self._arrived.set()
        if self._unread_bytes > _MOST_UNREAD_BYTES:
            self._transport.pause_reading()
