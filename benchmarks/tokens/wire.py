"""A client over one connection: whole answers and streams, each chunk with its age at arrival. Raw asyncio."""

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple, Self
from urllib.parse import urlsplit

import orjson

from benchmarks.raw_http import message
from benchmarks.tokens.stamps import age_ms
from paddock.types import JsonObject

ReadIds = Callable[[JsonObject], list[int]]
"""Reads the token ids from an event's data; there may be none."""


class WireAnswer(NamedTuple):
    ms: float
    """Milliseconds of the whole call; of a stream, to the arrival of its first ids. Parsing is left out."""
    body: JsonObject
    """The whole answer; of a stream, as its last event tells it."""
    ages_ms: list[float]
    """Milliseconds since the upstream sent each chunk of a stream but the first."""


class Wire:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, url: str) -> Self:
        parts = urlsplit(url)
        return cls(*await asyncio.open_connection(parts.hostname, parts.port, limit=1 << 24))

    def close(self) -> None:
        self._writer.close()

    async def whole(self, url: str, body: JsonObject) -> WireAnswer:
        request = message(url, orjson.dumps(body))
        started = time.perf_counter()
        head = await self._ask(request)
        start = head.index(b"content-length:") + len(b"content-length:")
        data = await self._reader.readexactly(int(head[start : head.index(b"\r\n", start)]))
        return WireAnswer((time.perf_counter() - started) * 1e3, orjson.loads(data), [])

    async def stream(self, url: str, body: JsonObject, read_ids: ReadIds) -> WireAnswer:
        request = message(url, orjson.dumps(body))
        started_ns, first_ms = time.monotonic_ns(), 0.0
        await self._ask(request)
        ages: list[float] = []
        last: JsonObject = {}
        rest = b""
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            rest += (await self._reader.readexactly(size + 2))[:-2]
            arrived_ns = time.monotonic_ns()
            *events, rest = rest.split(b"\n\n")
            for event in events:
                data = event.partition(b"data: ")[2]
                last = orjson.loads(data) if data.startswith(b"{") else last
                ids = read_ids(last) if data.startswith(b"{") else []
                if ids and first_ms:
                    ages.append(age_ms(ids, arrived_ns))
                elif ids:
                    first_ms = (arrived_ns - started_ns) / 1e6
        await self._reader.readexactly(2)
        return WireAnswer(first_ms, last.get("response", {}), ages)

    async def _ask(self, request: bytes) -> bytes:
        self._writer.write(request)
        await self._writer.drain()
        head = await self._reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"answer: {head!r} {await self._reader.read(2000)!r}")
        return head.lower()


def ids_of_response(event: JsonObject) -> list[int]:
    return list(map(int, event["delta"].split())) if event.get("type") == "response.output_text.delta" else []


def ids_of_generate(event: JsonObject) -> list[int]:
    ids: list[int] = event["choices"][0]["token_ids"]
    return ids
