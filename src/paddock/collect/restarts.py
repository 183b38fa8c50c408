"""Restarts of workers: where one is lost another one is started, later each time, up to a number of times."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

from paddock.collect.shares import FirstStarts
from paddock.errors import InfraError, PaddockError
from paddock.processes import restart_wait_s

WorkerT = TypeVar("WorkerT")
WorkerT_co = TypeVar("WorkerT_co", covariant=True)
WORKERS_LOST = "workers_lost"
"""Kind of the error that says that no worker is left."""
_log = logging.getLogger("paddock.collect")


class WorkerSource(Protocol[WorkerT_co]):
    """Where one worker is, and another one in its stead when it is lost."""

    async def worker(self) -> WorkerT_co:
        """The worker that is there; a new one where the last was lost. Errors are those of its start."""
        ...


async def employ_all(
    places: Sequence[WorkerSource[WorkerT]],
    later: AsyncIterator[WorkerSource[WorkerT]] | None,
    employ: Callable[[WorkerT], Awaitable[str]],
    *,
    first_starts: FirstStarts,
    max_restarts: int,
    first_wait_s: float,
) -> InfraError:
    """Employ the worker of each place, with its restarts; returns the error that no worker is left, when that is so.

    later           places that come while this runs; their errors are raised.
    first_starts    is told of each place.
    Cancelled: what employs them is cancelled.
    """

    def keep(place: WorkerSource[WorkerT]) -> asyncio.Task[str]:
        start = first_starts.watch(place.worker)
        kept = employ_with_restarts(start, employ, max_restarts=max_restarts, first_wait_s=first_wait_s)
        return asyncio.create_task(kept)

    keepers = {keep(place) for place in places}
    next_place = asyncio.create_task(_next(later))
    whys: list[str] = []
    try:
        while keepers:
            await asyncio.wait({next_place, *keepers}, return_when=asyncio.FIRST_COMPLETED)
            if next_place.done():
                keepers.add(keep(next_place.result()))
                next_place = asyncio.create_task(_next(later))
            ended = {keeper for keeper in keepers if keeper.done()}
            whys += [keeper.result() for keeper in ended]
            keepers -= ended
    finally:
        tasks: list[asyncio.Future[Any]] = [next_place, *keepers]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    causes = "; ".join(dict.fromkeys(whys))
    return InfraError(f"no worker is left: the last {causes}", kind=WORKERS_LOST, retryable=False)


async def employ_with_restarts(
    start: Callable[[], Awaitable[WorkerT]],
    employ: Callable[[WorkerT], Awaitable[str]],
    *,
    max_restarts: int,
    first_wait_s: float,
) -> str:
    """Employ workers, one after another; returns how the last one ended, when no other is started.

    start           gives the worker that is there, or a new one; PaddockError: none starts.
    employ          returns when the worker is lost: how it ended, in words.
    first_wait_s    seconds before the first restart.
    """
    why = ""
    for nth in range(max_restarts + 1):
        if nth:
            wait_s = restart_wait_s(nth, first_wait_s)
            _log.warning("a worker %s; restart %d of %d in %.1f s", why, nth, max_restarts, wait_s)
            await asyncio.sleep(wait_s)
        try:
            worker = await start()
        except PaddockError as error:
            why = f"did not start: {error}"
        else:
            why = await employ(worker)
    return f"{why}, and was restarted {max_restarts} times already"


async def _next(later: AsyncIterator[WorkerSource[WorkerT]] | None) -> WorkerSource[WorkerT]:
    """The next place; this does not return where none comes."""
    if later is not None:
        async for place in later:
            return place
    await asyncio.Future()
    raise AssertionError("nothing sets it")
