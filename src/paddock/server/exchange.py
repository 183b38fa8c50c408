"""One call of an engine, and the clients that read its answer: one or several, each from the start.

Law     the engine is asked once, however many clients ask the same at once, or again while the answer is being made. A
        client that goes away does not end the call: its retry finds it. Without any reader for `grace_s` seconds it is
        given up, whole or not; what nobody was told is not recorded.
Errors  the engine's, to every reader. Cancelling a reader cancels nothing else.
"""

import asyncio
import weakref
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

from paddock.errors import BugError, InfraError
from paddock.server.dialects import Answer, Part

Batch = list[Part]
"""Parts that came together; the answer is the last part of the last batch."""


class Exchange:
    """One call of an engine, which begins at once. To be made inside a running event loop."""

    def __init__(self, source: AsyncGenerator[Batch, None], *, grace_s: float, on_end: Callable[[], None]) -> None:
        """`on_end` is called once, when no reader can be added any more."""
        self.answer: Answer | None = None
        """The answer, once it is whole."""
        self.batches: list[Batch] = []
        """The batches that have come."""
        self.error: Exception | None = None
        """Why it failed, once it has."""
        self._grace_s = grace_s
        self._on_end: Callable[[], None] | None = on_end
        self._readers = 0
        self._news = asyncio.Event()
        """Set by the next batch, or the end."""
        self._grace_timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._pump(source))

    def add_reader(self) -> "AnswerReader":
        self._readers += 1
        if self._grace_timer is not None:
            self._grace_timer.cancel()
            self._grace_timer = None
        reader = AnswerReader(self)
        reader.unclosed = weakref.finalize(reader, self.remove_collected_reader)
        return reader

    def close(self, error: Exception | None = None) -> None:
        """Take no more readers; without its answer it is cancelled, and its readers get `error`. A second time changes
        nothing."""
        if self._grace_timer is not None:
            self._grace_timer.cancel()
            self._grace_timer = None
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()
        if self.answer is None and self.error is None:
            self._task.cancel()
            self.error = error or _abandoned_error()  # here: a task that has not begun would never do it
            self._wake_readers()

    async def wait_for_batch(self, limit_s: float | None = None) -> bool:
        """Wait for another batch, or the end; False: `limit_s` seconds were over before."""
        try:
            async with asyncio.timeout(limit_s):
                return await self._news.wait()
        except TimeoutError:
            return False

    def remove_reader(self) -> None:
        """Count a reader that has gone; without any, give up after `grace_s` seconds."""
        self._readers -= 1
        if self._readers or self._on_end is None:
            return
        if self._grace_s <= 0:
            self.close()
        else:
            self._grace_timer = self._loop.call_later(self._grace_s, self.close)

    def remove_collected_reader(self) -> None:
        """The same for a reader that was not closed, in whatever thread it was collected."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.remove_reader)

    async def _pump(self, source: AsyncGenerator[Batch, None]) -> None:
        try:
            async for batch in source:
                if batch and isinstance(batch[-1], Answer):
                    self.answer = batch[-1]
                self.batches.append(batch)
                self._wake_readers()
                await asyncio.sleep(0)  # what has come is passed on before more is waited for
            if self.answer is None:
                raise BugError("an engine's parts ended without an answer", kind="no_answer")
        except asyncio.CancelledError:
            if self.error is None:
                self._fail(_abandoned_error())
        except Exception as error:  # noqa: BLE001 - it is the readers' to raise
            self._fail(error)
        finally:
            await source.aclose()

    def _fail(self, error: Exception) -> None:
        self.error = error
        self._wake_readers()
        self.close()

    def _wake_readers(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


@dataclass(eq=False)
class AnswerReader:
    """Reads the answer for one client. To be closed; one that is collected closes itself. Its methods raise what the
    engine raised."""

    exchange: Exchange
    n_read: int = 0
    """How many batches were read."""
    unclosed: "weakref.finalize[..., AnswerReader]" = field(init=False)
    """Closes it when it is collected."""

    async def wait_for_first(self, limit_s: float) -> bool:
        """Wait for the first batch; False: `limit_s` seconds were over before."""
        exchange = self.exchange
        if not exchange.batches and exchange.error is None:
            await exchange.wait_for_batch(limit_s)
        if not exchange.batches and exchange.error is not None:
            raise exchange.error
        return bool(exchange.batches)

    async def whole(self) -> Answer:
        exchange = self.exchange
        while exchange.answer is None:
            if exchange.error is not None:
                raise exchange.error
            await exchange.wait_for_batch()
        return exchange.answer

    async def batch(self, keepalive_s: float) -> Batch | None:
        """The next batch, from the first on; an empty one after `keepalive_s` seconds without any; None at the end."""
        exchange = self.exchange
        while self.n_read == len(exchange.batches):
            if exchange.error is not None:
                raise exchange.error
            if exchange.answer is not None:
                return None
            if not await exchange.wait_for_batch(keepalive_s):
                return []
        self.n_read += 1
        return exchange.batches[self.n_read - 1]

    def close(self) -> None:
        if self.unclosed.detach() is not None:
            self.exchange.remove_reader()


def _abandoned_error() -> InfraError:
    return InfraError("the call was given up: its rollout is over, or the server stops", kind="given_up")
