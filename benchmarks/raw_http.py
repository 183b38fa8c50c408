"""The client of floors: HTTP/1.1 over one keep-alive connection of raw asyncio, with no HTTP library in it.

A floor that had the measured side's own client would hide what that client costs.
Errors  RuntimeError for an answer that is not 200. Answers must carry Content-Length.
"""

import asyncio
from typing import Self
from urllib.parse import urlsplit

LIMIT_BYTES = 1 << 24


def message(url: str, body: bytes) -> bytes:
    """The bytes of a POST of JSON."""
    parts = urlsplit(url)
    head = (
        f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class RawConnection:
    """One connection; a request at a time."""

    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(
            self._parts.hostname, self._parts.port, limit=LIMIT_BYTES
        )
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._writer.close()

    async def post(self, url: str, body: bytes) -> bytes:
        """The answer's body."""
        return await self.exchange(message(url, body))

    async def exchange(self, request: bytes) -> bytes:
        """The body of the answer to a whole request."""
        self._writer.write(request)
        await self._writer.drain()
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        if not head.startswith(b"http/1.1 200"):
            status = head.split(b"\r\n", 1)[0]
            raise RuntimeError(f"answer: {status!r}")
        start = head.index(b"content-length:") + len(b"content-length:")
        return await self._reader.readexactly(int(head[start : head.index(b"\r\n", start)]))
