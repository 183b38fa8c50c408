"""Places of workers on a cluster: as many as its nodes have CPUs for, more when nodes join.

Law     a place is there from when there was a CPU for it; while there is none, because its node went or others use it,
        its worker waits for one, as long as it takes.
Errors  InfraError `workers_lost` when no worker has a place for `wait_s`.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable

from paddock.collect.jobs import WorkerSetup
from paddock.collect.ray_worker import NO_PLACE, RAY_START
from paddock.collect.restarts import WORKERS_LOST
from paddock.collect.worker_process import CHILD_DIED, LinkedPlace, OpenLink, WorkerLink
from paddock.errors import InfraError

_OF_LOST_NODES = frozenset({RAY_START, CHILD_DIED, NO_PLACE})
"""Kinds of failures of a start: Ray goes on placing workers on a node that has died until it notices."""
_log = logging.getLogger("paddock.collect")


class ClusterPlaces:
    """The places of one collection."""

    def __init__(
        self,
        make: Callable[[int], LinkedPlace],
        count: Callable[[], int],
        *,
        most: int,
        look_s: float,
        wait_s: float,
    ) -> None:
        """`make`: a place by its number; `count`: how many the nodes have room for that are there."""
        self.places: list[LinkedPlace] = []
        self._make = make
        self._count = count
        self._most = most
        self._look_s = look_s
        self._wait_s = wait_s

    async def open(self) -> None:
        """Start the first worker: it tells what is wrong with all. The others that there is room for are places after
        that. Errors are those of a start, and `no_place`; one that a lost node may have caused counts when `wait_s` is
        over."""
        place, deadline = self._add(), time.monotonic() + self._wait_s
        while True:
            try:
                await place.worker()
                break
            except InfraError as error:
                if error.kind not in _OF_LOST_NODES or time.monotonic() > deadline:
                    raise
                _log.warning("%s; it is started again", error)
            await asyncio.sleep(self._look_s)
        for _ in range(await self._n_free()):
            self._add()

    async def later(self) -> AsyncIterator[LinkedPlace]:
        """Those that there is room for later."""
        seen_s = time.monotonic()
        while True:
            for _ in range(await self._n_free()):
                yield self._add()
            if any(place.is_taken for place in self.places):
                seen_s = time.monotonic()
            if time.monotonic() - seen_s > self._wait_s:
                text = f"no worker had a place on the cluster for {self._wait_s:g} s (eval.cluster_wait_s)"
                raise InfraError(text, kind=WORKERS_LOST, retryable=False)
            await asyncio.sleep(self._look_s)

    async def _n_free(self) -> int:
        """For how many more there is room."""
        return min(await asyncio.to_thread(self._count), self._most) - len(self.places)

    def _add(self) -> LinkedPlace:
        self.places.append(self._make(len(self.places)))
        return self.places[-1]


def patient(open_link: OpenLink) -> OpenLink:
    """`open_link` that goes on asking where there is no place for a worker, once there was one for any."""
    opened = False

    async def open_patiently(name: str, setup: WorkerSetup) -> WorkerLink:
        nonlocal opened
        while True:
            try:
                link = await open_link(name, setup)
                opened = True
                return link
            except InfraError as error:
                if error.kind != NO_PLACE or not opened:
                    raise

    return open_patiently
