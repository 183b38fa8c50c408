"""Which rollouts run, since when, and in which stage, so that progress can name the slowest.

Stage   is known only of agents in the worker's process; of others the agent's name is shown.
Units   seconds on the monotonic clock; on the wire as ages, for clocks of processes differ.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from paddock.collect.results import MemberKey
from paddock.server.rollout import StageWatch, watch_stage
from paddock.types import Record

MOST = 3
"""Rollouts that are named."""


class RunningRollout(Record):
    """One rollout that runs."""

    key: MemberKey
    where: str
    """Its stage or its agent, in words."""
    began_s: float
    """Its age."""
    since_s: float
    """How long it has been there."""


class RunningReport(Record):
    """What runs at one worker."""

    n_running: int = 0
    slowest: list[RunningRollout] = []
    """Those that run the longest, the longest first."""

    def later(self, seconds: float) -> "RunningReport":
        """The same after that time."""
        aged = [
            run.model_copy(update={"began_s": run.began_s + seconds, "since_s": run.since_s + seconds})
            for run in self.slowest
        ]
        return RunningReport(n_running=self.n_running, slowest=aged)


class InFlight:
    """The attempts that run in this process."""

    def __init__(self) -> None:
        self._running: dict[MemberKey, tuple[str, StageWatch]] = {}

    @contextmanager
    def attempt(self, key: MemberKey, agent: str, secret: str) -> Iterator[StageWatch]:
        """Register one attempt while the block runs."""
        with watch_stage(secret) as watch:
            self._running[key] = agent, watch
            try:
                yield watch
            finally:
                del self._running[key]

    def report(self) -> RunningReport:
        now = time.monotonic()
        running = sorted(self._running.items(), key=lambda item: item[1][1].began)
        slowest = [
            RunningRollout(
                key=key,
                where=f"in {watch.stage}" if watch.stage else f"at {agent}",
                began_s=now - watch.began,
                since_s=now - watch.since,
            )
            for key, (agent, watch) in running[:MOST]
        ]
        return RunningReport(n_running=len(running), slowest=slowest)


def slowest_text(reports: Iterable[RunningReport], most: int = MOST) -> str:
    """`3-0 in model for 32 s, 5-1 in sandbox for 9 s and 2 more`: the longest first; empty: nothing runs."""
    all_reports = list(reports)
    slowest = sorted((run for report in all_reports for run in report.slowest), key=lambda run: -run.began_s)[:most]
    texts = [f"{run.key.group_id}-{run.key.member} {run.where} for {run.since_s:.0f} s" for run in slowest]
    others = sum(report.n_running for report in all_reports) - len(slowest)
    return ", ".join(texts) + (f" and {others} more" if others else "")
