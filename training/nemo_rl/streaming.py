"""The results of one call, as they come: a synchronous iterator of awaitables, as NeMo-Gym's `run_examples` gives.

Law     each awaitable gives the next result that is there, in the order of completion; there is one for each row.
        Rollouts without a waiting caller are ended: when an awaitable is cancelled, when one raises, when `cancel`
        is called, and when the iterator and all its awaitables were deleted.
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


class RowResult(NamedTuple):
    """The result of one row."""

    row: JsonObject
    """The caller's own object."""
    result: Result


class ResultStream(Iterator["PendingResult"]):
    """The results of one call. To be made in a running loop."""

    def __init__(self, rows: Sequence[JsonObject], futures: "Sequence[asyncio.Future[Result]]") -> None:
        self._rows = {id(future): row for row, future in zip(rows, futures, strict=True)}
        self._futures = list(futures)
        self._n_given = 0
        self._done: asyncio.Queue[asyncio.Future[Result]] = asyncio.Queue()
        for future in self._futures:
            future.add_done_callback(self._done.put_nowait)
        weakref.finalize(self, _cancel_from_anywhere, asyncio.get_running_loop(), self._futures).atexit = False

    def __len__(self) -> int:
        return len(self._futures)

    def __next__(self) -> "PendingResult":
        if self._n_given == len(self._futures):
            raise StopIteration
        self._n_given += 1
        return PendingResult(self)

    def cancel(self) -> None:
        _cancel(self._futures)

    async def next_done(self) -> RowResult:
        try:
            future = await self._done.get()
            return RowResult(self._rows[id(future)], future.result())
        except PaddockError as error:
            self.cancel()
            raise StatusError.of(error) from error
        except BaseException:
            self.cancel()
            raise


class PendingResult:
    """The next result that is there; to be awaited at most once."""

    def __init__(self, stream: ResultStream) -> None:
        self._stream = stream

    def __await__(self) -> Generator[Any, None, RowResult]:
        return self._stream.next_done().__await__()


def _cancel(futures: "Sequence[asyncio.Future[Result]]") -> None:
    for future in futures:
        future.cancel()


def _cancel_from_anywhere(loop: asyncio.AbstractEventLoop, futures: "Sequence[asyncio.Future[Result]]") -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(_cancel, futures)
