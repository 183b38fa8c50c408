"""One call of an engine, and the clients that read its answer: one or several, each from the start.

Law     the engine is asked once, however many clients ask the same at once, or again while the answer is being made. A
        client that goes away does not end the call: its retry finds it. Without any reader for `grace_s` seconds it is
        given up, whole or not; what nobody was told is not recorded.
Errors  the engine's, to every reader. Cancelling a reader cancels nothing else.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable

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
        self.batches: list[Batch] = []
        """Those that have come."""
        self.error: Exception | None = None
        """Once it has failed."""
        self._grace_s = grace_s
        self._on_end: Callable[[], None] | None = on_end
        self._readers = 0
        self._waiting: list[asyncio.Future[bool]] = []
        self._orphaned: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._pump(source))

    def join(self) -> "AnswerReader":
        self._readers += 1
        if self._orphaned is not None:
            self._orphaned.cancel()
            self._orphaned = None
        return AnswerReader(self)

    def close(self, error: Exception | None = None) -> None:
        """Nobody joins it any more; one without its answer is cancelled, and its readers get `error`. Again: nothing
        happens."""
        if self._orphaned is not None:
            self._orphaned.cancel()
            self._orphaned = None
        self._end()
        if self.answer is None and self.error is None:
            self._task.cancel()
            self._fail(error or _given_up())  # here: a task that has not begun would not come to tell it

    async def news(self, limit_s: float | None = None) -> bool:
        """Wait for another batch, or the end; False: `limit_s` seconds were over before."""
        waiting: asyncio.Future[bool] = self._loop.create_future()
        self._waiting.append(waiting)
        late = None if limit_s is None else self._loop.call_later(limit_s, _say, waiting)
        try:
            return await waiting
        finally:
            if late is not None:
                late.cancel()

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
                self.batches.append(batch)
                if self._tell():
                    await asyncio.sleep(0)  # what has come is passed on before more is waited for
            if self.answer is None:
                raise BugError("an engine's parts ended without an answer", kind="no_answer")
        except asyncio.CancelledError:
            if self.error is None:
                self._fail(_given_up())
        except Exception as error:  # noqa: BLE001 - it is the readers' to raise
            self._fail(error)
        finally:
            await source.aclose()

    def _fail(self, error: Exception) -> None:
        self.error = error
        self._tell()
        self._end()

    def _end(self) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()

    def _tell(self) -> bool:
        """Whether anybody waits."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            _say(each, news=True)
        return bool(waiting)


class AnswerReader:
    """One client's. To be closed; one that is forgotten closes itself. Its methods raise what the engine raised."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange: Exchange | None = exchange
        self._read = 0
        """Batches so far."""

    def __del__(self) -> None:
        if self._exchange is not None:
            self._exchange.forgotten()

    async def begun(self, limit_s: float) -> bool:
        """Wait for the first batch; False: `limit_s` seconds were over before."""
        exchange = self._open
        if not exchange.batches and exchange.error is None:
            await exchange.news(limit_s)
        if not exchange.batches and exchange.error is not None:
            raise exchange.error
        return bool(exchange.batches)

    async def whole(self) -> Answer:
        exchange = self._open
        while exchange.answer is None:
            if exchange.error is not None:
                raise exchange.error
            await exchange.news()
        return exchange.answer

    async def batch(self, beat_s: float) -> Batch | None:
        """The next one, from the first on; an empty one after `beat_s` seconds without any; None: that was all."""
        exchange = self._open
        while self._read == len(exchange.batches):
            if exchange.error is not None:
                raise exchange.error
            if exchange.answer is not None:
                return None
            if not await exchange.news(beat_s):
                return []
        self._read += 1
        return exchange.batches[self._read - 1]

    def close(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.left()

    @property
    def _open(self) -> Exchange:
        if self._exchange is None:
            raise BugError("this reader was closed", kind="closed")
        return self._exchange


def _say(waiting: "asyncio.Future[bool]", *, news: bool = False) -> None:
    if not waiting.done():
        waiting.set_result(news)


def _given_up() -> InfraError:
    return InfraError("the call was given up: its rollout is over, or the server stops", kind="given_up")
