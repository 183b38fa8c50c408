"""A pool of worker processes for jobs that come one by one: each job goes to the worker that has the fewest.

Order   that in which jobs ask for room, of which one may need several at one worker: those behind it wait.
Loss    of a worker ends its jobs with `WorkerLostError`, and it is replaced, later each time, up to a number of times.
Errors  InfraError `workers_lost` when no worker is left.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from paddock.collect.restarts import employ_all
from paddock.collect.shares import FirstStarts, has_room
from paddock.collect.worker_nodes import OpenPlaces
from paddock.collect.worker_process import LinkedWorker
from paddock.errors import InfraError

Attend = Callable[[LinkedWorker], Awaitable[None]]


class PooledWorker:
    """A worker, and how many jobs it has."""

    def __init__(self, worker: LinkedWorker) -> None:
        self.worker = worker
        self.n_running = 0

    @property
    def slots(self) -> int:
        return self.worker.slots


class _RoomRequest(NamedTuple):
    room: int
    given: asyncio.Future[PooledWorker]


class WorkerPool:
    """The workers that are there, and who waits for them."""

    def __init__(
        self, at_once: int | None, *, max_restarts: int, restart_wait_s: float, attend: Attend | None = None
    ) -> None:
        """`at_once`: jobs that all share; None: one by each worker. `attend`: runs beside each worker, from before its
        first job, and is cancelled when it is lost."""
        self.gone: InfraError | None = None
        """Why no job is run any more."""
        self._at_once = at_once
        self._max_restarts = max_restarts
        self._restart_wait_s = restart_wait_s
        self._attend = attend
        self._loads: list[PooledWorker] = []
        self._waiting: deque[_RoomRequest] = deque()
        self._first_starts = FirstStarts(self._dispatch)

    async def take(self, room: int = 1) -> PooledWorker:
        """The worker with room for so many jobs, when those that asked before have theirs. Each has to be given
        back."""
        if self.gone is not None:
            raise self.gone
        waiter = _RoomRequest(room, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        self._dispatch()
        try:
            return await waiter.given
        except asyncio.CancelledError:
            if waiter.given.done() and not waiter.given.cancelled() and waiter.given.exception() is None:
                self.give_back(waiter.given.result(), room)
            self._dispatch()
            raise

    def give_back(self, load: PooledWorker, room: int = 1) -> None:
        """So many jobs of a worker have ended."""
        load.n_running -= room
        self._dispatch()

    async def keep(self, opened: OpenPlaces) -> None:
        """Employ the workers, until none is left."""
        try:
            self.gone = await employ_all(
                opened.places,
                opened.later,
                self._employ,
                first_starts=self._first_starts,
                max_restarts=self._max_restarts,
                first_wait_s=self._restart_wait_s,
            )
        except InfraError as error:
            self.gone = error
        for waiter in self._waiting:
            if not waiter.given.done():
                waiter.given.set_exception(self.gone)

    async def _employ(self, worker: LinkedWorker) -> str:
        attending = asyncio.ensure_future(self._attend(worker)) if self._attend is not None else None
        load = PooledWorker(worker)
        self._loads.append(load)
        self._dispatch()
        try:
            return await asyncio.shield(worker.lost)
        finally:
            self._loads.remove(load)
            self._dispatch()
            if attending is not None:
                attending.cancel()
                await asyncio.wait([attending])

    def _dispatch(self) -> None:
        while self._waiting:
            room, given = self._waiting[0]
            if not given.done():  # whoever waited was cancelled
                load = self._with_room(room)
                if load is None:
                    return
                load.n_running += room
                given.set_result(load)
            self._waiting.popleft()

    def _with_room(self, room: int) -> PooledWorker | None:
        at_once = self._at_once or len(self._loads)
        fit = [
            load
            for load in self._loads
            if not load.worker.lost.done() and has_room(load, self._loads, len(self._first_starts), at_once, room)
        ]
        return min(fit, key=lambda load: load.n_running, default=None)
