"""Trying every line of a run's folder, and mending what can be mended.

Check   nothing is written, a torn last line included. Each line against its digest, its form and the run; the index
        against the rollouts, reward by reward.
Repair  what is wrong in `rollouts.jsonl` and `failures.jsonl` goes to `damaged.jsonl`, byte for byte, before it leaves
        its file; `--resume` then runs what is missing. Of a rollout with two lines the first counts: it is the one that
        was counted first. Lines of an older format are given their digests. Index, results and summary are made again.
Law     a line that is whole but not of a form known here stays where it is, and is said.
Errors  ConfigError: no run in the folder, or a collector is at work in it.
"""

import base64
import os
import time
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import orjson

from paddock.collect.endings import Ending, MemberKey
from paddock.collect.folder import DAMAGED, FAILURES, INDEX, RESULTS, ROLLOUTS, RUN, locked, write_json
from paddock.collect.identity import RunIdentity, read_identity
from paddock.collect.journal import result_lines
from paddock.collect.lines import Fault, FaultKind, StoredLine, is_sealed, seal, stored_lines
from paddock.collect.new_file import new_file
from paddock.collect.recovery import cut_torn_line, failure_lines, read_record, recover, rollout_lines, torn_bytes
from paddock.collect.run import stored_pace, summarise
from paddock.errors import ConfigError
from paddock.types.formats import FORMAT
from paddock.whole_file import write_whole


class Finding(NamedTuple):
    """Something that is wrong in a folder."""

    file: str
    line: int
    """From 1."""
    kind: FaultKind
    why: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.why}"


class FolderReport(NamedTuple):
    """What a folder holds."""

    format: int
    """In which its run was begun."""
    n_verdicts: int
    n_rollouts: int
    """Rollouts that the run has when it is complete."""
    torn: dict[str, int]
    """Bytes of a last line that had not ended, by file: a resumed run cuts them off."""
    findings: list[Finding]


class RepairReport(NamedTuple):
    set_aside: list[Finding]
    """Those that `damaged.jsonl` has."""
    n_dropped: int
    """Lines that said nothing: empty, or the same as an earlier one, byte for byte."""
    n_sealed: int
    """Lines of an older format that were given a digest."""
    left: list[Finding]
    """What can't be mended here."""
    n_verdicts: int
    n_rollouts: int


class _TriedLine(NamedTuple):
    line: StoredLine
    fault: Fault | None


def check_folder(folder: Path) -> FolderReport:
    """Everything that is wrong; none of it is changed."""
    identity = _identity(folder)
    findings: list[Finding] = []
    endings: dict[MemberKey, Ending] = {}
    for line, ending, fault, _ in rollout_lines(folder, identity, parse=True):
        findings += _findings(ROLLOUTS, line, fault)
        if ending is not None:
            endings[ending.key] = ending
    torn = {name: torn_bytes(folder / name) for name in (ROLLOUTS, FAILURES)}
    complete = not findings and not torn[ROLLOUTS]
    for tried in _tried(FAILURES, folder, identity):
        findings += _findings(FAILURES, *tried)
    for line in stored_lines(folder / INDEX, older=identity.older):
        findings += _findings(INDEX, line, _index_fault(line, endings, complete=complete))
    return FolderReport(
        identity.format,
        len(endings),
        identity.n_rollouts,
        {name: size for name, size in torn.items() if size},
        findings,
    )


def repair_folder(folder: Path) -> RepairReport:
    """Mend what can be mended. Nothing is lost: what leaves a journal is in `damaged.jsonl`, or said nothing."""
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
        found = recover(folder)
        write_whole(folder / RESULTS, b"".join(result_lines(found.endings(), identity)))
        summarise(folder, identity.agents, stored_pace(folder))
        return done._replace(n_verdicts=len(found.verdicts))


def _identity(folder: Path) -> RunIdentity:
    if not (folder / RUN).exists():
        raise ConfigError(f"{folder}: {'holds no run' if folder.is_dir() else 'no such folder'}", kind="run_unreadable")
    return read_identity(folder)


def _tried(name: str, folder: Path, identity: RunIdentity) -> Iterator[_TriedLine]:
    if name == ROLLOUTS:
        yield from (_TriedLine(line, fault) for line, _, fault, _ in rollout_lines(folder, identity, parse=True))
    else:
        yield from (_TriedLine(line, fault) for line, _, fault in failure_lines(folder, identity))


def _findings(name: str, line: StoredLine, fault: Fault | None) -> list[Finding]:
    return [Finding(name, line.place.number, fault.kind, fault.why)] if fault is not None else []


def _index_fault(line: StoredLine, endings: dict[MemberKey, Ending], *, complete: bool) -> Fault | None:
    """What the index says that the rollouts do not. `complete`: all rollouts could be read."""
    try:
        said = read_record(Ending.model_validate, line)
    except Fault as fault:
        return fault
    true = endings.get(said.key)
    name = f"rollout {said.group_id}-{said.member}"
    if true is None:
        return Fault("damaged", f"speaks of {name}, which {ROLLOUTS} does not have") if complete else None
    if (said.reward, said.outcome) != (true.reward, true.outcome):
        return Fault(
            "damaged",
            f"says {said.outcome} with reward {said.reward} of {name}, {ROLLOUTS} says {true.outcome} with reward "
            f"{true.reward}",
        )
    if (said.start, said.end) != (true.start, true.end):
        return Fault("damaged", f"says that {name} stands elsewhere in {ROLLOUTS} than it does")
    return None


def _mend(folder: Path, name: str, identity: RunIdentity) -> RepairReport:
    """Write a journal again without what is wrong in it, where something is, or where a line has no digest."""
    done = RepairReport([], 0, 0, [], 0, 0)
    path = folder / name
    if all(tried.fault is None and is_sealed(tried.line.data) for tried in _tried(name, folder, identity)):
        return done
    seen: set[bytes] = set()
    dropped = n_sealed = 0
    aside: list[bytes] = []
    with new_file(path) as target:
        for line, fault in _tried(name, folder, identity):
            same = blake2b(line.data, digest_size=16).digest()
            if fault is None or fault.kind == "foreign":
                n_sealed += not is_sealed(line.data) and fault is None
                target.write(line.data if is_sealed(line.data) or fault is not None else seal(line.data))
                done.left.extend(_findings(name, line, fault))
            elif not line.data.strip() or (fault.kind == "doubled" and same in seen):
                dropped += 1
            else:
                done.set_aside.extend(_findings(name, line, fault))
                aside.append(_aside(name, line, fault))
            seen.add(same)
        # Before the journal is replaced: at no time is a line in neither of the two.
        _append(folder / DAMAGED, aside)
    return done._replace(n_dropped=dropped, n_sealed=n_sealed)


def _append(path: Path, lines: list[bytes]) -> None:
    if lines:
        with path.open("ab") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())


def _aside(name: str, line: StoredLine, fault: Fault) -> bytes:
    """A line of `damaged.jsonl`."""
    try:
        text = {"text": line.data.decode()}
    except UnicodeDecodeError:
        text = {"base64": base64.b64encode(line.data).decode()}
    said = {"file": name, "line": line.place.number, "why": fault.why, "at": time.time(), **text}
    return orjson.dumps(said) + b"\n"
