"""Reverification: stored rollouts are scored again, without a model, so that every verdict can be reproduced offline.

Source  `rollouts.jsonl`; each line's row and response go to the `/verify` of its agent's environment, in this process
        or in workers (`scorers`). An environment with a `reverify` method of its own gets the stored verdict too, and
        is not started: what its judges said is in the verdict.
        Scores of steps are kept as they are stored: the new verdict is combined with them, and no judge is asked.
File    `reverified.jsonl` beside it: the same lines, in the same order, each with the verdict it got now; one whose
        scoring failed keeps none and is reported. The rollouts themselves are never changed.
Errors  ConfigError: no rollouts, or an agent that the config does not have.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import NamedTuple

import orjson
from pydantic import ValidationError

from paddock.collect.folder import ROLLOUTS
from paddock.collect.lines import Fault, check, seal
from paddock.collect.scorers import Score, open_scorer
from paddock.collect.worker_spread import WorkerSpread
from paddock.config import Config
from paddock.errors import ConfigError, PaddockError
from paddock.http import rollout_from_wire
from paddock.types import Rollout, Verdict

REVERIFIED = "reverified.jsonl"
HERE = WorkerSpread()


class VerdictChange(NamedTuple):
    """A rollout whose reward or reason differs now, or that could not be scored."""

    line: int
    """In the file, from 1."""
    group_id: int | None
    member: int | None
    before: float
    now: float | None
    """None: scoring failed."""
    why: str
    """The reasons before and now; or the failure."""

    def __str__(self) -> str:
        now = "no verdict" if self.now is None else f"{self.now:g}"
        return f"line {self.line} (row {self.group_id}, member {self.member}): {self.before:g} -> {now}: {self.why}"


class ReverifyReport(NamedTuple):
    """What scoring again came to."""

    n: int
    """Number of rollouts, those that could not be scored included."""
    changed: list[VerdictChange]
    failed: list[VerdictChange]
    path: Path


def find_rollouts(path: Path) -> Path:
    """The rollouts of a run folder, or the file itself."""
    file = path / ROLLOUTS if path.is_dir() else path
    if not path.exists():
        raise ConfigError(f"{path}: no such folder or file", kind="no_rollouts")
    if not file.is_file():
        raise ConfigError(f"{file}: there are no rollouts", kind="no_rollouts")
    return file


async def reverify(
    config: Config,
    path: Path,
    *,
    concurrency: int = 16,
    timeout_s: float = 600.0,
    spread: WorkerSpread = HERE,
) -> ReverifyReport:
    """Score every line of `path` again; `concurrency` rollouts at once, each within `timeout_s` seconds."""
    file = find_rollouts(path)
    out = file.with_name(REVERIFIED)
    changed: list[VerdictChange] = []
    failed: list[VerdictChange] = []
    n = 0
    async with open_scorer(config, spread, concurrency=concurrency, timeout_s=timeout_s) as score:
        with file.open("rb") as lines, out.open("wb") as target:
            async for (rollout, altered), result in _scored(lines, file, score, concurrency):
                n += 1
                change = _change(n, rollout, result, altered=altered)
                if isinstance(result, Verdict):
                    again = rollout.model_copy(update={"verdict": result})
                    target.write(seal(orjson.dumps(again.to_wire()) + b"\n"))
                    changed += [change] if change else []
                elif change:
                    failed.append(change)
    return ReverifyReport(n, changed, failed, out)


class _StoredRollout(NamedTuple):
    """A rollout as its line has it."""

    rollout: Rollout
    changed: bool
    """True: its line does not match its digest."""


class _Scored(NamedTuple):
    """A rollout, and what it got now."""

    stored: _StoredRollout
    result: Verdict | PaddockError


async def _scored(lines: Iterable[bytes], file: Path, score: Score, concurrency: int) -> AsyncIterator[_Scored]:
    """Rollouts in their order; no more than `concurrency` of them are held."""
    running: deque[tuple[_StoredRollout, asyncio.Future[Verdict | PaddockError]]] = deque()
    try:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                break  # torn: it was never finished
            stored = _read(line, file, number)
            running.append((stored, asyncio.ensure_future(score(line, stored.rollout))))
            if len(running) == concurrency:
                yield _Scored(running[0][0], await running[0][1])
                running.popleft()
        while running:
            yield _Scored(running[0][0], await running[0][1])
            running.popleft()
    finally:
        scores = [score for _, score in running]
        for one in scores:
            one.cancel()
        await asyncio.gather(*scores, return_exceptions=True)


def _read(line: bytes, file: Path, number: int) -> _StoredRollout:
    changed = False
    try:
        check(line, older=True)
    except Fault as fault:
        if fault.kind == "foreign":
            raise fault.error(file, number) from fault
        changed = True
    try:
        return _StoredRollout(rollout_from_wire(orjson.loads(line)), changed)
    except (orjson.JSONDecodeError, PaddockError, ValidationError) as error:
        raise ConfigError(f"{file}:{number}: no rollout: {error}", kind="no_rollouts") from error


def _change(line: int, rollout: Rollout, result: Verdict | PaddockError, *, altered: bool) -> VerdictChange | None:
    if rollout.verdict is None:
        return None
    stamp, before = rollout.row.stamp, rollout.verdict
    where = (line, stamp.group_id, stamp.member, before.reward)
    if not isinstance(result, Verdict):
        return VerdictChange(*where, None, f"{result.kind}: {result.message}")
    if (result.reward, result.reason) == (before.reward, before.reason):
        return None
    why = f"{before.reason} before, {result.reason} now"
    return VerdictChange(*where, result.reward, f"{why}; the stored line does not match its digest" if altered else why)
