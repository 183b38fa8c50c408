"""What a node counts, as Prometheus reads it from `GET /metrics`.

Metrics paddock_node_calls_total{route, result}: calls of the provider's methods that ended, each once however often it
        was sent; result: `ok`; `full`, where there was no room; `file`, an error of a file inside; the owner of their
        error (`policy`, `row`, `infra`, `user`, `us`); or `cancelled`, where nobody waited any more.
        paddock_node_call_seconds{route}: seconds that they took.
        paddock_node_sandboxes, paddock_node_clients, paddock_node_waiting, paddock_node_draining: of this moment.
        paddock_node_free{part}: room that is granted to nobody, in the units of `part` (`memory_mib`, `cores`,
        `disk_mib`, `sandboxes`); a part that is not bounded is left out.
        Beside them the process's own: memory, CPU, open files.
Law     labels are routes' templates and words of ours: no secret, no name that a client chose.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from paddock.errors import PaddockError
from paddock.sandbox import BudgetExceeded
from paddock.sandbox.remote.room import NodeFullError, NodeRoom

MEDIA_TYPE = CONTENT_TYPE_PLAIN_0_0_4
BUCKETS_S = (0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300, 1800)
T = TypeVar("T")


class NodeTelemetry:
    """The counters of one node."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._calls = Counter("paddock_node_calls", "Calls that ended.", ["route", "result"], registry=registry)
        self._seconds = Histogram(
            "paddock_node_call_seconds", "What they took.", ["route"], buckets=BUCKETS_S, registry=registry
        )
        self._sandboxes = Gauge("paddock_node_sandboxes", "Sandboxes that live.", registry=registry)
        self._clients = Gauge("paddock_node_clients", "Clients with a lease.", registry=registry)
        self._waiting = Gauge("paddock_node_waiting", "Sandboxes for which clients wait.", registry=registry)
        self._draining = Gauge("paddock_node_draining", "1: no more sandboxes are taken.", registry=registry)
        self._free = Gauge("paddock_node_free", "Room that is granted to nobody.", ["part"], registry=registry)

    async def counted(self, route: str, act: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Await a call and count how it ended."""
        result, since = "us", time.perf_counter()
        try:
            reply = await act()
            result = "ok"
            return reply
        except BaseException as error:
            result = _result_of(error)
            raise
        finally:
            self._seconds.labels(route).observe(time.perf_counter() - since)
            self._calls.labels(route, result).inc()

    def exposition(self, *, sandboxes: int, clients: int, waiting: int = 0, room: NodeRoom | None = None) -> bytes:
        """All of it in Prometheus' text format. `room`: None where it is not counted; then `waiting` is."""
        self._sandboxes.set(sandboxes)
        self._clients.set(clients)
        self._waiting.set(waiting)
        if room is not None:
            self._set_room(room)
        return generate_latest(self._registry)

    def _set_room(self, room: NodeRoom) -> None:
        self._waiting.set(room.waiting)
        self._draining.set(room.draining)
        for part, amount in room.free.model_dump().items():
            if amount is not None:
                self._free.labels(part).set(amount)


RESULTS: tuple[tuple[type[BaseException], Callable[[Any], str]], ...] = (
    (NodeFullError, lambda _: "full"),
    (PaddockError, lambda error: str(error.owner)),
    (BudgetExceeded, lambda _: "policy"),
    (OSError, lambda _: "file"),
    (asyncio.CancelledError, lambda _: "cancelled"),
)


def _result_of(error: BaseException) -> str:
    return next((name(error) for cls, name in RESULTS if isinstance(error, cls)), "us")
