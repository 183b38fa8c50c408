"""One streamed exchange with the endpoint, as batches of parts.

Law     the answer is the last part, and comes only when the stream was whole. Closing gives back the slot, and the
        connection if the stream had ended, else closes it. A stream that nobody reads is closed when its time is over.
Errors  those of `paddock.server.upstream_failures`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable

import aiohttp

from paddock.server.dialects import Answer, EventReader, Part
from paddock.server.dialects.chat_reader import ChatReader
from paddock.server.dialects.failures import UnreadableError
from paddock.server.dialects.responses_answers import ResponsesReader
from paddock.server.upstream_failures import upstream_errors

Reader = ChatReader | ResponsesReader
END_WAIT_S = 1.0
"""How long a connection is waited for to end after its last event, so that it can be used again."""


class Stream:
    """An open stream; `deadline` is the loop's time at which it is closed."""

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        reader: Reader,
        host: str,
        limit_s: float,
        deadline: float,
        release: Callable[[], None],
    ) -> None:
        self.host = host
        self.headers = response.headers
        self._response = response
        self._chunks = response.content.iter_any()
        self._reader = reader
        self._events = EventReader()
        self._limit_s = limit_s
        self._deadline = deadline
        self._release: Callable[[], None] | None = release
        self._first: list[Part] = []
        self._close_task: asyncio.Task[None] | None = None
        self._guard = asyncio.get_running_loop().call_at(deadline + END_WAIT_S, self._expire)

    async def begin(self) -> None:
        """Wait for the first parts."""
        if "text/event-stream" not in self.headers.get("content-type", ""):
            raise UnreadableError(f"a stream was asked for, `{self.headers.get('content-type')}` came")
        while not self._first:
            self._first = await self._next()

    async def batches(self) -> AsyncIterator[list[Part]]:
        """Parts as they come, those of one chunk together."""
        batch = self._first
        while True:
            yield batch
            if batch and isinstance(batch[-1], Answer):
                return
            with upstream_errors(self.host, self._limit_s):
                batch = await self._next()

    async def aclose(self) -> None:
        """Close it and give back its slot; a second time changes nothing."""
        release, self._release = self._release, None
        if release is None:
            return
        self._guard.cancel()
        try:
            if self._reader.complete:
                await self._drain()
        finally:
            release()
            self._response.close()

    async def _next(self) -> list[Part]:
        async with asyncio.timeout_at(self._deadline):
            chunk = await anext(self._chunks, None)
        if chunk is None:
            return list(self._reader.end())
        parts = [part for event in self._events.feed(chunk) for part in self._reader.read(event)]
        return [*parts, *self._reader.end()] if self._reader.complete else parts

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(END_WAIT_S):
                async for _ in self._chunks:
                    pass
        except (TimeoutError, aiohttp.ClientError):
            return  # the answer is whole; only the connection is lost

    def _expire(self) -> None:
        self._close_task = asyncio.get_running_loop().create_task(self.aclose())
