"""Recovery: reads what a run's folder holds after its last command ended in any way, a kill in mid-write included.

Law     a line without its newline was never finished: it is cut off and its rollout runs again. Every other line must
        match its digest and belong to a rollout of this run that has no earlier line. `rollouts.jsonl` is the record;
        the index is used for a line whose place and digest it has, and made again where it differs.
Cost    all bytes of `rollouts.jsonl` are read; lines that the index has are not parsed.
Errors  any other line is a ConfigError that names file, line and `paddock runs repair`.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import orjson
from pydantic import ValidationError

from paddock.collect.folder import FAILURES, INDEX, ROLLOUTS, RUN
from paddock.collect.identity import RunIdentity, read_identity, validation_text
from paddock.collect.lines import Fault, LineSpan, StoredLine, is_sealed, stored_lines, to_line
from paddock.collect.results import FailedAttempt, MemberKey, RolloutResult, result_of, stamped_key
from paddock.errors import PaddockError
from paddock.http import rollout_from_wire
from paddock.types import TERMINAL, JsonObject, Outcome, Rollout
from paddock.types.formats import DIGEST_KEY, FORMAT_KEY
from paddock.whole_file import write_whole


class StoredRun(NamedTuple):
    """What earlier commands left in a run's folder."""

    verdicts: list[RolloutResult]
    """Rollouts with a verdict, in the order of the file."""
    failures: dict[MemberKey, FailedAttempt]
    """The last final attempt of each member without a verdict."""
    failed_attempts: dict[MemberKey, int]
    """How many attempts of a member failed so far."""
    doubts: dict[MemberKey, int]
    """How many of those attempts failed in doubt."""
    repairs: list[str]
    """In words, what was cut off or made again."""

    def results(self) -> Iterator[RolloutResult]:
        """The result of every rollout that has ended."""
        yield from self.verdicts
        yield from (failed.result() for failed in self.failures.values())

    def final_results(self, retry: frozenset[Outcome] = frozenset()) -> Iterator[RolloutResult]:
        """The results that a resumed run does not try again; `retry`: outcomes that it does, besides the usual."""
        terminal = TERMINAL - retry
        yield from self.verdicts
        yield from (failed.result() for failed in self.failures.values() if failed.outcome in terminal)


class RolloutLine(NamedTuple):
    """A line of `rollouts.jsonl`."""

    line: StoredLine
    result: RolloutResult | None
    """None: there is a fault."""
    fault: Fault | None
    indexed: bool
    """True: its result comes from the index, and the line was not parsed."""


class FailureLine(NamedTuple):
    """A line of `failures.jsonl`: its attempt or its fault."""

    line: StoredLine
    failed: FailedAttempt | None
    fault: Fault | None


def recover(folder: Path) -> StoredRun:
    """Repair what a kill left of the folder's journals, then read them."""
    identity = read_identity(folder)
    repairs: list[str] = []
    for name in (ROLLOUTS, FAILURES):
        cut = cut_torn_line(folder / name)
        if cut:
            repairs.append(f"{name}: cut off a torn last line of {cut} bytes; its rollout runs again")
    verdicts = _verdicts(folder, identity, repairs)
    judged = {result.key for result in verdicts}
    attempts: dict[MemberKey, int] = {}
    doubts: dict[MemberKey, int] = {}
    failures: dict[MemberKey, FailedAttempt] = {}
    for failed in _failures(folder, identity):
        attempts[failed.key] = attempts.get(failed.key, 0) + 1
        doubts[failed.key] = doubts.get(failed.key, 0) + failed.doubtful
        if failed.final and failed.key not in judged:
            failures[failed.key] = failed
    return StoredRun(verdicts, failures, attempts, doubts, repairs)


def rollout_lines(folder: Path, identity: RunIdentity, *, parse: bool = False) -> Iterator[RolloutLine]:
    """Every line of `rollouts.jsonl`, with its result or fault. `parse`: parse every line, without the index."""
    index = iter(()) if parse else read_index(folder / INDEX)
    seen: dict[MemberKey, LineSpan] = {}
    for line in stored_lines(folder / ROLLOUTS, older=identity.older):
        result = next(index, None)
        indexed = line.fault is None and result is not None and is_of(result, line)
        if not indexed:
            index, result = iter(()), None
        try:
            result = result or read_result(line)
            _claim(result.key, line.span, identity, seen)
            yield RolloutLine(line, result, None, indexed)
        except Fault as fault:
            yield RolloutLine(line, None, fault, indexed=False)


def failure_lines(folder: Path, identity: RunIdentity) -> Iterator[FailureLine]:
    """Every line of `failures.jsonl`, with its attempt or fault."""
    seen: dict[tuple[MemberKey, int, float], LineSpan] = {}
    for line in stored_lines(folder / FAILURES, older=identity.older):
        try:
            failed = read_record(FailedAttempt.model_validate, line)
            if not identity.has(*failed.key):
                raise Fault("damaged", f"damaged: {_name(failed.key)} is none of this run's rollouts")
            first = seen.setdefault((failed.key, failed.attempt, failed.at), line.span)
            if first is not line.span:
                raise Fault("doubled", f"a second line of the attempt in line {first.number}")
            yield FailureLine(line, failed, None)
        except Fault as fault:
            yield FailureLine(line, None, fault)


def read_failures(path: Path) -> Iterator[FailedAttempt]:
    """The failed attempts in a file; they need not be of one run."""
    for line in stored_lines(path, older=True):
        try:
            yield read_record(FailedAttempt.model_validate, line)
        except Fault as fault:
            raise fault.error(path, line.span.number) from fault


def read_index(path: Path) -> Iterator[RolloutResult]:
    """The results in an index, up to the first line with a fault; a line without a digest has one."""
    for line in stored_lines(path, older=False):
        try:
            yield read_record(RolloutResult.model_validate, line)
        except Fault:
            return


