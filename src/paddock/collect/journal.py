"""The journal of one collection: what has ended, on the disk and in the numbers.

Law     a rollout's line, its index line and, when it completes its row, the row's result go down in that order.
        A row's rewards are held only until its last member has ended.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import orjson

from paddock.collect.breaker import Breaker
from paddock.collect.endings import Ending, FailedAttempt
from paddock.collect.folder import DURABLE, FAILURES, INDEX, JOURNALS, RESULTS, ROLLOUTS
from paddock.collect.identity import RunIdentity
from paddock.collect.lines import digest_of
from paddock.collect.recovery import to_line
from paddock.collect.tally import Board
from paddock.collect.writer import Part, Writer
from paddock.types import JsonObject


class Groups:
    """Which members have ended; holds the endings of rows that are not complete."""

    def __init__(self, kept: Iterable[Ending] = ()) -> None:
        self._open: dict[int, dict[int, Ending]] = {}
        for ending in kept:
            self._open.setdefault(ending.group_id, {})[ending.member] = ending

    def missing(self, group_id: int, size: int) -> list[int]:
        """The members of a row that have not ended."""
        members = self._open.get(group_id, {})
        return [member for member in range(size) if member not in members]

    def take_complete(self, group_id: int, size: int) -> list[Ending] | None:
        """All members, in order, when all have ended: the row is then let go of."""
        members = self._open.get(group_id, {})
        if len(members) < size:
            return None
        del self._open[group_id]
        return [members[member] for member in sorted(members)]

    def add(self, ending: Ending) -> None:
        self._open.setdefault(ending.group_id, {})[ending.member] = ending


class Journal:
    """Open while a collection runs."""

    def __init__(self, folder: Path, board: Board, groups: Groups, breaker: Breaker) -> None:
        self.board = board
        self.breaker = breaker
        self.n_ended = 0
        """Rollouts that ended since this journal was opened."""
        self._groups = groups
        self._writer = Writer({name: folder / name for name in JOURNALS}, durable=DURABLE)

    async def rollout(self, ending: Ending, line: bytes) -> Ending:
        """Store a rollout with a verdict; done when it is on the disk."""
        start = self._writer.end_of(ROLLOUTS)
        placed = ending.model_copy(update={"start": start, "end": start + len(line), "crc32": digest_of(line)})
        await self._writer.put(Part(ROLLOUTS, line), Part(INDEX, to_line(placed)))
        self.breaker.verdict()
        return placed

    async def failure(self, failed: FailedAttempt) -> None:
        await self._writer.put(Part(FAILURES, to_line(failed)))
        self.breaker.failure(failed)

    def missing(self, group_id: int, size: int) -> list[int]:
        """Members of a row that have yet to end; a row that has none gets its result line, and is let go of."""
        missing = self._groups.missing(group_id, size)
        if not missing:
            self._complete(group_id, size)
        return missing

    def ended(self, ending: Ending, size: int) -> None:
        """Count an ending that is on the disk; `size` is its group's."""
        self.n_ended += 1
        self.board.add(ending)
        self._groups.add(ending)
        self._complete(ending.group_id, size)

    async def close(self) -> None:
        await self._writer.close()

    def _complete(self, group_id: int, size: int) -> None:
        members = self._groups.take_complete(group_id, size)
        if members is not None:
            self._writer.post(Part(RESULTS, result_line(members)))


def result_lines(endings: Iterable[Ending], identity: RunIdentity) -> Iterator[bytes]:
    """The lines of `results.jsonl` of all rows whose members have ended, in order of rows."""
    listed = list(endings)
    groups = Groups(listed)
    for group_id in sorted({ending.group_id for ending in listed}):
        members = groups.take_complete(group_id, identity.group_size(group_id))
        if members is not None:
            yield result_line(members)


def result_line(members: Iterable[Ending]) -> bytes:
    """The line of `results.jsonl` of one row."""
    return orjson.dumps(result(list(members))) + b"\n"


def result(members: list[Ending]) -> JsonObject:
    rewards = [member.reward for member in members]
    given = [reward for reward in rewards if reward is not None]
    outcomes: dict[str, int] = {}
    for member in members:
        outcomes[member.outcome] = outcomes.get(member.outcome, 0) + 1
    return {
        "group_id": members[0].group_id,
        "uuid": members[0].uuid,
        "agent": members[0].agent or None,
        "n": len(members),
        "rewards": rewards,
        "mean": sum(given) / len(given) if given else None,
        "outcomes": outcomes,
    }
