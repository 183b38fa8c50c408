"""Check and repair of a run's folder, line by line.

Check   compares each line with its digest, its form and the run, and the index with the rollouts, reward by reward.
        Nothing is changed; even a torn last line stays.
Repair  what is wrong in `rollouts.jsonl` and `failures.jsonl` goes to `damaged.jsonl`, byte for byte, before it leaves
        its file; `--resume` then runs what is missing. Of a rollout with two lines the first counts, as it did before.
        Lines of an older format are given their digests. Index, results and summary are made again.
Law     a line that is undamaged but of an unknown form stays where it is, and is reported.
Errors  ConfigError: the folder holds no run, or a collector runs in it.
"""

import base64
import os
import time
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import orjson

from paddock.collect.folder import DAMAGED, FAILURES, INDEX, RESULTS, ROLLOUTS, RUN, locked, write_json
from paddock.collect.identity import RunIdentity, read_identity
from paddock.collect.journal import row_result_lines
from paddock.collect.lines import Fault, FaultKind, StoredLine, is_sealed, seal, stored_lines
from paddock.collect.new_file import new_file
from paddock.collect.recovery import cut_torn_line, failure_lines, read_record, recover, rollout_lines, torn_bytes
from paddock.collect.results import MemberKey, RolloutResult
from paddock.collect.run import stored_pace, summarise
from paddock.errors import ConfigError
from paddock.types.formats import FORMAT
from paddock.whole_file import write_whole


class Finding(NamedTuple):
    """One line that is wrong."""

    file: str
    line: int
    """From 1."""
    kind: FaultKind
    why: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.why}"


class FolderReport(NamedTuple):
    """What a check found in a folder."""

    format: int
    """The format in which its run was begun."""
    n_verdicts: int
    n_rollouts: int
    """Rollouts that the run has when it is complete."""
    torn: dict[str, int]
    """Bytes of an unfinished last line, by file: a resumed run cuts them off."""
    findings: list[Finding]


class RepairReport(NamedTuple):
    """What a repair did."""

    set_aside: list[Finding]
    """Lines that were moved to `damaged.jsonl`."""
    n_dropped: int
    """Lines without content: empty, or the same as an earlier one, byte for byte."""
    n_sealed: int
    """Lines of an older format that were given a digest."""
    left: list[Finding]
    """Lines that can't be repaired here."""
    n_verdicts: int
    n_rollouts: int


class _CheckedLine(NamedTuple):
    """A line and its fault, if it has one."""

    line: StoredLine
    fault: Fault | None


def check_folder(folder: Path) -> FolderReport:
    """Report every line that is wrong; nothing is changed."""
    identity = _identity(folder)
    findings: list[Finding] = []
    results: dict[MemberKey, RolloutResult] = {}
    for line, result, fault, _ in rollout_lines(folder, identity, parse=True):
        findings += _findings(ROLLOUTS, line, fault)
        if result is not None:
            results[result.key] = result
    torn = {name: torn_bytes(folder / name) for name in (ROLLOUTS, FAILURES)}
    complete = not findings and not torn[ROLLOUTS]
    for checked in _checked_lines(FAILURES, folder, identity):
        findings += _findings(FAILURES, *checked)
    for line in stored_lines(folder / INDEX, older=identity.older):
        findings += _findings(INDEX, line, _index_fault(line, results, complete=complete))
    return FolderReport(
        identity.format,
        len(results),
        identity.n_rollouts,
        {name: size for name, size in torn.items() if size},
        findings,
    )


def repair_folder(folder: Path) -> RepairReport:
    """Repair what can be repaired. What leaves a journal goes to `damaged.jsonl`, unless it has no content."""
    _identity(folder)
    with locked(folder):
        identity = _identity(folder)
        done = RepairReport([], 0, 0, [], 0, identity.n_rollouts)
        for name in (ROLLOUTS, FAILURES):
            cut_torn_line(folder / name)
            part = _mend(folder, name, identity)
            done = done._replace(
                set_aside=done.set_aside + part.set_aside,
                n_dropped=done.n_dropped + part.n_dropped,
                n_sealed=done.n_sealed + part.n_sealed,
                left=done.left + part.left,
            )
        if done.left:
            return done
        if identity.older:
            identity = identity.model_copy(update={"format": FORMAT})
            write_json(folder / RUN, identity.model_dump())
        (folder / INDEX).unlink(missing_ok=True)
        run = recover(folder)
        write_whole(folder / RESULTS, b"".join(row_result_lines(run.results(), identity)))
        summarise(folder, identity.agents, stored_pace(folder))
        return done._replace(n_verdicts=len(run.verdicts))


