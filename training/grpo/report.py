"""The reports of a run: a durable line per step, TensorBoard and W&B by config, progress, a page at the end.

Files   metrics.jsonl; summary.json, summary.md and plots/*.png when the run is at its end.
Law     `report` returns when its line is on the disk. A missing package is an error when the reporter is made, before
        anything of the run starts.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path

import orjson

from paddock.collect.folder import write_json
from paddock.training.grpo.loop_records import RunResult, StepReport
from paddock.training.grpo.metrics_log import METRICS, MetricsLog
from paddock.training.grpo.plots import draw
from paddock.training.grpo.progress import Progress
from paddock.training.grpo.read_config import RunConfig
from paddock.training.grpo.sample_table import RolloutLinks, sample_rollouts
from paddock.training.grpo.sinks import Sinks, make_sinks, require
from paddock.training.grpo.summary import page, summarise
from paddock.types import JsonObject

SUMMARY = "summary.json"
PAGE = "summary.md"
PLOTS = "plots"
UNBOUNDED = 1_000_000
"""The number of steps by which recipes mean "until the rows are used up"."""


class RunReporter:
    """The reports of one start of a run. `forget` is called first, `close` always."""

    def __init__(self, config: RunConfig, out: Path) -> None:
        require("matplotlib", "the plots of a run")
        self._config = config
        self._out = out
        self._log = MetricsLog(out)
        self._sinks = Sinks(make_sinks(config.config.logger, out))
        self._progress: Progress | None = None
        self._started = time.monotonic()

    def forget(self, after: int) -> None:
        """Forget the reports of steps after this one, which will be reported again; -1: all."""
        self._log.forget(after)
        self._sinks.open(after)
        steps = self._config.config.grpo.max_num_steps
        every_s = self._config.config.logger.progress_every_s
        self._progress = Progress(steps if steps < UNBOUNDED else None, every_s=every_s)

    def follow(self, lines: Callable[[], Iterable[str]]) -> AbstractAsyncContextManager[None]:
        """Show what the run does, on a terminal, while the block runs; `forget` was called."""
        return self._progress.follow(lines) if self._progress is not None else nullcontext()

    def report(self, step_report: StepReport) -> None:
        """Write one report; its line is on the disk when this returns."""
        batch = step_report.batch
        line: JsonObject = {
            "step": step_report.steps,
            "trained": batch is not None,
            "groups": [group.id for group in batch.groups] if batch is not None else [],
            "dropped": list(batch.dropped) if batch is not None else [],
            "lost": [lost._asdict() for lost in step_report.lost],
            "wall_s": time.monotonic() - self._started,
            "metrics": step_report.metrics,
        }
        self._log.append(line)
        self._sinks.write(step_report.steps, step_report.metrics)
        settings = self._config.config.logger
        if batch is not None and settings.samples_per_step and self._sinks:
            links = RolloutLinks(settings.view_url, self._out)
            self._sinks.write_samples(step_report.steps, sample_rollouts(batch, settings.samples_per_step, links))
        if self._progress is not None:
            self._progress.report(step_report.steps, step_report.metrics)

    def end(self, result: RunResult) -> None:
        """Write the summary, its page and its plots."""
        lines = self._log.lines()
        summary = summarise(lines, self._facts(result))
        plots = draw(lines, self._out / PLOTS)
        write_json(self._out / SUMMARY, orjson.loads(orjson.dumps(summary)))
        (self._out / PAGE).write_text(page(summary, [f"{PLOTS}/{path.name}" for path in plots]))

    def close(self) -> None:
        self._sinks.close()
        if self._progress is not None:
            self._progress.close()

    def _facts(self, result: RunResult) -> JsonObject:
        return {
            "name": self._config.name,
            "seed": self._config.config.grpo.seed,
            "steps": result.steps,
            "why": result.why,
            "wall_s": time.monotonic() - self._started,
            "groups_started": result.n_started,
            "groups_trained": result.n_trained,
            "lost": result.lost,
            "groups_retried": result.n_retries,
            "wait_share": result.wait_share,
            "checkpoint": _name_of(result.checkpoint),
            "best": _name_of(result.best),
            "exported_step": result.exported,
            "metrics": METRICS,
        }


def _name_of(path: Path | None) -> str | None:
    return path.name if path is not None else None
