"""Reads a stream as it comes: head and tail are kept, the middle is counted; the cost is linear in what is written."""

import asyncio
import os
from collections import deque

from paddock.sandbox.records import Output

CHUNK_BYTES = 1 << 16


class HeadTailBuffer:
    """Takes any number of bytes; keeps the first `head_bytes` and the last `tail_bytes` of them."""

    def __init__(self, head_bytes: int, tail_bytes: int) -> None:
        self._head_room = head_bytes
        self._tail_room = tail_bytes
        self._head: list[bytes] = []
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._dropped = 0

    def add(self, data: bytes) -> None:
        if self._head_room:
            self._head.append(data[: self._head_room])
            n_taken = len(self._head[-1])
            self._head_room -= n_taken
            data = data[n_taken:]
        if not data:
            return
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail and self._tail_size - len(self._tail[0]) >= self._tail_room:
            n_dropped = len(self._tail.popleft())
            self._tail_size -= n_dropped
            self._dropped += n_dropped

    def output(self) -> Output:
        tail = b"".join(self._tail)
        over = max(0, len(tail) - self._tail_room)
        return Output(head=b"".join(self._head), tail=tail[over:], dropped_bytes=self._dropped + over)


class OutputReader:
    """Reads a descriptor into a buffer until its end; owns the descriptor."""

    def __init__(self, fd: int, buffer: HeadTailBuffer) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._buffer = buffer
        self._loop = asyncio.get_running_loop()
        self.ended = asyncio.Event()
        self._loop.add_reader(fd, self._read)

    def drain(self) -> None:
        """Read what the descriptor has at this moment."""
        while not self.ended.is_set() and self._read():
            pass

    def close(self) -> None:
        if not self.ended.is_set():
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self.ended.set()

    def _read(self) -> bool:
        try:
            data = os.read(self._fd, CHUNK_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self.close()
            return False
        self._buffer.add(data)
        return True
