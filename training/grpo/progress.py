"""The progress of a run, written to stderr: a bar on a terminal, else a line every few seconds."""

import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("reward", "train/total_reward/mean", ".3f"),
    ("validation", "validation/accuracy", ".3f"),
    ("loss", "train/loss", ".4g"),
    ("age", "train/staleness/mean", ".2f"),
    ("mismatch", "train/logprob_error/current/mean_abs", ".1e"),
    ("turns", "train/turns_per_sample/mean", ".1f"),
    ("s/step", "timing/step_s", ".1f"),
    ("tokens/s", "timing/tokens_per_s", ".0f"),
    ("waits", "timing/wait_share", ".0%"),
)
"""What is shown: label, metric, format."""


def status(metrics: Mapping[str, float]) -> str:
    """`reward 0.412 | loss 0.01 | ...`, of the metrics that are there."""
    return " | ".join(f"{word} {metrics[name]:{form}}" for word, name, form in COLUMNS if name in metrics)


class Progress:
    def __init__(
        self,
        total: int | None,
        *,
        every_s: float,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`total`: number of steps; None: unknown. `every_s`: seconds between two lines."""
        self._total = total
        self._every_s = every_s
        self._stream = stream if stream is not None else sys.stderr
        self._clock = clock
        self._written_at: float | None = None
        self._pending = ""
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        if self._stream.isatty():
            self._start_bar()

    def report(self, step: int, metrics: Mapping[str, float]) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=step, status=status(metrics))
            return
        of = f"/{self._total}" if self._total is not None else ""
        self._pending = f"step {step}{of} | {status(metrics)}"
        now = self._clock()
        if self._written_at is None or now - self._written_at >= self._every_s or step == self._total:
            self._written_at = now
            self._write_pending()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._write_pending()

    def _write_pending(self) -> None:
        if self._pending:
            self._stream.write(self._pending + "\n")
            self._stream.flush()
            self._pending = ""

    def _start_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[status]}"), TimeElapsedColumn())
        self._bar = Bar(*columns, console=Console(file=self._stream))
        self._task = self._bar.add_task("", total=self._total, status="starting")
        self._bar.start()
