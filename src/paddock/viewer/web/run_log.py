"""The rollouts of one run as rows of a table, read as they come.

Row     a list in the order of `COLUMNS`, already JSON: a run of 10,000 rollouts is 2 MB here. A rollout whose row comes
        again (an attempt failed, a later one has a verdict) has the later row.
Source  `index.jsonl` and `failures.jsonl`; without an index the lines of the rollouts themselves, each parsed once.
Cursor  `GENERATION:COUNT`: a page that has `COUNT` rows gets those after them; after a restart of a file it starts
        anew. Each page has a cursor of its own.
Errors  a damaged line is left out and counted, with the first one's number and what is wrong with it.
"""

import threading
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from paddock.collect.folder import FAILURES, INDEX, ROLLOUTS
from paddock.collect.lines import Fault, LineSpan, StoredLine
from paddock.collect.recovery import read_record, read_result
from paddock.collect.results import FailedAttempt, MemberKey, RolloutResult
from paddock.viewer.web.growing_file import GrowingFile

COLUMNS = (
    *("group", "member", "name", "agent", "variant", "outcome", "reward", "reason", "ended"),
    *("turns", "input_tokens", "output_tokens", "total_s", "stages", "labels", "metrics", "start", "end", "failure"),
    *("cached_tokens", "reasoning_tokens", "cost_usd", "ended_at", "tools"),
)
"""`stages`: seconds by stage; `tools`: calls by tool; `ended_at`: seconds since 1970 UTC; `failure`: owner, kind, stage
and message of the last attempt, without a verdict."""
STAGES = ("seed_s", "sandbox_s", "model_s", "tools_s", "verify_wait_s", "verify_s")
MAX_MESSAGE = 500
"""Characters of a failure's message in a row."""


class DamagedLine(NamedTuple):
    file: str
    number: int
    why: str


class RowPage(NamedTuple):
    """What a page that has read up to a cursor lacks."""

    cursor: str
    restarted: bool
    """The rows that the page has are of no more use."""
    rows: bytes
    """A JSON array of rows."""
    damaged: int
    first_damaged: DamagedLine | None


class RunLog:
    """The rows of one run; used from several threads. `rollouts`: its file of rollouts."""

    def __init__(self, folder: Path) -> None:
        """`folder`: of a run, or a file of rollouts."""
        self.rollouts = folder if folder.is_file() else folder / ROLLOUTS
        self._lock = threading.Lock()
        self._index = folder / INDEX
        self._has_index = self._index.is_file()
        self._results = GrowingFile(self._index if self._has_index else self.rollouts)
        self._failures = GrowingFile(folder / FAILURES)
        self._generation = 0
        self._clear()

    def page(self, cursor: str = "") -> RowPage:
        """Read what is new, and give the rows after `cursor`; an unknown cursor is that of a page without rows."""
        with self._lock:
            self._read()
            generation, _, count = cursor.partition(":")
            known = generation == str(self._generation) and count.isdecimal() and int(count) <= len(self._rows)
            rows = self._rows[int(count) if known else 0 :]
            return RowPage(
                f"{self._generation}:{len(self._rows)}",
                bool(cursor) and not known,
                b"[" + b",".join(rows) + b"]",
                self._n_damaged,
                self._first_damaged,
            )

    def counts(self) -> dict[str, Any]:
        """How many rollouts have ended, by outcome, and the mean of their rewards."""
        with self._lock:
            self._read()
            rewards = [reward for reward in self._rewards.values() if reward is not None]
            return {
                "rollouts": len(self._outcomes),
                "outcomes": dict(Counter(self._outcomes.values())),
                "mean_reward": sum(rewards) / len(rewards) if rewards else None,
            }

    def span(self, key: MemberKey) -> LineSpan | None:
        """Where a rollout's line stands in `rollouts.jsonl`; None: it has none."""
        with self._lock:
            self._read()
            return self._spans.get(key)

    def spans(self) -> dict[MemberKey, LineSpan]:
        """Where each rollout's line stands."""
        with self._lock:
            self._read()
            return dict(self._spans)

    def failed(self, key: MemberKey) -> FailedAttempt | None:
        """The last attempt of a rollout without a verdict."""
        with self._lock:
            return self._failed.get(key)

    def _clear(self) -> None:
        self._rows: list[bytes] = []
        self._outcomes: dict[MemberKey, str] = {}
        self._rewards: dict[MemberKey, float | None] = {}
        self._spans: dict[MemberKey, LineSpan] = {}
        self._failed: dict[MemberKey, FailedAttempt] = {}
        self._n_damaged = 0
        self._first_damaged: DamagedLine | None = None

    def _read(self) -> None:
        if not self._has_index and self._index.is_file():
            self._has_index, self._results = True, GrowingFile(self._index)
            self._start_anew()
        if not self._read_files():
            # A file is another one than it was: rows of both are read from their starts.
            self._results, self._failures = GrowingFile(self._results.path), GrowingFile(self._failures.path)
            self._start_anew()
            self._read_files()

    def _start_anew(self) -> None:
        self._clear()
        self._generation += 1

    def _read_files(self) -> bool:
        """False: a file was read from its start again."""
        for line in self._results.new_lines():
            self._add_result(line)
        for line in self._failures.new_lines():
            self._add_failure(line)
        return not self._results.restarts and not self._failures.restarts

    def _add_result(self, line: StoredLine) -> None:
        if line.data.isspace():
            return
        try:
            result = read_record(RolloutResult.model_validate, line) if self._has_index else read_result(line)
        except Fault as fault:
            self._add_damaged(self._results.path, line, fault)
            return
        if result.start is not None and result.end is not None:
            self._spans[result.key] = LineSpan(line.span.number, result.start, result.end)
        self._failed.pop(result.key, None)
        self._add(result, None)

    def _add_failure(self, line: StoredLine) -> None:
        if line.data.isspace():
            return
        try:
            failed = read_record(FailedAttempt.model_validate, line)
        except Fault as fault:
            self._add_damaged(self._failures.path, line, fault)
            return
        if failed.key not in self._spans:
            self._failed[failed.key] = failed
            self._add(failed.result(), failed)

    def _add(self, result: RolloutResult, failed: FailedAttempt | None) -> None:
        self._outcomes[result.key], self._rewards[result.key] = result.outcome, result.reward
        # A copy: orjson's own bytes hold 4 KiB, whatever their length.
        self._rows.append(bytes(memoryview(orjson.dumps(_row(result, failed)))))

    def _add_damaged(self, path: Path, line: StoredLine, fault: Fault) -> None:
        self._n_damaged += 1
        if self._first_damaged is None:
            self._first_damaged = DamagedLine(path.name, line.span.number, fault.why[:MAX_MESSAGE])


def _row(result: RolloutResult, failed: FailedAttempt | None) -> list[Any]:
    timing, usage = result.timing, result.usage
    failure = failed and [failed.owner, failed.kind, failed.stage, failed.message[:MAX_MESSAGE]]
    return [
        *(result.group_id, result.member, result.row_name or result.uuid, result.agent, result.variant),
        *(result.outcome, result.reward, result.reason, result.ended),
        *(result.turns, usage.input_tokens, usage.output_tokens, round(timing.total_s, 2)),
        [round(getattr(timing, stage), 2) for stage in STAGES],
        *(result.labels, result.metrics, result.start, result.end, failure),
        *(usage.cached_tokens, usage.reasoning_tokens, result.cost_usd, result.ended_at, result.tools),
    ]
