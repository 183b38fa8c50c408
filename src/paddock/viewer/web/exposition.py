"""What runs have come to, as Prometheus reads it from the view's `GET /metrics`.

Runs    those that were written to in the last day: of others nothing changes.
Metrics `docs/telemetry.md` has each. A run's label is its id in the view. Of a training run's `metrics.jsonl` the last
        line counts.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from paddock.viewer.web.catalog import METRICS, Catalog, RunRef

MEDIA_TYPE = CONTENT_TYPE_PLAIN_0_0_4
RECENT_S = 86400.0
MAX_LINE_BYTES = 256 * 1024
"""Of a line of metrics that is read."""


def exposition(catalog: Catalog) -> bytes:
    """All of it in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(_RecentRuns(catalog))
    return generate_latest(registry)


class _RecentRuns(Collector):
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        rollouts = GaugeMetricFamily("paddock_run_rollouts", "Rollouts that ended.", labels=["run", "kind", "outcome"])
        reward = GaugeMetricFamily("paddock_run_reward", "Mean of verdicts' rewards.", labels=["run", "kind"])
        written = GaugeMetricFamily(
            "paddock_run_written_seconds", "When it was last written to, since 1970.", labels=["run", "kind"]
        )
        step = GaugeMetricFamily("paddock_run_step", "Steps of a training run that were done.", labels=["run"])
        training = GaugeMetricFamily("paddock_run_metric", "Of a training run's last step.", labels=["run", "name"])
        for run in self._recent():
            counts = self._catalog.counts(run)
            for outcome, count in counts["outcomes"].items():
                rollouts.add_metric([run.id, run.kind, outcome], count)
            if counts["mean_reward"] is not None:
                reward.add_metric([run.id, run.kind], counts["mean_reward"])
            written.add_metric([run.id, run.kind], run.changed_at)
            last = _last_line(run.path / METRICS) if run.kind == "training" else {}
            if last:
                step.add_metric([run.id], last["step"])
            for name, value in (last.get("metrics") or {}).items():
                if value is not None:
                    training.add_metric([run.id, name], value)
        yield from (rollouts, reward, written, step, training)

    def _recent(self) -> list[RunRef]:
        since = time.time() - RECENT_S
        return [run for run in self._catalog.runs() if run.changed_at >= since and run.report is None]


def _last_line(file: Path) -> dict[str, Any]:
    """The last whole line; empty where there is none that can be read."""
    try:
        with file.open("rb") as opened:
            size = opened.seek(0, 2)
            opened.seek(max(0, size - MAX_LINE_BYTES))
            lines = opened.read().split(b"\n")[:-1]
        line = orjson.loads(lines[-1])
    except (OSError, IndexError, orjson.JSONDecodeError):
        return {}
    return line if isinstance(line, dict) and isinstance(line.get("step"), int) else {}
