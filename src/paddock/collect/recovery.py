"""What a run's folder already holds: read back after any end, a kill in mid-write included.

Law     a line without its newline was never finished: it is cut off and its rollout runs again. Every other line counts
        only as it was written: its digest is tried, and a line of no rollout of this run, or of a rollout that has a
        line, is none. `rollouts.jsonl` says what was; the index is believed of a line whose place and digest it knows,
        and is made again from the rollouts where it differs.
Cost    all bytes of `rollouts.jsonl` are read; those of lines that the index knows are not parsed.
Errors  a line that does not count is a ConfigError that names file, line and `paddock runs repair`.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import orjson
from pydantic import ValidationError

from paddock.collect.endings import TERMINAL, Ending, FailedAttempt, MemberKey, ending_of, stamped_key
from paddock.collect.folder import FAILURES, INDEX, ROLLOUTS, RUN
from paddock.collect.identity import RunIdentity, in_words, read_identity
from paddock.collect.lines import Fault, LineSpan, StoredLine, is_sealed, seal, stored_lines
from paddock.errors import PaddockError
from paddock.http import rollout_from_wire
from paddock.types import JsonObject, Outcome, Rollout
from paddock.types.formats import DIGEST_KEY, FORMAT_KEY
from paddock.whole_file import write_whole


class Recovered(NamedTuple):
    """What earlier commands did."""

    verdicts: list[Ending]
    """Rollouts with a verdict, in the order of the file."""
    failures: dict[MemberKey, FailedAttempt]
    """Of each member without a verdict, the last attempt that was final."""
    failed_attempts: dict[MemberKey, int]
    """How many attempts of a member failed so far."""
    doubts: dict[MemberKey, int]
    """How many of them in doubt."""
    repairs: list[str]
    """What was cut off or made again, in words."""

    def endings(self) -> Iterator[Ending]:
        """How every rollout ended that has ended."""
        yield from self.verdicts
        yield from (failed.ending() for failed in self.failures.values())

    def kept(self, retry: frozenset[Outcome] = frozenset()) -> Iterator[Ending]:
        """The endings that a resumed run leaves as they are; `retry`: outcomes that it does not."""
        left = TERMINAL - retry
        yield from self.verdicts
        yield from (failed.ending() for failed in self.failures.values() if failed.outcome in left)


class RolloutLine(NamedTuple):
    line: StoredLine
    ending: Ending | None
    """None: there is a fault."""
    fault: Fault | None
    indexed: bool
    """Its ending is the index's: the line was not parsed."""


class FailureLine(NamedTuple):
    line: StoredLine
    failed: FailedAttempt | None
    fault: Fault | None


def recover(folder: Path) -> Recovered:
    """Repair what a kill left of the folder's journals, then read them."""
    identity = read_identity(folder)
    repairs: list[str] = []
    for name in (ROLLOUTS, FAILURES):
        cut = cut_torn_line(folder / name)
        if cut:
            repairs.append(f"{name}: cut off a torn last line of {cut} bytes; its rollout runs again")
    verdicts = _verdicts(folder, identity, repairs)
    judged = {ending.key for ending in verdicts}
    attempts: dict[MemberKey, int] = {}
    doubts: dict[MemberKey, int] = {}
    failures: dict[MemberKey, FailedAttempt] = {}
    for failed in _failures(folder, identity):
        attempts[failed.key] = attempts.get(failed.key, 0) + 1
        doubts[failed.key] = doubts.get(failed.key, 0) + failed.doubtful
        if failed.final and failed.key not in judged:
            failures[failed.key] = failed
    return Recovered(verdicts, failures, attempts, doubts, repairs)


def rollout_lines(folder: Path, identity: RunIdentity, *, parse: bool = False) -> Iterator[RolloutLine]:
    """Every line of `rollouts.jsonl`, with what it says or what is wrong with it. `parse`: the index is not asked."""
    known = iter(()) if parse else read_index(folder / INDEX)
    seen: dict[MemberKey, LineSpan] = {}
    for line in stored_lines(folder / ROLLOUTS, older=identity.older):
        ending = next(known, None)
        indexed = line.fault is None and ending is not None and is_of(ending, line)
        if not indexed:
            known, ending = iter(()), None
        try:
            found = ending or read_ending(line)
            _claim(found.key, line.place, identity, seen)
            yield RolloutLine(line, found, None, indexed)
        except Fault as fault:
            yield RolloutLine(line, None, fault, indexed=False)


def failure_lines(folder: Path, identity: RunIdentity) -> Iterator[FailureLine]:
    """Every line of `failures.jsonl`, likewise."""
    seen: dict[tuple[MemberKey, int, float], LineSpan] = {}
    for line in stored_lines(folder / FAILURES, older=identity.older):
        try:
            failed = read_record(FailedAttempt.model_validate, line)
            if not identity.has(*failed.key):
                raise Fault("damaged", f"damaged: {_name(failed.key)} is none of this run's rollouts")
            first = seen.setdefault((failed.key, failed.attempt, failed.at), line.place)
            if first is not line.place:
                raise Fault("doubled", f"a second line of the attempt in line {first.number}")
            yield FailureLine(line, failed, None)
        except Fault as fault:
            yield FailureLine(line, None, fault)


