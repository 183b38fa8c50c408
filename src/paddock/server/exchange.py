"""One call of an engine, and the clients that read its answer: one or several, each from the start.

Law     the engine is asked once, however many clients ask the same at once, or again while the answer is being made. A
        client that goes away does not end the call: its retry finds it. Without any reader for `grace_s` seconds it is
        given up, whole or not; what nobody was told is not recorded.
Errors  the engine's, to every reader. Cancelling a reader cancels nothing else.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from paddock.errors import BugError, InfraError
from paddock.server.dialects import Answer, Part

Batch = list[Part]
"""Parts that came together; the answer is the last part of the last batch."""


class Exchange:
    """Asks at once. To be made inside a running event loop."""

    def __init__(self, source: AsyncGenerator[Batch, None], *, grace_s: float, on_end: Callable[[], None]) -> None:
        """`on_end`: called once, when nobody can join it any more."""
        self.answer: Answer | None = None
        """Once it is whole."""
        self.failed = False
        self._batches: list[Batch] = []
        self._error: BaseException | None = None
        self._grace_s = grace_s
        self._on_end: Callable[[], None] | None = on_end
        self._readers = 0
        self._news = asyncio.Event()
        self._orphaned: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._pump(source))

    def join(self) -> "Reader":
        self._readers += 1
        if self._orphaned is not None:
            self._orphaned.cancel()
            self._orphaned = None
        return Reader(self)

    def close(self, error: Exception | None = None) -> None:
        """Nobody joins it any more; one without its answer is cancelled, and its readers get `error`. Again: nothing
        happens."""
        if self._orphaned is not None:
            self._orphaned.cancel()
            self._orphaned = None
        self._end()
        if self.answer is None and not self.failed:
            self._task.cancel()
            self._fail(error or _given_up())  # here: a task that has not begun would not come to tell it

    async def read(self, beat_s: float | None) -> AsyncGenerator[Batch, None]:
        """All batches, from the first; an empty one after each `beat_s` seconds without any."""
        nth = 0
        while True:
            while nth < len(self._batches):
                nth += 1
                yield self._batches[nth - 1]
            if self._error is not None:
                raise self._error
            if self.answer is not None:
                return
            if beat_s is None:
                await self._news.wait()
                continue
            try:
                async with asyncio.timeout(beat_s):
                    await self._news.wait()
            except TimeoutError:
                yield []

    def left(self) -> None:
        """A reader has gone."""
        self._readers -= 1
        if self._readers or self._on_end is None:
            return
        if self._grace_s <= 0:
            self.close()
        else:
            self._orphaned = self._loop.call_later(self._grace_s, self.close)

    def forgotten(self) -> None:
        """A reader has gone, in whatever thread it was collected."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.left)

    async def _pump(self, source: AsyncGenerator[Batch, None]) -> None:
        try:
            async for batch in source:
                if batch and isinstance(batch[-1], Answer):
                    self.answer = batch[-1]
                self._batches.append(batch)
                self._tell()
            if self.answer is None:
                raise BugError("an engine's parts ended without an answer", kind="no_answer")
        except asyncio.CancelledError:
            if not self.failed:
                self._fail(_given_up())
        except Exception as error:  # noqa: BLE001 - it is the readers' to raise
            self._fail(error)
        finally:
            await source.aclose()

    def _fail(self, error: Exception) -> None:
        self._error = error
        self.failed = True
        self._tell()
        self._end()

    def _end(self) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


class Reader:
    """One client's. To be closed; one that is forgotten closes itself."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange: Exchange | None = exchange

    def __del__(self) -> None:
        if self._exchange is not None:
            self._exchange.forgotten()

    async def begun(self, limit_s: float) -> None:
        """Wait for the first batch, but no longer; raises what the engine raised before it."""
        async with aclosing(self.batches(beat_s=limit_s)) as batches:
            await anext(batches)

    async def whole(self) -> Answer:
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                if batch and isinstance(batch[-1], Answer):
                    return batch[-1]
        raise BugError("an engine's parts ended without an answer", kind="no_answer")

    def batches(self, *, beat_s: float | None = None) -> AsyncGenerator[Batch, None]:
        """See `Exchange.read`."""
        if self._exchange is None:
            raise BugError("this reader was closed", kind="closed")
        return self._exchange.read(beat_s)

    def close(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.left()


def _given_up() -> InfraError:
    return InfraError("the call was given up: its rollout is over, or the server stops", kind="given_up")
