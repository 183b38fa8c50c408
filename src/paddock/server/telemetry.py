"""What a server counts of its calls, as Prometheus reads it from `GET /metrics`.

Metrics paddock_calls_total{route, result}: calls that ended; result: `ok`; the owner of their error (`policy`, `row`,
        `infra`, `verifier`, `user`, `us`); or `cancelled`, where the caller went.
        paddock_call_seconds{route}: seconds until the reply, or until a stream begins.
        paddock_calls_in_flight{route}: calls that run.
        paddock_rollouts_total{outcome}: ended rollouts of an agent.
        Beside them the process's own: memory, CPU, open files.
Law     a call counts once, whether it came over HTTP or from a server of the same process. Labels are routes' templates
        and words of ours: no secret, no name that a caller chose.
HTTP    bodies and headers are not seen here: `endpoints` and `request_checks` see them.
Source  https://prometheus.io/docs/instrumenting/exposition_formats/, by its own client library.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from paddock.errors import PaddockError
from paddock.http import RUN, Call, Route
from paddock.server.base import Handler, Server

MEDIA_TYPE = CONTENT_TYPE_PLAIN_0_0_4
BUCKETS_S = (0.001, 0.01, 0.1, 0.5, 1, 5, 10, 60, 300, 1800)
"""Upper bounds: a pivot verdict takes a millisecond, a SWE rollout half an hour."""


class Telemetry:
    """The counters of one server."""

    def __init__(self, server: Server[Any]) -> None:
        self._server = server
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._calls = Counter("paddock_calls", "Calls that ended.", ["route", "result"], registry=registry)
        self._seconds = Histogram(
            "paddock_call_seconds",
            "Until the reply, or a stream's begin.",
            ["route"],
            buckets=BUCKETS_S,
            registry=registry,
        )
        self._running = Gauge("paddock_calls_in_flight", "Calls that run.", ["route"], registry=registry)
        self._rollouts = Counter("paddock_rollouts", "Rollouts that ended.", ["outcome"], registry=registry)

    def handlers(self) -> Mapping[Route[Any, Any], Handler]:
        """The server's handlers, counted."""
        return {route: self._counted(route, handler) for route, handler in self._server.handlers().items()}

    def exposition(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self._registry)

    def _counted(self, route: Route[Any, Any], handler: Handler) -> Handler:
        name = f"{route.method} {route.path}"
        seconds, running = self._seconds.labels(name), self._running.labels(name)

        async def counted(request: Any, call: Call) -> Any:
            result, since = "us", time.perf_counter()
            running.inc()
            try:
                reply = await handler(request, call)
                result = "ok"
                if route is RUN:
                    self._rollouts.labels(reply.outcome).inc()
                return reply
            except PaddockError as error:
                result = error.owner
                raise
            except asyncio.CancelledError:
                result = "cancelled"
                raise
            finally:
                running.dec()
                seconds.observe(time.perf_counter() - since)
                self._calls.labels(name, result).inc()

        return counted
