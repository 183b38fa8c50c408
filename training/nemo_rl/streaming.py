"""The results of one call, as they come: a synchronous iterator of awaitables, as NeMo-Gym's `run_examples` gives.

Law     each awaitable gives the next result that is there, in the order of completion; there is one for each row.
        What nobody waits for any more is ended: when an awaitable is cancelled, when one raises, when `cancel` is
        called, and when the iterator and all its awaitables were let go of.
Errors  `StatusError`, as NeMo-RL reads failures: an int `status` (500 and more, 408, 429: infrastructure), and bytes.
"""

import asyncio
import weakref
from collections.abc import Generator, Iterator, Sequence
from typing import Any, NamedTuple, Self

import orjson

from paddock.errors import PaddockError
from paddock.training.nemo_rl.records import Result
from paddock.types import JsonObject


class StatusError(Exception):
    """An error of ours in the form of a failed request; it can be pickled."""

    def __init__(self, message: str, status: int, response_content: bytes) -> None:
        super().__init__(message, status, response_content)
        self.status = status
        self.response_content = response_content

    def __str__(self) -> str:
        return str(self.args[0])

    @classmethod
    def of(cls, error: PaddockError) -> Self:
        return cls(f"{error.kind}: {error.message}", error.status, orjson.dumps(error.to_wire()))


class Done(NamedTuple):
    row: JsonObject
    """The caller's own."""
    result: Result


class Stream(Iterator["Next"]):
    """Made in a running loop."""

    def __init__(self, rows: Sequence[JsonObject], work: "Sequence[asyncio.Future[Result]]") -> None:
        self._rows = {id(future): row for row, future in zip(rows, work, strict=True)}
        self._work = list(work)
        self._given = 0
        self._done: asyncio.Queue[asyncio.Future[Result]] = asyncio.Queue()
        for future in self._work:
            future.add_done_callback(self._done.put_nowait)
        weakref.finalize(self, _cancel_from_anywhere, asyncio.get_running_loop(), self._work).atexit = False

    def __len__(self) -> int:
        return len(self._work)

    def __next__(self) -> "Next":
        if self._given == len(self._work):
            raise StopIteration
        self._given += 1
        return Next(self)

    def cancel(self) -> None:
        _cancel(self._work)

    async def next_done(self) -> Done:
        try:
            future = await self._done.get()
            return Done(self._rows[id(future)], future.result())
        except PaddockError as error:
            self.cancel()
            raise StatusError.of(error) from error
        except BaseException:
            self.cancel()
            raise


class Next:
    """Awaited once; nothing happens to one that never is."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __await__(self) -> Generator[Any, None, Done]:
        return self._stream.next_done().__await__()


def _cancel(work: "Sequence[asyncio.Future[Result]]") -> None:
    for future in work:
        future.cancel()


def _cancel_from_anywhere(loop: asyncio.AbstractEventLoop, work: "Sequence[asyncio.Future[Result]]") -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(_cancel, work)
