"""The journals of a run: every rollout and every failed attempt, group by group.

    rollouts.jsonl     rollouts with a verdict          validation.jsonl   those of validations
    failures.jsonl     failed attempts of both          groups.jsonl       a line for each group that ended

Law     a group's lines are written when all its members have ended, so none of a group that was given up is here. What
        was written before a checkpoint is on the disk with it; `restore` forgets what came after. A group that ended
        just before a checkpoint, and had not reached the loop then, is run again by the resumed run: of two groups with
        one id the later counts.
Errors  InfraError, kind `disk`, not retryable, when the disk refuses.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import orjson

from paddock.collect.folder import write_json
from paddock.collect.lines import JournalWriter, Part, to_line
from paddock.collect.results import FailedAttempt, RolloutResult
from paddock.errors import InfraError
from paddock.training.core.records import Group

ROLLOUTS = "rollouts.jsonl"
VALIDATION = "validation.jsonl"
FAILURES = "failures.jsonl"
GROUPS = "groups.jsonl"
NAMES = (ROLLOUTS, VALIDATION, FAILURES, GROUPS)
LENGTHS = "journals.json"
"""File of a checkpoint: how many bytes of each journal belong to it."""


class GroupLines:
    """The lines of one group, until it has ended: a `Keeper`."""

    def __init__(self) -> None:
        self.rollouts: list[bytes] = []
        self.failures: list[bytes] = []

    async def rollout(self, result: RolloutResult, line: bytes) -> RolloutResult:
        self.rollouts.append(line)
        return result

    async def failure(self, failed: FailedAttempt) -> None:
        self.failures.append(to_line(failed))


class Journals:
    """The journals in one run's folder. Used from one event loop; opened by the first line."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: JournalWriter | None = None

    async def group(self, group: Group, lines: GroupLines) -> None:
        """Write the lines of a group that has ended."""
        await self._put([*_parts(ROLLOUTS, lines), Part(GROUPS, orjson.dumps(_facts(group)) + b"\n")])

    async def validation(self, lines: GroupLines) -> None:
        await self._put(_parts(VALIDATION, lines))

    async def checkpoint(self, folder: Path) -> None:
        """Put all lines so far on the disk, and the lengths of the journals into `folder`."""
        await self._put([])
        try:
            for name in NAMES:
                _sync(self._folder / name)
            write_json(folder / LENGTHS, {name: _length(self._folder / name) for name in NAMES})
        except OSError as error:
            raise _disk_error(self._folder, error) from error

    async def restore(self, folder: Path) -> None:
        await self.close()
        cut(self._folder, orjson.loads((folder / LENGTHS).read_bytes()))

    async def close(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            await writer.close()

    async def _put(self, parts: Sequence[Part]) -> None:
        try:
            if self._writer is None:
                self._writer = JournalWriter({name: self._folder / name for name in NAMES}, durable=frozenset())
            await self._writer.put(*parts)
        except OSError as error:
            raise _disk_error(self._folder, error) from error


def cut(folder: Path, lengths: "dict[str, int]") -> None:
    """Cut each journal to its length in bytes; those that are not named become empty."""
    for name in NAMES:
        path = folder / name
        if path.exists():
            with path.open("r+b") as file:
                file.truncate(min(lengths.get(name, 0), path.stat().st_size))


def _parts(name: str, lines: GroupLines) -> list[Part]:
    return [Part(name, b"".join(lines.rollouts)), Part(FAILURES, b"".join(lines.failures))]


def _facts(group: Group) -> "dict[str, object]":
    return {
        "id": group.id,
        "row": group.row,
        "epoch": group.epoch,
        "version": group.version,
        "oldest_version": group.oldest_version,
        "outcomes": [member.outcome for member in group.members],
        "rewards": [member.reward for member in group.members],
        "seconds": group.seconds,
    }


def _sync(path: Path) -> None:
    if path.exists():
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _disk_error(folder: Path, error: OSError) -> InfraError:
    return InfraError(f"{folder}: can't be written: {error}", kind="disk", retryable=False)
