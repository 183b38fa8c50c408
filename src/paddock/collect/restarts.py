"""Restarts of workers: where one is lost another one is started, later each time, up to a number of times."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from paddock.errors import PaddockError
from paddock.processes import restart_wait_s

WorkerT = TypeVar("WorkerT")
WORKERS_LOST = "workers_lost"
"""Kind of the error that says that no worker is left."""
_log = logging.getLogger("paddock.collect")


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
