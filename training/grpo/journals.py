"""The journals of a run: every rollout and every failed attempt, group by group.

    rollouts.jsonl     rollouts with a verdict          index.jsonl               where each of them stands
    failures.jsonl     attempts without one             groups.jsonl              a line for each group that ended
    validation.jsonl   rollouts of validations          validation_failures.jsonl attempts of these without a verdict

Ids     in `index.jsonl` and `failures.jsonl` the group is the run's (`Group.id`), not the row's index: a row comes
        again in each epoch. A run that was begun without an index has none.
Law     a group's lines are written when all its members have ended, so none of a group that was given up is here. What
        was written before a checkpoint is on the disk with it; `restore` forgets what came after. A group that ended
        just before a checkpoint, and had not reached the loop then, is run again by the resumed run: of two groups with
        one id the later counts.
Errors  InfraError, kind `disk`, not retryable, when the disk refuses.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

from paddock.collect.folder import FAILURES, INDEX, ROLLOUTS, write_json
from paddock.collect.lines import JournalWriter, Part, digest_of, to_line
from paddock.collect.results import FailedAttempt, RolloutResult
from paddock.errors import InfraError
from paddock.training.core.records import Group

VALIDATION = "validation.jsonl"
VALIDATION_FAILURES = "validation_failures.jsonl"
GROUPS = "groups.jsonl"
NAMES = (ROLLOUTS, INDEX, FAILURES, VALIDATION, VALIDATION_FAILURES, GROUPS)
LENGTHS = "journals.json"
"""File of a checkpoint: how many bytes of each journal belong to it."""


class GroupLines:
    """The lines of one group, until it has ended: a `Keeper`."""

    def __init__(self) -> None:
        self.rollouts: list[bytes] = []
        self.results: list[RolloutResult] = []
        """One for each line of `rollouts`."""
        self.failures: list[FailedAttempt] = []

    async def rollout(self, result: RolloutResult, line: bytes) -> RolloutResult:
        self.rollouts.append(line)
        self.results.append(result)
        return result

    async def failure(self, failed: FailedAttempt) -> None:
        self.failures.append(failed)


class Journals:
    """The journals in one run's folder. Used from one event loop; opened by the first line."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: JournalWriter | None = None
        self._indexed = True

    async def group(self, group: Group, lines: GroupLines) -> None:
        """Write the lines of a group that has ended."""
        failures = [to_line(failed.model_copy(update={"group_id": group.id})) for failed in lines.failures]
        with self._disk_errors():
            writer = self._open()
            index = _index_lines(group.id, lines, writer.end_of(ROLLOUTS)) if self._indexed else b""
            await writer.put(
                Part(ROLLOUTS, b"".join(lines.rollouts)),
                Part(INDEX, index),
                Part(FAILURES, b"".join(failures)),
                Part(GROUPS, orjson.dumps(_facts(group)) + b"\n"),
            )

    async def validation(self, lines: GroupLines) -> None:
        failures = b"".join(map(to_line, lines.failures))
        with self._disk_errors():
            await self._open().put(Part(VALIDATION, b"".join(lines.rollouts)), Part(VALIDATION_FAILURES, failures))

    async def checkpoint(self, folder: Path) -> None:
        """Put all lines so far on the disk, and the lengths of the journals into `folder`."""
        with self._disk_errors():
            await self._open().put()
            for name in NAMES:
                _sync(self._folder / name)
            write_json(folder / LENGTHS, {name: _length(self._folder / name) for name in NAMES})

    async def restore(self, folder: Path) -> None:
        await self.close()
        cut(self._folder, orjson.loads((folder / LENGTHS).read_bytes()))

    async def close(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            await writer.close()

    def _open(self) -> JournalWriter:
        if self._writer is None:
            self._indexed = bool(_length(self._folder / INDEX)) or not _length(self._folder / ROLLOUTS)
            self._writer = JournalWriter({name: self._folder / name for name in NAMES}, durable=frozenset())
        return self._writer

    @contextmanager
    def _disk_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InfraError(f"{self._folder}: can't be written: {error}", kind="disk", retryable=False) from error


def cut(folder: Path, lengths: "dict[str, int]") -> None:
    """Cut each journal to its length in bytes; those that are not named become empty."""
    for name in NAMES:
        path = folder / name
        if path.exists():
            with path.open("r+b") as file:
                file.truncate(min(lengths.get(name, 0), path.stat().st_size))


def _index_lines(group_id: int, lines: GroupLines, start: int) -> bytes:
    """`start`: where the first of the rollouts' lines begins in its file."""
    made = []
    for result, line in zip(lines.results, lines.rollouts, strict=True):
        place = {"group_id": group_id, "start": start, "end": start + len(line), "crc32": digest_of(line)}
        made.append(to_line(result.model_copy(update=place)))
        start += len(line)
    return b"".join(made)


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
