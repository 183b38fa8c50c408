"""Reading a run's rollouts for a reader's eyes: one pass, one line in memory at a time, nothing written.

Source  a run's folder, or a file of rollouts. Where the folder's index fits, a list is read from it and not from the
        rollouts, which are some hundred times larger. Members that ended without a verdict come last, from
        `failures.jsonl`: each by its last attempt.
Torn    a last line without its newline had not ended: it is not there.
Errors  ConfigError: no rollouts at that path, or a line that is none, with its number.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from pydantic import ValidationError

from paddock.collect.endings import Ending, FailedAttempt, Member, ending_of
from paddock.collect.folder import FAILURES, INDEX, ROLLOUTS
from paddock.collect.recovery import read_failures
from paddock.collect.reverify import find_rollouts
from paddock.errors import ConfigError, PaddockError
from paddock.http import rollout_from_wire
from paddock.types import Rollout

_TAIL_BYTES = 1 << 20
"""More than an index line has."""


class Entry(NamedTuple):
    """One rollout of a run."""

    ending: Ending
    file: Path
    failed: FailedAttempt | None = None
    """Its last attempt, where it has no verdict."""

    @property
    def place(self) -> str:
        """`group-member`, as commands take it."""
        return f"{self.ending.group_id}-{self.ending.member}"

    @property
    def name(self) -> str:
        return self.ending.row_name or self.ending.uuid or ""

    @property
    def paid(self) -> bool:
        return bool(self.ending.reward)


def entries(run: Path) -> Iterator[Entry]:
    """All rollouts, in the order of the files."""
    file = find_rollouts(run)
    judged: set[Member] = set()
    for ending in _endings(file):
        judged.add(ending.key)
        yield Entry(ending, file)
    if not run.is_dir():
        return
    last = {failed.key: failed for failed in read_failures(run / FAILURES) if failed.key not in judged}
    for failed in last.values():
        yield Entry(failed.ending(), file, failed)


def load(entry: Entry) -> Rollout | None:
    """The whole rollout; None: it has no verdict, and so was not stored."""
    start, end = entry.ending.start, entry.ending.end
    if start is None or end is None:
        return None
    with entry.file.open("rb") as file:
        file.seek(start)
        line = file.read(end - start)
    try:
        return rollout_from_wire(orjson.loads(line))
    except (orjson.JSONDecodeError, PaddockError, ValidationError) as error:
        raise ConfigError(f"{entry.file}: rollout {entry.place} can't be read: {error}", kind="no_rollouts") from error


def _endings(file: Path) -> Iterator[Ending]:
    reached, known = 0, 0
    for ending in _indexed(file):
        reached, known = ending.end or 0, known + 1
        yield ending
    with file.open("rb") as lines:
        lines.seek(reached)
        for number, line in enumerate(lines, known + 1):
            if not line.endswith(b"\n"):
                return
            end = reached + len(line)
            if not line.isspace():
                yield _ending(line, file, number).model_copy(update={"start": reached, "end": end})
            reached = end


def _ending(line: bytes, file: Path, number: int) -> Ending:
    try:
        wire: Any = orjson.loads(line)
        own = wire["rollout"]
        turns = own["turns"]
        # Turns are most of a line, and of no use in a list.
        rollout = rollout_from_wire({**wire, "rollout": {**own, "turns": []}})
    except (orjson.JSONDecodeError, KeyError, TypeError, PaddockError, ValidationError) as error:
        raise ConfigError(f"{file}:{number}: no rollout: {error}", kind="no_rollouts") from error
    return ending_of(rollout).model_copy(update={"turns": len(turns)})


def _indexed(file: Path) -> Iterator[Ending]:
    """What the index says of the file's first lines; nothing where it does not fit."""
    index = file.with_name(INDEX)
    if file.name != ROLLOUTS or not index.is_file() or not _fits(index, file):
        return
    reached = 0
    with index.open("rb") as lines:
        for line in lines:
            ending = _read(line)
            if ending is None or ending.start != reached or ending.end is None:
                return
            reached = ending.end
            yield ending


def _fits(index: Path, file: Path) -> bool:
    """Whether the last rollout that the index knows is where it says."""
    with index.open("rb") as lines:
        lines.seek(max(0, index.stat().st_size - _TAIL_BYTES))
        whole = [line for line in lines.read().splitlines(keepends=True) if line.endswith(b"\n")]
    last = _read(whole[-1]) if whole else None
    if last is None or last.start is None or last.end is None or last.end > file.stat().st_size:
        return False
    with file.open("rb") as rollouts:
        rollouts.seek(last.start)
        line = rollouts.read(last.end - last.start)
    try:
        wire = orjson.loads(line)
        return line.count(b"\n") == 1 and Member(wire["_ng_task_index"], wire["_ng_rollout_index"]) == last.key
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return False


def _read(line: bytes) -> Ending | None:
    try:
        return Ending.model_validate_json(line)
    except ValidationError:
        return None
