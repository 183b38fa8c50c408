"""The progress of a run, written to stderr: a screen part on a terminal, else a line every few seconds.

Shows   the last step's figures; on a terminal also what the loop does and since when, which groups run at which worker,
        and the last failures.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, TextIO

from paddock.collect.progress import failure_line
from paddock.collect.results import FailedAttempt
from paddock.training.grpo.loop_records import LoopStatus

if TYPE_CHECKING:
    from rich.live import Live
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("reward", "train/total_reward/mean", ".3f"),
    ("validation", "validation/accuracy", ".3f"),
    ("loss", "train/loss", ".4g"),
    ("held out", "validation/loss", ".4g"),
    ("age", "train/staleness/mean", ".2f"),
    ("mismatch", "train/logprob_error/current/mean_abs", ".1e"),
    ("failed", "rollouts/failed_rate/all", ".0%"),
    ("turns", "train/turns_per_sample/mean", ".1f"),
    ("s/step", "timing/step_s", ".1f"),
    ("tokens/s", "timing/tokens_per_s", ".0f"),
    ("waits", "timing/wait_share", ".0%"),
)
"""What is shown: label, metric, format."""


def status(metrics: Mapping[str, float]) -> str:
    """`reward 0.412 | loss 0.01 | ...`, of the metrics that are there."""
    return " | ".join(f"{word} {metrics[name]:{form}}" for word, name, form in COLUMNS if name in metrics)


REFRESH_S = 0.25
SHOWN_GROUPS = 5
"""Running groups that a terminal names."""
SPANS = {
    "wait_s": "waits for groups",
    "train_s": "trains",
    "drain_s": "lets groups end",
    "send_s": "sends weights",
    "validate_s": "validates",
    "checkpoint_s": "stores a checkpoint",
}
AFTER_STEP = ("drain_s", "send_s", "validate_s", "checkpoint_s")


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
        self._live: Live | None = None
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

    @asynccontextmanager
    async def follow(self, lines: Callable[[], Iterable[str]]) -> AsyncIterator[None]:
        """Show lines below the bar while the block runs; nothing where there is no terminal."""
        if self._live is None:
            yield
            return
        task = asyncio.create_task(self._follow(lines))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            self._show(())

    async def _follow(self, lines: Callable[[], Iterable[str]]) -> None:
        while True:
            self._show(lines())
            await asyncio.sleep(REFRESH_S)

    def _show(self, lines: Iterable[str]) -> None:
        from rich.console import Group
        from rich.text import Text

        if self._live is not None and self._bar is not None:
            texts = (Text(line, overflow="ellipsis", no_wrap=True) for line in lines)
            self._live.update(Group(self._bar, *texts))

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
        self._write_pending()

    def _write_pending(self) -> None:
        if self._pending:
            self._stream.write(self._pending + "\n")
            self._stream.flush()
            self._pending = ""

    def _start_bar(self) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[status]}"), TimeElapsedColumn())
        self._bar = Bar(*columns, console=Console(file=self._stream))
        self._task = self._bar.add_task("", total=self._total, status="starting")
        self._live = Live(self._bar, console=self._bar.console, refresh_per_second=1 / REFRESH_S)
        self._live.start()


def status_lines(loop: LoopStatus, n_running: Sequence[int], failures: Iterable[FailedAttempt]) -> Iterator[str]:
    """What a run does now: the loop, then its groups, then what failed. `n_running`: groups at each worker."""
    # Weights are sent, tried and stored once their step is done.
    number = loop.step if loop.span in AFTER_STEP else loop.step + 1
    now = f" {SPANS[loop.span]} for {loop.span_s:.0f} s" if loop.span in SPANS else ""
    yield f"step {number}{now}; {loop.n_waiting} of the {loop.n_needed} groups that a step takes have ended"
    if loop.running:
        at = f" ({', '.join(map(str, n_running))} at {len(n_running)} workers)" if len(n_running) > 1 else ""
        oldest = ", ".join(f"{group} for {ran_s:.0f} s" for group, ran_s in islice(loop.running.items(), SHOWN_GROUPS))
        yield f"in flight {len(loop.running)} groups{at}: {oldest}"
    yield from map(failure_line, failures)