def read_failures(path: Path) -> Iterator[FailedAttempt]:
    """The failed attempts of a file, whatever run they are of."""
    for line in stored_lines(path, older=True):
        try:
            yield read_record(FailedAttempt.model_validate, line)
        except Fault as fault:
            raise fault.error(path, line.place.number) from fault


def read_index(path: Path) -> Iterator[Ending]:
    """The lines of an index, up to the first that is none: those of an older one have no digests, and don't count."""
    for line in stored_lines(path, older=False):
        try:
            yield read_record(Ending.model_validate, line)
        except Fault:
            return


def read_rollout(line: StoredLine) -> Rollout:
    """Fault where the line holds none."""
    return read_record(rollout_from_wire, line)


def read_ending(line: StoredLine) -> Ending:
    rollout = read_rollout(line)
    key = stamped_key(rollout)
    if key is None:
        raise Fault("damaged", "damaged: its row's index or member (`_ng_task_index`, `_ng_rollout_index`) is missing")
    return placed(ending_of(rollout, key), line)


def placed(ending: Ending, line: StoredLine) -> Ending:
    place = {"start": line.place.start, "end": line.place.end, "crc32": line.crc32}
    return ending.model_copy(update=place)


def is_of(ending: Ending, line: StoredLine) -> bool:
    """Whether an index means this line."""
    return (ending.start, ending.end, ending.crc32) == (line.place.start, line.place.end, line.crc32)


RecordT = TypeVar("RecordT")


def may_be_older(file: Path) -> bool:
    """Whether lines of a file of rollouts may be without a digest: only in a run that was begun in an older format."""
    return read_identity(file.parent).older if (file.parent / RUN).exists() else True


def read_record(read: Callable[[JsonObject], RecordT], line: StoredLine) -> RecordT:
    """What a line holds. Fault: `foreign` where it is as it was written, and can't be read here."""
    if line.fault is not None:
        raise line.fault
    try:
        wire = orjson.loads(line.data)
    except orjson.JSONDecodeError as error:
        raise Fault("damaged", f"no line of this file: no JSON: {error}") from error
    if not isinstance(wire, dict):
        raise Fault("damaged", "no line of this file: no JSON object")
    own = {key: value for key, value in wire.items() if key not in (FORMAT_KEY, DIGEST_KEY)}
    try:
        return read(own)
    except (PaddockError, ValidationError) as error:
        raise _unread(error, sealed=is_sealed(line.data)) from error


def to_line(record: Ending | FailedAttempt) -> bytes:
    return seal(orjson.dumps(record.model_dump(exclude_defaults=True)) + b"\n")


def torn_bytes(path: Path) -> int:
    """How many bytes stand after the file's last newline."""
    size = path.stat().st_size if path.exists() else 0
    return size - _after_last_newline(path, size) if size else 0


def cut_torn_line(path: Path) -> int:
    """Cut the file after its last newline; the number of bytes cut."""
    torn = torn_bytes(path)
    if torn:
        with path.open("r+b") as file:
            file.truncate(file.seek(-torn, os.SEEK_END))
            os.fsync(file.fileno())
    return torn


def _verdicts(folder: Path, identity: RunIdentity, repairs: list[str]) -> list[Ending]:
    """The endings of all lines of `rollouts.jsonl`; the index file is complete afterwards."""
    found: list[Ending] = []
    n_indexed = 0
    for line, ending, fault, indexed in rollout_lines(folder, identity):
        if ending is None:
            raise (fault or Fault("damaged", "damaged")).error(folder / ROLLOUTS, line.place.number)
        found.append(ending)
        n_indexed += indexed
    index = folder / INDEX
    data = index.read_bytes() if index.exists() else b""
    whole = index.exists() and (not data or data.endswith(b"\n"))
    if not whole or n_indexed < len(found) or data.count(b"\n") != len(found):
        if n_indexed < data.count(b"\n"):
            repairs.append(f"{INDEX}: did not fit {ROLLOUTS}; made again")
        write_whole(index, b"".join(to_line(ending) for ending in found))
    return found


def _failures(folder: Path, identity: RunIdentity) -> Iterator[FailedAttempt]:
    for line, failed, fault in failure_lines(folder, identity):
        if failed is None:
            raise (fault or Fault("damaged", "damaged")).error(folder / FAILURES, line.place.number)
        yield failed


def _claim(key: MemberKey, place: LineSpan, identity: RunIdentity, seen: dict[MemberKey, LineSpan]) -> None:
    if not identity.has(*key):
        raise Fault("damaged", f"damaged: {_name(key)} is none of this run's rollouts")
    if key in seen:
        raise Fault("doubled", f"a second line of {_name(key)}, which stands in line {seen[key].number}")
    seen[key] = place


def _name(key: MemberKey) -> str:
    return f"rollout {key.group_id}-{key.member}"


def _unread(error: PaddockError | ValidationError, *, sealed: bool) -> Fault:
    cause = error if isinstance(error, ValidationError) else error.__cause__
    why = in_words(cause) if isinstance(cause, ValidationError) else str(error)
    unknown = isinstance(cause, ValidationError) and all(one["type"] == "extra_forbidden" for one in cause.errors())
    if sealed or unknown:
        return Fault("foreign", f"{why}: it was written by another paddock, or changed by hand")
    return Fault("damaged", f"no line of this file: {why[:300]}")


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
