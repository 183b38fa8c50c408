"""What a run's folder already holds: read back after any end, a kill in mid-write included.

Law     a line without its newline was never finished: it is cut off and its rollout runs again. Lines of
        `rollouts.jsonl` that the index does not reach are read whole; an index that does not fit is made again.
Cost    with its index a run is read in about 600 bytes per rollout.
Errors  a broken line that is not the last is a ConfigError naming file and line: this program did not write it.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import orjson
from pydantic import ValidationError

from paddock.collect.endings import TERMINAL, Ending, FailedAttempt, Member, ending_of
from paddock.collect.folder import FAILURES, INDEX, ROLLOUTS, write_whole
from paddock.errors import ConfigError, PaddockError
from paddock.http import rollout_from_wire


class Recovered(NamedTuple):
    """What earlier commands did."""

    verdicts: list[Ending]
    """Rollouts with a verdict, in the order of the file."""
    failures: dict[Member, FailedAttempt]
    """Of each member without a verdict, the last attempt that was final."""
    failed_attempts: dict[Member, int]
    """How many attempts of a member failed so far."""
    repairs: list[str]
    """What was cut off or made again, in words."""

    def endings(self) -> Iterator[Ending]:
        """How every rollout ended that has ended."""
        yield from self.verdicts
        yield from (failed.ending() for failed in self.failures.values())

    def kept(self) -> Iterator[Ending]:
        """The endings that a resumed run leaves as they are."""
        yield from self.verdicts
        yield from (failed.ending() for failed in self.failures.values() if failed.outcome in TERMINAL)


def recover(folder: Path) -> Recovered:
    """Repair the folder's journals, then read them."""
    repairs: list[str] = []
    for name in (ROLLOUTS, FAILURES):
        cut = _cut_torn_line(folder / name)
        if cut:
            repairs.append(f"{name}: cut off a torn last line of {cut} bytes; its rollout runs again")
    verdicts = read_index(folder, repairs)
    judged = {ending.key for ending in verdicts}
    attempts: dict[Member, int] = {}
    failures: dict[Member, FailedAttempt] = {}
    for failed in read_failures(folder / FAILURES):
        attempts[failed.key] = attempts.get(failed.key, 0) + 1
        if failed.final and failed.key not in judged:
            failures[failed.key] = failed
    return Recovered(verdicts, failures, attempts, repairs)


def read_failures(path: Path) -> Iterator[FailedAttempt]:
    for number, line in enumerate(_lines(path), 1):
        try:
            yield FailedAttempt.model_validate_json(line)
        except ValidationError as error:
            raise _broken(path, number, str(error)) from error


def read_index(folder: Path, repairs: list[str]) -> list[Ending]:
    """The endings of all lines of `rollouts.jsonl`; the index file is complete afterwards."""
    rollouts, index = folder / ROLLOUTS, folder / INDEX
    size = rollouts.stat().st_size if rollouts.exists() else 0
    known = _known(index, rollouts, size)
    if known is None:
        repairs.append(f"{INDEX}: did not fit {ROLLOUTS}; made again")
        known = []
    reached = known[-1].end or 0 if known else 0
    found = [*known, *_scan(rollouts, reached, len(known))]
    if found != known or not index.exists() or _torn(index):
        write_whole(index, b"".join(to_line(ending) for ending in found))
    return found


def to_line(record: Ending | FailedAttempt) -> bytes:
    return orjson.dumps(record.model_dump(exclude_defaults=True)) + b"\n"


def _known(index: Path, rollouts: Path, size: int) -> list[Ending] | None:
    """The index's endings; None when they can't be those of the file."""
    known: list[Ending] = []
    for line in _lines(index):
        try:
            ending = Ending.model_validate_json(line)
        except ValidationError:
            return None
        if ending.start != (known[-1].end if known else 0) or ending.end is None:
            return None
        known.append(ending)
    if not known:
        return known
    last = known[-1]
    if last.end is None or last.end > size:
        return None
    with rollouts.open("rb") as file:
        file.seek(last.start or 0)
        line = file.read(last.end - (last.start or 0))
    fits = line.endswith(b"\n") and line.count(b"\n") == 1 and _place(line) == last.key
    return known if fits else None


def _place(line: bytes) -> Member | None:
    try:
        wire = orjson.loads(line)
        return Member(wire["_ng_task_index"], wire["_ng_rollout_index"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None


def _scan(rollouts: Path, start: int, number: int) -> Iterator[Ending]:
    """Endings of the lines after byte `start`; `number` lines stand before it."""
    if not rollouts.exists():
        return
    with rollouts.open("rb") as file:
        file.seek(start)
        for line in file:
            number += 1
            end = start + len(line)
            try:
                ending = ending_of(rollout_from_wire(orjson.loads(line)))
            except (orjson.JSONDecodeError, PaddockError, ValidationError) as error:
                raise _broken(rollouts, number, str(error)) from error
            yield ending.model_copy(update={"start": start, "end": end})
            start = end


def _lines(path: Path) -> Iterable[bytes]:
    """Whole lines; a torn last one is left out."""
    if not path.exists():
        return []
    data = path.read_bytes()
    return data[: data.rfind(b"\n") + 1].splitlines()


def _torn(path: Path) -> bool:
    data = path.read_bytes()
    return bool(data) and not data.endswith(b"\n")


def _cut_torn_line(path: Path) -> int:
    """Cut the file after its last newline; the number of bytes cut."""
    if not path.exists():
        return 0
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        keep = _after_last_newline(path, size)
        if keep < size:
            file.truncate(keep)
            os.fsync(file.fileno())
    return size - keep


def _after_last_newline(path: Path, size: int) -> int:
    step = 1 << 16
    with path.open("rb") as file:
        end = size
        while end > 0:
            begin = max(0, end - step)
            file.seek(begin)
            found = file.read(end - begin).rfind(b"\n")
            if found >= 0:
                return begin + found + 1
            end = begin
    return 0


def _broken(path: Path, number: int, why: str) -> ConfigError:
    return ConfigError(
        f"{path}:{number}: not a line of this file ({why[:200]}); take the line out to have its rollout run again",
        kind="journal_broken",
    )
