"""Many byte streams over one link, each way with a window: who reads slowly holds up its own stream alone.

Frames  kind (1 byte), stream (4), then: OPEN nothing; DATA bytes; END nothing: no more data from this side; CLOSE
        nothing: this side neither reads nor writes any more; CREDIT 4 bytes: how many have been read.
Law     a side sends at most `WINDOW_BYTES` that the other has not read: that is all that a stream ever holds here.
Errors  ConnectionResetError: the other side has closed, or the link is lost.
"""

import asyncio
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

OPEN, DATA, END, CLOSE, CREDIT = range(1, 6)
WINDOW_BYTES = 1 << 18
CHUNK_BYTES = 1 << 16
_HEAD = struct.Struct("!BI")
RESET = "the other end of the tunnel has closed"
_COUNT = struct.Struct("!I")
Send = Callable[[bytes], Awaitable[None]]


class Frame(NamedTuple):
    """One message of a link."""

    kind: int
    stream: int
    data: bytes = b""

    def pack(self) -> bytes:
        return _HEAD.pack(self.kind, self.stream) + self.data


def unpack(message: bytes) -> Frame:
    """ValueError where it is no frame."""
    if len(message) < _HEAD.size or message[0] not in (OPEN, DATA, END, CLOSE, CREDIT):
        raise ValueError(f"no frame of a tunnel: {message[:20]!r}")
    kind, stream = _HEAD.unpack_from(message)
    return Frame(kind, stream, message[_HEAD.size :])


class LinkStream:
    """One end of a stream."""

    def __init__(self, number: int, send: Send) -> None:
        self.number = number
        self._send = send
        self._chunks: deque[bytes] = deque()
        self._owed = 0
        """Bytes that were read here and are not yet credited to the other side."""
        self._open = WINDOW_BYTES
        """Bytes that the other side may still send."""
        self._credit = WINDOW_BYTES
        """Bytes that this side may still send."""
        self._ended = False
        self._broken = False
        self.closed = False
        """This side has closed it."""
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    async def read(self, max_bytes: int = CHUNK_BYTES) -> bytes:
        """The next bytes; empty: the other side has ended its own."""
        await self._readable.wait()
        if not self._chunks:
            if not self._ended:
                raise ConnectionResetError(RESET)
            return b""
        data = self._chunks.popleft()
        if len(data) > max_bytes:
            self._chunks.appendleft(data[max_bytes:])
            data = data[:max_bytes]
        if not (self._chunks or self._ended or self._broken):
            self._readable.clear()
        self._owed += len(data)
        if self._owed >= WINDOW_BYTES // 2 and not self._broken:
            owed, self._owed = self._owed, 0
            self._open += owed
            await self._send(Frame(CREDIT, self.number, _COUNT.pack(owed)).pack())
        return data

    async def write(self, data: bytes) -> None:
        """Send all of it; waits for the other side to read."""
        rest = memoryview(data)
        while rest:
            await self._writable.wait()
            if self._broken or self.closed:
                raise ConnectionResetError(RESET)
            size = min(len(rest), CHUNK_BYTES, self._credit)
            self._credit -= size
            if not self._credit:
                self._writable.clear()
            await self._send(Frame(DATA, self.number, bytes(rest[:size])).pack())
            rest = rest[size:]

    async def finish(self) -> None:
        """Say that no more is written."""
        if not (self._broken or self.closed):
            await self._send(Frame(END, self.number).pack())

    async def close(self) -> None:
        """Neither read nor write any more; idempotent."""
        if self.closed:
            return
        lost = self._broken
        self.reset()
        self.closed = True
        if not lost:
            await self._send(Frame(CLOSE, self.number).pack())

    def reset(self) -> None:
        """The other side has closed, or the link is lost: what has come can still be read."""
        self._broken = True
        self._readable.set()
        self._writable.set()

    def take(self, frame: Frame) -> None:
        """What the other side has sent; ValueError where it breaks the law."""
        if frame.kind == DATA:
            if len(frame.data) > self._open:
                raise ValueError(f"stream {frame.stream} holds more than its window")
            self._open -= len(frame.data)
            self._chunks.append(frame.data)
            self._readable.set()
        elif frame.kind == END:
            self._ended = True
            self._readable.set()
        elif frame.kind == CLOSE:
            self.reset()
        elif frame.kind == CREDIT:
            self._credit += _COUNT.unpack(frame.data)[0]
            self._writable.set()
