"""Progress of a collection: a bar on a terminal, else a line every few seconds.

Shows   the number of ended rollouts, mean reward, counts of outcomes, seconds. Where no rollout has ended since the
        last line, it names those that run the longest, with stage and time. Goes to stderr; stdout stays free.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from paddock.collect.attempts import RunningReport, slowest_text
from paddock.collect.tally import Board

if TYPE_CHECKING:
    from rich.progress import Progress

REFRESH_S = 0.25


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
    task = asyncio.create_task(_bar(view.board, view.total) if sys.stderr.isatty() else _lines(view, every_s))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _lines(view: ProgressView, every_s: float) -> None:
    started, before = time.monotonic(), view.board.outcomes.total()
    while True:
        await asyncio.sleep(every_s)
        ended = view.board.outcomes.total()
        line = f"{ended}/{view.total} | {status_line(view.board)} | {time.monotonic() - started:.0f} s"
        slowest = slowest_text(view.running()) if ended == before else ""
        print(f"{line} | waiting for {slowest}" if slowest else line, file=sys.stderr, flush=True)  # noqa: T201 - voice
        before = ended


async def _bar(board: Board, total: int) -> None:
    with _progress() as progress:
        task = progress.add_task("", total=total, status="")
        try:
            while True:
                progress.update(task, completed=board.outcomes.total(), status=status_line(board))
                await asyncio.sleep(REFRESH_S)
        finally:
            progress.update(task, completed=board.outcomes.total(), status=status_line(board))


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