def _identity(folder: Path) -> RunIdentity:
    if not (folder / RUN).exists():
        raise ConfigError(f"{folder}: {'holds no run' if folder.is_dir() else 'no such folder'}", kind="run_unreadable")
    return read_identity(folder)


def _checked_lines(name: str, folder: Path, identity: RunIdentity) -> Iterator[_CheckedLine]:
    if name == ROLLOUTS:
        yield from (_CheckedLine(line, fault) for line, _, fault, _ in rollout_lines(folder, identity, parse=True))
    else:
        yield from (_CheckedLine(line, fault) for line, _, fault in failure_lines(folder, identity))


def _findings(name: str, line: StoredLine, fault: Fault | None) -> list[Finding]:
    return [Finding(name, line.span.number, fault.kind, fault.why)] if fault is not None else []


def _index_fault(line: StoredLine, results: dict[MemberKey, RolloutResult], *, complete: bool) -> Fault | None:
    """The fault of a line of the index that contradicts the rollouts. `complete`: all rollouts could be read."""
    try:
        indexed = read_record(RolloutResult.model_validate, line)
    except Fault as fault:
        return fault
    stored = results.get(indexed.key)
    name = f"rollout {indexed.group_id}-{indexed.member}"
    if stored is None:
        return Fault("damaged", f"speaks of {name}, which {ROLLOUTS} does not have") if complete else None
    if (indexed.reward, indexed.outcome) != (stored.reward, stored.outcome):
        return Fault(
            "damaged",
            f"says {indexed.outcome} with reward {indexed.reward} of {name}, "
            f"{ROLLOUTS} says {stored.outcome} with reward {stored.reward}",
        )
    if (indexed.start, indexed.end) != (stored.start, stored.end):
        return Fault("damaged", f"says that {name} stands elsewhere in {ROLLOUTS} than it does")
    return None


def _mend(folder: Path, name: str, identity: RunIdentity) -> RepairReport:
    """Rewrite a journal without its wrong lines; left as it is where all lines are right and have a digest."""
    done = RepairReport([], 0, 0, [], 0, 0)
    path = folder / name
    if all(entry.fault is None and is_sealed(entry.line.data) for entry in _checked_lines(name, folder, identity)):
        return done
    seen: set[bytes] = set()
    dropped = n_sealed = 0
    damaged: list[bytes] = []
    with new_file(path) as target:
        for line, fault in _checked_lines(name, folder, identity):
            same = blake2b(line.data, digest_size=16).digest()
            if fault is None or fault.kind == "foreign":
                n_sealed += not is_sealed(line.data) and fault is None
                target.write(line.data if is_sealed(line.data) or fault is not None else seal(line.data))
                done.left.extend(_findings(name, line, fault))
            elif not line.data.strip() or (fault.kind == "doubled" and same in seen):
                dropped += 1
            else:
                done.set_aside.extend(_findings(name, line, fault))
                damaged.append(_damaged_line(name, line, fault))
            seen.add(same)
        # Before the journal is replaced: at no time is a line in neither of the two.
        _append(folder / DAMAGED, damaged)
    return done._replace(n_dropped=dropped, n_sealed=n_sealed)


def _append(path: Path, lines: list[bytes]) -> None:
    if lines:
        with path.open("ab") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())


def _damaged_line(name: str, line: StoredLine, fault: Fault) -> bytes:
    """A line of `damaged.jsonl`."""
    try:
        text = {"text": line.data.decode()}
    except UnicodeDecodeError:
        text = {"base64": base64.b64encode(line.data).decode()}
    record = {"file": name, "line": line.span.number, "why": fault.why, "at": time.time(), **text}
    return orjson.dumps(record) + b"\n"
