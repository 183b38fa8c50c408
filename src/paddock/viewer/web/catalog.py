"""Which runs and reports there are below some folders, and what each is.

Run     a folder with a journal of rollouts: of an evaluation (`run.json`), of a training run (`metrics.jsonl`), or one
        that holds rollouts alone; or a file of rollouts.
Report  a file that starts like one (`paddock.viewer.reports`), beside runs and not in one.
Id      its place below the folder that was named: it stays the same while runs come and go.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from paddock.collect.folder import LOCK, ROLLOUTS, RUN
from paddock.errors import ConfigError
from paddock.viewer.reports import REPORT_KINDS, REPORT_SUFFIXES, ReportKind, read_report, report_kind
from paddock.viewer.web.run_log import RunLog

METRICS = "metrics.jsonl"
"""Of a training run: see `paddock.training.grpo.metrics_log`."""
MAX_DEPTH = 4
"""Folders below a named one in which runs are looked for."""
MAX_RUNS = 2000
RESCAN_S = 2.0
"""Seconds for which a list of runs is good."""
IDLE_LOGS = 8
"""Runs whose rows are kept after they were read."""

RunKind = Literal["evaluation", "training", "rollouts"]
MAX_REPORTS_IN_FOLDER = 200
"""Files of a folder that are looked into."""


class RunRef(NamedTuple):
    """A run, or a report, that was found."""

    id: str
    path: Path
    kind: RunKind | ReportKind
    changed_at: float
    """Seconds since 1970 UTC at which its journal was last written."""

    @property
    def report(self) -> ReportKind | None:
        """The kind of a report; None: it is a run."""
        return next((kind for kind in REPORT_KINDS if kind == self.kind), None)


def find_runs(roots: Sequence[Path]) -> list[RunRef]:
    """The runs and reports in and below each root, latest first. ConfigError: a root is not there."""
    found: dict[str, RunRef] = {}
    for root in roots:
        if not root.exists():
            raise ConfigError(f"{root}: there is no such folder or file", kind="no_runs")
        for path in _below(root.resolve(), MAX_DEPTH):
            name = "/".join([root.resolve().name, *path.relative_to(root.resolve()).parts])
            if name in found and found[name].path != path:
                name = str(path)
            found[name] = RunRef(name, path, _kind(path), last_written(path))
            if len(found) >= MAX_RUNS:
                break
    return sorted(found.values(), key=lambda run: (-run.changed_at, run.id))


class Catalog:
    """The runs below some roots, and the logs of those that are read."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self.roots = list(roots)
        self._runs: dict[str, RunRef] = {}
        self._scanned_at = float("-inf")
        self._lock = threading.Lock()
        self._logs: dict[str, RunLog] = {}
        self._counts: dict[str, tuple[float, dict[str, Any]]] = {}
        """By run: when it had last been written, and its counts then."""

    def runs(self) -> list[RunRef]:
        """All runs, latest first."""
        now = time.monotonic()
        if now - self._scanned_at > RESCAN_S:
            self._runs = {run.id: run for run in find_runs(self.roots)}
            self._scanned_at = now
        return list(self._runs.values())

    def get(self, run_id: str) -> RunRef | None:
        """A run by its id; None: there is none."""
        if run_id not in self._runs:
            self.runs()
        return self._runs.get(run_id)

    def counts(self, run: RunRef) -> dict[str, Any]:
        """See `RunLog.counts`; of a report, its verdict."""
        at, counts = self._counts.get(run.id, (None, {}))
        if at != run.changed_at:
            counts = _verdict(run.path, run.report) if run.report else self.log(run).counts()
            self._counts[run.id] = run.changed_at, counts
        return counts

    def log(self, run: RunRef) -> RunLog:
        """A run's rows; those that were not read for longest are forgotten."""
        with self._lock:
            log = self._logs.pop(run.id, None)
            if log is None:
                log = RunLog(run.path)
            self._logs[run.id] = log
            while len(self._logs) > IDLE_LOGS:
                self._logs.pop(next(iter(self._logs)))
            return log


def _below(path: Path, depth: int) -> Iterator[Path]:
    is_run = path.is_file() or (path / ROLLOUTS).is_file()
    if is_run:
        yield path
    if not path.is_dir():
        return
    try:
        children = sorted(
            child for child in path.iterdir() if not child.name.startswith(".") and not child.is_symlink()
        )
    except OSError:
        return
    if not is_run:
        files = [child for child in children if child.suffix in REPORT_SUFFIXES][:MAX_REPORTS_IN_FOLDER]
        yield from (child for child in files if report_kind(child) is not None)
    for child in children if depth else ():
        if child.is_dir():
            yield from _below(child, depth - 1)


def _verdict(path: Path, kind: ReportKind) -> dict[str, Any]:
    line = read_report(path, kind).verdict
    return {"verdict": line.text, "tone": line.tone}


def _kind(path: Path) -> RunKind | ReportKind:
    if path.is_file():
        return report_kind(path) or "rollouts"
    if (path / RUN).is_file():
        return "evaluation"
    return "training" if (path / METRICS).is_file() else "rollouts"


def last_written(path: Path) -> float:
    """Seconds since 1970 UTC at which a run's journal, or a report, was last written; 0: it is gone."""
    times = []
    for file in (path / ROLLOUTS, path / METRICS, path / LOCK, path):
        try:
            times.append(file.stat().st_mtime)
        except OSError:
            continue
    return max(times, default=0.0)
