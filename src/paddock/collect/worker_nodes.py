"""What workers are started on: this machine, or the nodes of a Ray cluster; and their places there.

Here     all workers are there before anything is done, and no other comes.
Cluster  as many as its nodes have CPUs for (`cluster_places`): the first is waited for; others start then, or later.
Law      workers end with the block of their places, and what they started with them.
Errors   those of a start; of a cluster: of `ray_worker`.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import NamedTuple, Protocol

from paddock.collect.cluster_places import ClusterPlaces, patient
from paddock.collect.ray_worker import connect, count_places
from paddock.collect.worker_process import LinkedPlace, OpenLink, ProcessLink, close_all, start_all
from paddock.linux import batch_scheduling


class ClusterSettings(Protocol):
    """Which cluster, and which of its nodes; how long they are waited for. See `EvalSettings`."""

    @property
    def cluster(self) -> str | None: ...

    @property
    def cluster_label(self) -> str | None: ...

    @property
    def cluster_look_s(self) -> float: ...

    @property
    def cluster_wait_s(self) -> float: ...


class OpenPlaces(NamedTuple):
    """The places of some workers."""

    places: Sequence[LinkedPlace]
    later: AsyncIterator[LinkedPlace] | None = None
    """Those that are added; they are in `places`, too. None: there are none."""


class WorkerNodes(NamedTuple):
    """What workers are started on."""

    settings: ClusterSettings
    open_link: OpenLink = ProcessLink.open
    host: str | None = None
    """The address at which workers of other machines reach this one; None: there are none."""

    @asynccontextmanager
    async def open_places(self, make: Callable[[int], LinkedPlace], most: int) -> AsyncIterator[OpenPlaces]:
        """So many workers here; on a cluster as many of them as it has room for. `make`: a place by its number."""
        if self.host is None:
            here = [make(nth) for nth in range(most)]
            try:
                await start_all(here)
                with batch_scheduling():
                    yield OpenPlaces(here)
            finally:
                await close_all(here)
            return
        settings = self.settings
        there = ClusterPlaces(
            make,
            partial(count_places, settings.cluster_label),
            most=most,
            look_s=settings.cluster_look_s,
            wait_s=settings.cluster_wait_s,
        )
        try:
            await there.open()
            yield OpenPlaces(there.places, there.later())
        finally:
            await close_all(there.places)


@contextmanager
def connect_nodes(settings: ClusterSettings) -> Iterator[WorkerNodes]:
    """This machine; or a cluster, which is connected to for the block."""
    if settings.cluster is None:
        yield WorkerNodes(settings)
        return
    label, wait_s = settings.cluster_label, settings.cluster_wait_s
    with connect(settings.cluster, label=label, place_wait_s=wait_s) as (host, open_link):
        yield WorkerNodes(settings, patient(open_link), host)
