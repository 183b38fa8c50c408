"""Progress of a collection: a screen part on a terminal, else a line every few seconds.

Shows   the number of ended rollouts, mean reward, counts of outcomes, seconds. A line names those that run the longest,
        with stage and time, where no rollout has ended since the last; a terminal always does, with how many run at
        each worker and the last failures. Goes to stderr; stdout stays free.
Stuck   a rollout that is in one stage for long (`eval.stuck_after_s`) has a line of its own, once: which, where, since
        when.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from paddock.collect.attempts import RunningReport, RunningRollout, slowest_text
from paddock.collect.results import FailedAttempt, MemberKey
from paddock.collect.tally import Board

if TYPE_CHECKING:
    from rich.progress import Progress

REFRESH_S = 0.25
SHOWN_ROLLOUTS = 5
"""Rollouts in flight that a terminal names."""


class StuckStage(NamedTuple):
    """A rollout in a stage."""

    key: MemberKey
    where: str


class ProgressView(NamedTuple):
    """What progress is read from."""

    board: Board
    total: int
    """Rollouts that the run has when it is complete."""
    running: Callable[[], Iterable[RunningReport]]
    """Asks what runs."""


def status_line(board: Board) -> str:
    """`reward 0.412 | completed 120, infra 2`."""
    outcomes = ", ".join(f"{kind} {count}" for kind, count in sorted(board.outcomes.items()) if count)
    reward = board.mean_reward
    return f"reward {'-' if reward is None else format(reward, '.3f')} | {outcomes or 'nothing has ended yet'}"


@asynccontextmanager
async def show_progress(view: ProgressView, *, every_s: float, quiet: bool = False) -> AsyncIterator[None]:
    """Show progress while the block runs. `every_s`: seconds between lines where there is no terminal."""
    if quiet:
        yield
        return
    task = asyncio.create_task(_screen(view) if sys.stderr.isatty() else _lines(view, every_s))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _lines(view: ProgressView, every_s: float) -> None:
    started, before = time.monotonic(), view.board.outcomes.total()
    known: set[StuckStage] = set()
    while True:
        await asyncio.sleep(every_s)
        stuck = {StuckStage(run.key, run.where): run for report in view.running() for run in report.stuck}
        for stage in stuck.keys() - known:
            print(stuck_line(stuck[stage]), file=sys.stderr, flush=True)  # noqa: T201 - voice
        known = set(stuck)
        ended = view.board.outcomes.total()
        line = f"{ended}/{view.total} | {status_line(view.board)} | {time.monotonic() - started:.0f} s"
        slowest = slowest_text(view.running()) if ended == before else ""
        print(f"{line} | waiting for {slowest}" if slowest else line, file=sys.stderr, flush=True)  # noqa: T201 - voice
        before = ended


def stuck_line(run: RunningRollout) -> str:
    """`stuck: 3-0 in verify since 04:12:10 UTC, 1830 s`."""
    since = datetime.fromtimestamp(time.time() - run.since_s, UTC)
    return f"stuck: {run.key.group_id}-{run.key.member} {run.where} since {since:%H:%M:%S} UTC, {run.since_s:.0f} s"


async def _screen(view: ProgressView) -> None:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    bar = _progress()
    task = bar.add_task("", total=view.total, status="")

    def update() -> None:
        bar.update(task, completed=view.board.outcomes.total(), status=status_line(view.board))

    with Live(bar, console=bar.console, refresh_per_second=1 / REFRESH_S, transient=False) as live:
        try:
            while True:
                update()
                lines = (Text(line, overflow="ellipsis", no_wrap=True) for line in screen_lines(view))
                live.update(Group(bar, *lines))
                await asyncio.sleep(REFRESH_S)
        finally:
            # What is over does not stay on the terminal.
            update()
            live.update(bar)


def screen_lines(view: ProgressView) -> Iterator[str]:
    """What stands below the bar: who runs how many, the longest, the last failures."""
    reports = list(view.running())
    running = [report.n_running for report in reports]
    if sum(running):
        at = f" ({', '.join(map(str, running))} at {len(running)} workers)" if len(running) > 1 else ""
        yield f"in flight {sum(running)}{at}: {slowest_text(reports, SHOWN_ROLLOUTS)}"
    yield from map(failure_line, view.board.last_failures)


def failure_line(failed: FailedAttempt) -> str:
    """`failed 3-0: infra, sandbox_died in tools: MESSAGE`."""
    stage = f" in {failed.stage}" if failed.stage else ""
    # Nothing that a sandbox or an endpoint says moves the cursor.
    message = "".join(char if char.isprintable() else "?" for char in " ".join(failed.message.split()))
    return f"failed {failed.group_id}-{failed.member}: {failed.owner}, {failed.kind}{stage}: {message}"


def _progress() -> "Progress":
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[status]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
