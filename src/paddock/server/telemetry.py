"""What a server counts of its calls, as Prometheus reads it from `GET /metrics`.

Metrics `docs/telemetry.md` has each with its labels. All but those of the process have the label `server`: its name.
Law     a call counts once, whether it came over HTTP or from a server of the same process. Labels are routes' templates
        and words of ours: no secret, no name that a caller chose.
HTTP    bodies and headers are not seen here: `endpoints` and `request_checks` see them.
Source  https://prometheus.io/docs/instrumenting/exposition_formats/, by its own client library.
"""

import asyncio
import time
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from paddock import __version__
from paddock.errors import PaddockError
from paddock.http import RUN, Call, Route
from paddock.sandbox.leases import live_sandboxes
from paddock.server.base import Handler, Server
from paddock.types import Rollout

MEDIA_TYPE = CONTENT_TYPE_PLAIN_0_0_4
BUCKETS_S = (0.001, 0.01, 0.1, 0.5, 1, 5, 10, 60, 300, 1800)
"""Upper bounds: a pivot verdict takes a millisecond, a SWE rollout half an hour."""
REWARD_BUCKETS = (0.0, 0.25, 0.5, 0.75, 1.0)
MAX_KINDS = 100
"""Kinds of failures that are told apart: a server that is not ours may name any."""
OTHER_KINDS = "(others)"


class Telemetry:
    """The counters of one server."""

    def __init__(self, server: Server[Any]) -> None:
        self._server = server
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        registry.register(_OwnFigures(server))
        Gauge("paddock_sandboxes", "Sandboxes that this process holds.", registry=registry).set_function(live_sandboxes)
        info = Gauge("paddock_server_info", "1.", ["server", "kind", "version"], registry=registry)
        info.labels(server.name, server.KIND, __version__).set(1)
        self._calls = Counter("paddock_calls", "Calls that ended.", ["server", "route", "result"], registry=registry)
        self._seconds = Histogram(
            "paddock_call_seconds",
            "Until the reply, or a stream's begin.",
            ["server", "route"],
            buckets=BUCKETS_S,
            registry=registry,
        )
        self._running = Gauge("paddock_calls_in_flight", "Calls that run.", ["server", "route"], registry=registry)
        self._rollouts = _RolloutCounters(server.name, registry) if RUN in server.handlers() else None

    def handlers(self) -> Mapping[Route[Any, Any], Handler]:
        """The server's handlers, counted."""
        return {route: self._counted(route, handler) for route, handler in self._server.handlers().items()}

    def exposition(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self._registry)

    def _counted(self, route: Route[Any, Any], handler: Handler) -> Handler:
        server, name = self._server.name, f"{route.method} {route.path}"
        seconds, running = self._seconds.labels(server, name), self._running.labels(server, name)

        async def counted(request: Any, call: Call) -> Any:
            result, since = "us", time.perf_counter()
            running.inc()
            try:
                reply = await handler(request, call)
                result = "ok"
                if route is RUN and self._rollouts is not None:
                    self._rollouts.add(reply)
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
                self._calls.labels(server, name, result).inc()

        return counted


class _RolloutCounters:
    """What an agent's rollouts came to."""

    def __init__(self, server: str, registry: CollectorRegistry) -> None:
        self._server = server
        self._kinds: set[tuple[str, str]] = set()
        self._rollouts = Counter("paddock_rollouts", "Rollouts that ended.", ["server", "outcome"], registry=registry)
        self._failures = Counter(
            "paddock_failures", "Rollouts without a verdict.", ["server", "owner", "kind"], registry=registry
        )
        self._rewards = Histogram(
            "paddock_reward", "Rewards of verdicts.", ["server"], buckets=REWARD_BUCKETS, registry=registry
        )
        self._stages = Histogram(
            "paddock_stage_seconds",
            "Stages of rollouts with a verdict.",
            ["server", "stage"],
            buckets=BUCKETS_S,
            registry=registry,
        )

    def add(self, rollout: Rollout) -> None:
        self._rollouts.labels(self._server, rollout.outcome).inc()
        if rollout.failure is not None:
            owner, kind = rollout.failure.owner, rollout.failure.kind
            if len(self._kinds) >= MAX_KINDS and (owner, kind) not in self._kinds:
                kind = OTHER_KINDS
            self._kinds.add((owner, kind))
            self._failures.labels(self._server, owner, kind).inc()
        if rollout.verdict is not None:
            self._rewards.labels(self._server).observe(rollout.verdict.reward)
            for stage, seconds in rollout.timing:
                if seconds and stage != "total_s":  # 0: it did not run
                    self._stages.labels(self._server, stage.removesuffix("_s")).observe(seconds)


class _OwnFigures(Collector):
    """What a server counts itself."""

    def __init__(self, server: Server[Any]) -> None:
        self._server = server

    def describe(self) -> list[Metric]:
        return []  # else it would be asked before it is started

    def collect(self) -> Iterator[Metric]:
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for figure in self._server.figures():
            family = families.get(figure.name)
            if family is None:
                family_type = CounterMetricFamily if figure.kind == "counter" else GaugeMetricFamily
                labels = ["server", *figure.labels]
                family = families[figure.name] = family_type(f"paddock_{figure.name}", figure.help, labels=labels)
            family.add_metric([self._server.name, *figure.labels.values()], figure.value)
        yield from families.values()