class IndexedLine(NamedTuple):
    """A line of a file of rollouts, whatever is in it."""

    line: StoredLine
    result: RolloutResult | None
    """Its result, as the index has it; None: the index does not have this line."""


def indexed_lines(file: Path, *, older: bool) -> Iterator[IndexedLine]:
    """The lines of a run's rollouts, or of any other file of them, with what the index says of each: up to the first
    line that it does not fit. In a training run only the index knows a rollout's group."""
    index = read_index(file.with_name(INDEX)) if file.name == ROLLOUTS else iter(())
    for line in stored_lines(file, older=older):
        result = None if line.data.isspace() else next(index, None)
        if result is not None and (line.fault is not None or not is_of(result, line)):
            index, result = iter(()), None
        yield IndexedLine(line, result)


def read_rollout(line: StoredLine) -> Rollout:
    """The rollout of a line; raises Fault where it has none."""
    return read_record(rollout_from_wire, line)


def read_result(line: StoredLine) -> RolloutResult:
    """The result of a line's rollout; raises Fault where it has none."""
    rollout = read_rollout(line)
    key = stamped_key(rollout)
    if key is None:
        raise Fault("damaged", "damaged: its row's index or member (`_ng_task_index`, `_ng_rollout_index`) is missing")
    return with_span(result_of(rollout, key), line)


def with_span(result: RolloutResult, line: StoredLine) -> RolloutResult:
    """The result with its line's place and checksum."""
    span = {"start": line.span.start, "end": line.span.end, "crc32": line.crc32}
    return result.model_copy(update=span)


def is_of(result: RolloutResult, line: StoredLine) -> bool:
    """Whether a result of the index is of this line."""
    return (result.start, result.end, result.crc32) == (line.span.start, line.span.end, line.crc32)


RecordT = TypeVar("RecordT")


def may_be_older(file: Path) -> bool:
    """Whether lines of a file of rollouts may be without a digest: in a run of an older format, or in no run."""
    return read_identity(file.parent).older if (file.parent / RUN).exists() else True


def read_record(read: Callable[[JsonObject], RecordT], line: StoredLine) -> RecordT:
    """The record of a line, made by `read`. Raises Fault; `foreign`: the line is undamaged, and can't be read here."""
    if line.fault is not None:
        raise line.fault
    try:
        wire = orjson.loads(line.data)
    except orjson.JSONDecodeError as error:
        raise Fault("damaged", f"no line of this file: no JSON: {error}") from error
    if not isinstance(wire, dict):
        raise Fault("damaged", "no line of this file: no JSON object")
    try:
        return read(own_part(wire))
    except (PaddockError, ValidationError) as error:
        raise _unreadable_fault(error, sealed=is_sealed(line.data)) from error


def own_part(wire: JsonObject) -> JsonObject:
    """A line without the format and the digest with which it is stored."""
    return {key: value for key, value in wire.items() if key not in (FORMAT_KEY, DIGEST_KEY)}


def torn_bytes(path: Path) -> int:
    """How many bytes stand after the file's last newline."""
    size = path.stat().st_size if path.exists() else 0
    return size - _after_last_newline(path, size) if size else 0


def cut_torn_line(path: Path) -> int:
    """Cut the file after its last newline; returns the number of bytes cut."""
    torn = torn_bytes(path)
    if torn:
        with path.open("r+b") as file:
            file.truncate(file.seek(-torn, os.SEEK_END))
            os.fsync(file.fileno())
    return torn


def _verdicts(folder: Path, identity: RunIdentity, repairs: list[str]) -> list[RolloutResult]:
    """The results of all lines of `rollouts.jsonl`; completes the index file."""
    results: list[RolloutResult] = []
    n_indexed = 0
    for line, result, fault, indexed in rollout_lines(folder, identity):
        if result is None:
            raise (fault or Fault("damaged", "damaged")).error(folder / ROLLOUTS, line.span.number)
        results.append(result)
        n_indexed += indexed
    index = folder / INDEX
    data = index.read_bytes() if index.exists() else b""
    whole = index.exists() and (not data or data.endswith(b"\n"))
    if not whole or n_indexed < len(results) or data.count(b"\n") != len(results):
        if n_indexed < data.count(b"\n"):
            repairs.append(f"{INDEX}: did not fit {ROLLOUTS}; made again")
        write_whole(index, b"".join(to_line(result) for result in results))
    return results


def _failures(folder: Path, identity: RunIdentity) -> Iterator[FailedAttempt]:
    for line, failed, fault in failure_lines(folder, identity):
        if failed is None:
            raise (fault or Fault("damaged", "damaged")).error(folder / FAILURES, line.span.number)
        yield failed


def _claim(key: MemberKey, span: LineSpan, identity: RunIdentity, seen: dict[MemberKey, LineSpan]) -> None:
    if not identity.has(*key):
        raise Fault("damaged", f"damaged: {_name(key)} is none of this run's rollouts")
    if key in seen:
        raise Fault("doubled", f"a second line of {_name(key)}, which stands in line {seen[key].number}")
    seen[key] = span


def _name(key: MemberKey) -> str:
    return f"rollout {key.group_id}-{key.member}"


def _unreadable_fault(error: PaddockError | ValidationError, *, sealed: bool) -> Fault:
    cause = error if isinstance(error, ValidationError) else error.__cause__
    why = validation_text(cause) if isinstance(cause, ValidationError) else str(error)
    unknown = isinstance(cause, ValidationError) and all(item["type"] == "extra_forbidden" for item in cause.errors())
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
            newline = file.read(end - begin).rfind(b"\n")
            if newline >= 0:
                return begin + newline + 1
            end = begin
    return 0
