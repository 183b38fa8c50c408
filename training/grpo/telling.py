"""What a run tells of itself: a durable line per step, TensorBoard and W&B by config, progress, a page at the end.

Files   metrics.jsonl; summary.json, summary.md and plots/*.png when the run is at its end.
Law     `tell` returns when its line is on the disk. A missing package is an error when the teller is made: before
        anything of the run starts.
"""

import time
from pathlib import Path

import orjson

from paddock.collect.folder import write_json
from paddock.training.grpo.loop import Ended, Told
from paddock.training.grpo.metrics_log import METRICS, MetricsLog
from paddock.training.grpo.plotting import draw
from paddock.training.grpo.progress import Progress
from paddock.training.grpo.reading import ReadConfig
from paddock.training.grpo.sinks import Sinks, make_sinks, require
from paddock.training.grpo.summary import page, summarise
from paddock.types import JsonObject

SUMMARY = "summary.json"
PAGE = "summary.md"
PLOTS = "plots"
UNBOUNDED = 1_000_000
"""Steps that nobody means to reach: the recipes' word for "until the rows are used up"."""


class Teller:
    """Of one start of a run. `forget` comes first, `close` always."""

    def __init__(self, read: ReadConfig, out: Path) -> None:
        require("matplotlib", "the plots of a run")
        self._read = read
        self._out = out
        self._log = MetricsLog(out)
        self._sinks = Sinks(make_sinks(read.config.logger, out))
        self._progress: Progress | None = None
        self._started = time.monotonic()

    def forget(self, after: int) -> None:
        """What was told of later steps will be told again; -1: all."""
        self._log.forget(after)
        self._sinks.open(after)
        steps = self._read.config.grpo.max_num_steps
        every_s = self._read.config.logger.progress_every_s
        self._progress = Progress(steps if steps < UNBOUNDED else None, every_s=every_s)

    def tell(self, told: Told) -> None:
        batch = told.batch
        line: JsonObject = {
            "step": told.steps,
            "trained": batch is not None,
            "groups": [group.id for group in batch.groups] if batch is not None else [],
            "dropped": list(batch.dropped) if batch is not None else [],
            "lost": [lost._asdict() for lost in told.lost],
            "wall_s": time.monotonic() - self._started,
            "metrics": told.metrics,
        }
        self._log.append(line)
        self._sinks.write(told.steps, told.metrics)
        if self._progress is not None:
            self._progress.tell(told.steps, told.metrics)

    def end(self, ended: Ended) -> None:
        """The page, its figures and its plots."""
        lines = self._log.lines()
        summary = summarise(lines, self._facts(ended))
        plots = draw(lines, self._out / PLOTS)
        write_json(self._out / SUMMARY, orjson.loads(orjson.dumps(summary)))
        (self._out / PAGE).write_text(page(summary, [f"{PLOTS}/{path.name}" for path in plots]))

    def close(self) -> None:
        self._sinks.close()
        if self._progress is not None:
            self._progress.close()

    def _facts(self, ended: Ended) -> JsonObject:
        return {
            "name": self._read.name,
            "seed": self._read.config.grpo.seed,
            "steps": ended.steps,
            "why": ended.why,
            "wall_s": time.monotonic() - self._started,
            "groups_begun": ended.n_started,
            "groups_trained": ended.n_trained,
            "lost": ended.lost,
            "groups_begun_again": ended.n_retries,
            "wait_share": ended.wait_share,
            "checkpoint": _shown(ended.checkpoint),
            "best": _shown(ended.best),
            "exported_step": ended.exported,
            "metrics": METRICS,
        }


def _shown(path: Path | None) -> str | None:
    return path.name if path is not None else None
