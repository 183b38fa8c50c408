"""Even shares of what all workers together have in flight.

Law     each worker has a share, and so has each place that waits for its first one, for `START_S` at most: who is there
        first does not take all. A place that has lost its worker has none until another one is there.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

WorkerT = TypeVar("WorkerT")
START_S = 30.0
"""Seconds that a share is kept for a worker that starts, most of which take a few: others do its work after that."""


class Load(Protocol):
    """What a worker has in flight."""

    n_running: int

    @property
    def slots(self) -> int:
        """How many it may have."""
        ...


def has_room(load: Load, loads: Sequence[Load], n_starting: int, at_once: int, room: int = 1) -> bool:
    """Whether the worker of a load may be given `room` more, where those of all `loads`, and so many that start, have
    `at_once`. One that joins gets its share as what the others run ends; what has to be at one worker may pass it."""
    share = max(room, -(-at_once // (len(loads) + n_starting)))
    n_running = sum(other.n_running for other in loads)
    return load.n_running + room <= min(load.slots, share) and n_running + room <= at_once


class FirstStarts:
    """The places that wait for their first worker and have a share meanwhile."""

    def __init__(self, on_end: Callable[[], None], *, start_s: float = START_S) -> None:
        """`on_end`: called where a place waits no longer: its worker is there, or its share is given to the others."""
        self._on_end = on_end
        self._start_s = start_s
        self._starting: set[object] = set()

    def __len__(self) -> int:
        return len(self._starting)

    def watch(self, start: Callable[[], Awaitable[WorkerT]]) -> Callable[[], Awaitable[WorkerT]]:
        """`start` of a place, which has a share from here on until the first call of it ends, however it does."""
        place = object()
        self._starting.add(place)
        timer = asyncio.get_running_loop().call_later(self._start_s, self._end, place)

        async def watched() -> WorkerT:
            try:
                return await start()
            finally:
                timer.cancel()
                self._end(place)

        return watched

    def _end(self, place: object) -> None:
        if place in self._starting:
            self._starting.remove(place)
            self._on_end()
