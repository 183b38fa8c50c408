"""Showing how a run goes: a bar on a terminal, else a line every few seconds. Written to stderr."""

import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

SHOWN: tuple[tuple[str, str, str], ...] = (
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
"""What it says, the metric, its form."""


def status(metrics: Mapping[str, float]) -> str:
    """`reward 0.412 | loss 0.01 | ...`, of what is there."""
    return " | ".join(f"{word} {metrics[name]:{form}}" for word, name, form in SHOWN if name in metrics)


class Progress:
    def __init__(
        self,
        total: int | None,
        *,
        every_s: float,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`total`: steps; None: nobody knows."""
        self._total = total
        self._every_s = every_s
        self._stream = stream if stream is not None else sys.stderr
        self._clock = clock
        self._said: float | None = None
        self._held = ""
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        if self._stream.isatty():
            self._start_bar()

    def tell(self, step: int, metrics: Mapping[str, float]) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=step, status=status(metrics))
            return
        of = f"/{self._total}" if self._total is not None else ""
        self._held = f"step {step}{of} | {status(metrics)}"
        now = self._clock()
        if self._said is None or now - self._said >= self._every_s or step == self._total:
            self._said = now
            self._say()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._say()

    def _say(self) -> None:
        if self._held:
            self._stream.write(self._held + "\n")
            self._stream.flush()
            self._held = ""

    def _start_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[status]}"), TimeElapsedColumn())
        self._bar = Bar(*columns, console=Console(file=self._stream))
        self._task = self._bar.add_task("", total=self._total, status="starting")
        self._bar.start()
