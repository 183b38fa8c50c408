"""Server-sent events: reading them from chunks of bytes, writing one.

Source  HTML standard, "Server-sent events": lines end in LF, CRLF or CR; `data` lines of one event are joined by LF;
        lines that begin with a colon are comments.
Bounds  one event is at most `MAX_EVENT_BYTES` long.
Errors  UnreadableError for a longer one.
"""

from collections.abc import Iterator
from typing import NamedTuple

import orjson

from paddock.server.dialects.failures import UnreadableError
from paddock.types import JsonObject

MAX_EVENT_BYTES = 64 << 20


class Event(NamedTuple):
    """One event."""

    name: str
    """The `event:` line; empty: there was none."""
    data: bytes


class EventReader:
    """Reads events from chunks that may break anywhere. An event that no blank line ended is no event."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        """Pieces of the line that has not ended."""
        self._size = 0
        self._name = ""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[Event]:
        self._rest.append(chunk)
        if b"\n" not in chunk and b"\r" not in chunk and not self._rest[0].endswith(b"\r"):
            self._grow(len(chunk))
            return
        data = b"".join(self._rest)
        # A CR at the very end may be half of a CRLF.
        pending = b"\r" if data.endswith(b"\r") else b""
        lines = data[: len(data) - len(pending)].replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = [lines.pop() + pending]
        self._grow(len(chunk))
        for line in lines:
            event = self._line(line)
            if event is not None:
                yield event

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > MAX_EVENT_BYTES:
            raise UnreadableError(f"an event is longer than {MAX_EVENT_BYTES} bytes")

    def _line(self, line: bytes) -> Event | None:
        if not line:
            event = Event(self._name, b"\n".join(self._data)) if self._data else None
            self._name, self._data, self._size = "", [], 0
            return event
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value.decode(errors="replace")
        return None


def named_event(data: JsonObject) -> bytes:
    """An event whose `event:` line is the data's `type`."""
    return b"event: %s\ndata: %s\n\n" % (data["type"].encode(), orjson.dumps(data))


def plain_event(data: bytes) -> bytes:
    return b"data: %s\n\n" % data
