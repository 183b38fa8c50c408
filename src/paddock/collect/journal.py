"""The journal of one collection: records what has ended, on the disk and in the running numbers.

Law     a rollout's line, its index line and, when it completes its row, the row's result are written in that order.
        A row's rewards are held only until its last member has ended.
Breaker it stops a collection in which nothing works any more. Only failures that another attempt may mend count
        (outcomes `infra` and `verifier`), and only those of one cause: same owner, kind and stage. A verdict, or a
        failure of another cause, begins the count anew.
"""

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import orjson

from paddock.collect.folder import DURABLE, FAILURES, INDEX, JOURNALS, RESULTS, ROLLOUTS
from paddock.collect.identity import RunIdentity
from paddock.collect.lines import JournalWriter, Part, digest_of, to_line
from paddock.collect.results import FailedAttempt, RolloutResult
from paddock.collect.tally import Board
from paddock.types import RETRIED, JsonObject, Owner


class Groups:
    """Which members have ended; holds the results of incomplete rows."""

    def __init__(self, results: Iterable[RolloutResult] = ()) -> None:
        self._open: dict[int, dict[int, RolloutResult]] = {}
        for result in results:
            self._open.setdefault(result.group_id, {})[result.member] = result

    def missing(self, group_id: int, size: int) -> list[int]:
        """The members of a row that have not ended."""
        members = self._open.get(group_id, {})
        return [member for member in range(size) if member not in members]

    def take_complete(self, group_id: int, size: int) -> list[RolloutResult] | None:
        """The results of a row's members, in order, once all have ended; they are then no longer held. None: not
        yet."""
        members = self._open.get(group_id, {})
        if len(members) < size:
            return None
        del self._open[group_id]
        return [members[member] for member in sorted(members)]

    def add(self, result: RolloutResult) -> None:
        self._open.setdefault(result.group_id, {})[result.member] = result


class Cause(NamedTuple):
    """What failures must have in common to be counted together."""

    owner: Owner
    kind: str
    stage: str | None


class Breaker:
    """Counts attempts that failed for one cause, with no verdict between them."""

    def __init__(self, limit: int) -> None:
        """`limit`: number of failures after which it opens; 0: it never does."""
        self.open = asyncio.Event()
        self.why: str | None = None
        """One line for the user, set when it opens."""
        self._limit = limit
        self._cause: Cause | None = None
        self._count = 0

    def verdict(self) -> None:
        self._cause, self._count = None, 0

    def failure(self, failed: FailedAttempt) -> None:
        if failed.outcome not in RETRIED:
            return
        cause = Cause(failed.owner, failed.kind, failed.stage)
        self._count = self._count + 1 if cause == self._cause else 1
        self._cause = cause
        if self._limit and self._count >= self._limit and not self.open.is_set():
            stage = f" in stage {cause.stage}" if cause.stage else ""
            message = " ".join(failed.message.split())[:300]
            self.why = f"stopped: the last {self._count} attempts all failed with {cause.kind}{stage}: {message}"
            self.open.set()


class Journal:
    """Open while a collection runs."""

    def __init__(self, folder: Path, board: Board, groups: Groups, breaker: Breaker) -> None:
        self.board = board
        self.breaker = breaker
        self.n_ended = 0
        """Rollouts that ended since this journal was opened."""
        self._groups = groups
        self._writer = JournalWriter({name: folder / name for name in JOURNALS}, durable=DURABLE)

    async def rollout(self, result: RolloutResult, line: bytes) -> RolloutResult:
        """Store a rollout with a verdict; returns when it is on the disk."""
        start = self._writer.end_of(ROLLOUTS)
        stored = result.model_copy(update={"start": start, "end": start + len(line), "crc32": digest_of(line)})
        await self._writer.put(Part(ROLLOUTS, line), Part(INDEX, to_line(stored)))
        self.breaker.verdict()
        return stored

    async def failure(self, failed: FailedAttempt) -> None:
        await self._writer.put(Part(FAILURES, to_line(failed)))
        self.board.last_failures.append(failed)
        self.breaker.failure(failed)

    def missing(self, group_id: int, size: int) -> list[int]:
        """Members of a row that have yet to end; where there are none, the row's result line is written."""
        missing = self._groups.missing(group_id, size)
        if not missing:
            self._complete(group_id, size)
        return missing

    def ended(self, result: RolloutResult, size: int) -> None:
        """Count a result that is on the disk; `size`: number of members of its group."""
        self.n_ended += 1
        self.board.add(result)
        self._groups.add(result)
        self._complete(result.group_id, size)

    async def close(self) -> None:
        await self._writer.close()

    def _complete(self, group_id: int, size: int) -> None:
        members = self._groups.take_complete(group_id, size)
        if members is not None:
            self._writer.post(Part(RESULTS, row_result_line(members)))


def row_result_lines(results: Iterable[RolloutResult], identity: RunIdentity) -> Iterator[bytes]:
    """The lines of `results.jsonl` of all rows whose members have ended, in order of rows."""
    all_results = list(results)
    groups = Groups(all_results)
    for group_id in sorted({result.group_id for result in all_results}):
        members = groups.take_complete(group_id, identity.group_size(group_id))
        if members is not None:
            yield row_result_line(members)


def row_result_line(members: Iterable[RolloutResult]) -> bytes:
    """The line of `results.jsonl` of one row."""
    return orjson.dumps(row_result(list(members))) + b"\n"


def row_result(members: list[RolloutResult]) -> JsonObject:
    """The result of one row: the rewards of its members and their mean."""
    rewards = [member.reward for member in members]
    numbers = [reward for reward in rewards if reward is not None]
    outcomes: dict[str, int] = {}
    for member in members:
        outcomes[member.outcome] = outcomes.get(member.outcome, 0) + 1
    return {
        "group_id": members[0].group_id,
        "uuid": members[0].uuid,
        "agent": members[0].agent or None,
        "n": len(members),
        "rewards": rewards,
        "mean": sum(numbers) / len(numbers) if numbers else None,
        "outcomes": outcomes,
    }
