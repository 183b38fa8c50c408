"""The turns of all rollouts that a model server serves: appended to disk, recent ones in memory.

File    one per rollout, 0600, named by the SHA-256 of its secret, never by the secret. A JSON line per turn: its own
        fields, and `history`, the digest of its request's history (`paddock.tokens.prefix_match`). What was set for the
        rollout: a line `{"settings": ...}`; the last one counts. A last line `{"state": ...}` when it is closed.
        A line counts when it is whole: a torn last one (a crash in mid-write) is cut off before anything is added.
        No fsync: sampling a turn again is cheaper than a disk flush on every model call, and what has to last, the
        collector's rollout line, is flushed there. A killed process loses nothing, a lost machine the last seconds.
Law     after `freeze` a rollout's record never changes. What was appended is there after a restart. A rollout whose
        turns had to be dropped for lack of space says so for ever; its record is never silently shorter.
Bounds  files idle for `max_age_s` are deleted; beyond `max_disk_bytes` the longest idle rollouts are dropped; beyond
        `max_memory_bytes` the least recently used ones leave memory and are read again when needed.
Units   seconds of `clock` (wall time, as file times are), bytes.
Errors  FrozenError (kind `frozen`, 409); InfraError `turns_dropped`, `turn_store` when the disk refuses,
        `turns_unreadable` when a line before the last is no turn.
        One event loop's business: not for use from several threads, nor one folder's file from several processes.
"""

import hashlib
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import orjson
from pydantic import ValidationError

from paddock.errors import BugError, InfraError, RequestError
from paddock.temporary import Hold
from paddock.tokens.prefix_match import TurnIndex
from paddock.types import Engine, Record, RolloutSettings, Turn, TurnRecord

RecordT = TypeVar("RecordT", bound=Record)
State = Literal["open", "frozen", "dropped"]
MODE = 0o600


class StoredTurns(NamedTuple):
    """What a rollout's file holds."""

    turns: list[Turn]
    state: State
    size: int
    """Bytes; 0: there is no file."""
    histories: dict[str, str]
    """Digest of the history in a turn's request, by turn id; turns of which it is unknown are missing."""
    settings: RolloutSettings


def state_line(state: State) -> bytes:
    return orjson.dumps({"state": state}, option=orjson.OPT_APPEND_NEWLINE)


def settings_line(settings: RolloutSettings) -> bytes:
    return orjson.dumps({"settings": settings.model_dump()}, option=orjson.OPT_APPEND_NEWLINE)


def read_file(path: str) -> StoredTurns:
    """The file's turns, after cutting off a torn last line."""
    with _disk_errors(path):
        try:
            data = Path(path).read_bytes()
        except FileNotFoundError:
            return StoredTurns([], "open", 0, {}, RolloutSettings())
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            os.truncate(path, whole)
    turns: list[Turn] = []
    histories: dict[str, str] = {}
    state: State = "open"
    settings = RolloutSettings()
    for line in data[:whole].splitlines():
        wire = _parse(line, path)
        if "state" in wire:
            state = wire["state"]
            continue
        if "settings" in wire:
            settings = _valid(RolloutSettings, wire["settings"], path)
            continue
        history = wire.pop("history", None)
        turns.append(_valid(Turn, wire, path))
        if isinstance(history, str):
            histories[turns[-1].id] = history
    return StoredTurns(turns, state, whole, histories, settings)


class LineWriter:
    """Adds lines to rollouts' files. The latest files stay open: a rollout's lines come close together."""

    def __init__(self, *, max_open: int = 64) -> None:
        self._max_open = max_open
        self._open: OrderedDict[str, int] = OrderedDict()

    def append(self, path: str, line: bytes, size: int) -> None:
        """Add a line to a file of `size` bytes; a line that does not fit is taken back whole."""
        with _disk_errors(path):
            descriptor = self._open.get(path)
            if descriptor is None:
                while len(self._open) >= self._max_open:
                    os.close(self._open.popitem(last=False)[1])
                descriptor = self._open[path] = _open(path)
            self._open.move_to_end(path)
            written = os.write(descriptor, line)
            if written < len(line):
                os.ftruncate(descriptor, size)
                raise OSError(f"only {written} of {len(line)} bytes could be written")

    def release(self, path: str) -> None:
        """Close the file, if it is open."""
        descriptor = self._open.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)

    def close(self) -> None:
        while self._open:
            os.close(self._open.popitem()[1])


def replace_file(path: str, line: bytes) -> None:
    """Make a line all that the file holds."""
    with _disk_errors(path):
        descriptor = _open(path)
        try:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, line)
        finally:
            os.close(descriptor)


def _open(path: str) -> int:
    """The descriptor of a rollout's file, which is made where there is none."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(path, flags, MODE)
    except FileNotFoundError:
        Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path, flags, MODE)


@contextmanager
def _disk_errors(path: str) -> Iterator[None]:
    """Gives errors of the disk their owner: the machine."""
    try:
        yield
    except OSError as error:
        raise InfraError(f"turns in {Path(path).parent}: {error.strerror or error}", kind="turn_store") from error


def _parse(line: bytes, path: str) -> dict[str, Any]:
    try:
        wire = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise _unreadable(path, error) from error
    if not isinstance(wire, dict):
        raise _unreadable(path, "a line is no object")
    return wire


def _valid(model: type[RecordT], wire: Any, path: str) -> RecordT:
    try:
        return model.model_validate(wire)
    except ValidationError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, why: object) -> InfraError:
    return InfraError(f"turns in {path}: {why}", kind="turns_unreadable", retryable=False)


DAY_S = 86400.0
SWEEP_EVERY_S = 300.0
"""How often an append looks for files to delete."""
ENTRY_BYTES = 1024
"""Memory that a rollout without turns takes, roughly."""
OBJECTS_PER_BYTE = 4
"""Memory that a turn takes as Python objects, per byte of its line; measured: 3.2 with ids, 3.5 for a few words."""


class FrozenError(RequestError):
    """The rollout's record was read: nothing can be added to it."""

    status = 409


class RolloutTurns:
    """The turns of one rollout, in memory; not to be changed by who reads them."""

    __slots__ = ("index", "path", "settings", "size", "state", "turns")

    def __init__(self, stored: StoredTurns, path: str) -> None:
        self.path = path
        self.turns = stored.turns
        self.settings = stored.settings
        self.index = TurnIndex()
        for turn in stored.turns:
            self.index.add(turn, stored.histories.get(turn.id))
        self.state: State = stored.state
        self.size = stored.size

    @property
    def memory_bytes(self) -> int:
        return ENTRY_BYTES + OBJECTS_PER_BYTE * self.size


class TurnStore:
    """Turns by rollout secret."""

    def __init__(
        self,
        folder: Path,
        *,
        engine: Engine,
        max_age_s: float = DAY_S,
        max_disk_bytes: int = 16 << 30,
        max_memory_bytes: int = 512 << 20,
        clock: Callable[[], float] = time.time,
        hold: Hold | None = None,
    ) -> None:
        """`hold`: its claim on the folder, where others would remove what nobody holds."""
        self.folder = folder
        self._hold = hold
        self.engine = engine
        self._max_age_s = max_age_s
        self._max_disk_bytes = max_disk_bytes
        self._max_memory_bytes = max_memory_bytes
        self._clock = clock
        self._recent: OrderedDict[str, RolloutTurns] = OrderedDict()
        self._files = LineWriter()
        self._on_disk: set[str] = set()
        """Keys that may have a file; for others the disk is not asked."""
        self._memory_bytes = 0
        self._unswept_bytes = 0
        self._ids: dict[int, int] = {}
        """Each token id once: an integer of its own in each place would take four times a list's memory."""
        self.sweep()

    def open(self, secret: str) -> RolloutTurns:
        """A rollout that can still grow. FrozenError or InfraError `turns_dropped` for another."""
        rollout = self._rollout(_key(secret))
        if rollout.state == "frozen":
            raise FrozenError("this rollout's turns were read and are frozen: it takes no more calls", kind="frozen")
        if rollout.state == "dropped":
            raise _dropped()
        return rollout

    def turns(self, secret: str) -> Sequence[Turn]:
        """The turns so far of a rollout that can still grow, oldest first; not to be changed by the caller."""
        return self.open(secret).turns

    def set(self, secret: str, settings: RolloutSettings) -> None:
        """Note what holds for the rollout, in place of what did before; when this returns, it is in the file."""
        rollout = self.open(secret)
        self._write(_key(secret), rollout, settings_line(settings))
        rollout.settings = settings

    def append(self, secret: str, turn: Turn, history: str | None = None) -> None:
        """Add a turn; when this returns, it is in the file. `history`: digest of its request's history, if known."""
        rollout = self.open(secret)
        turns = rollout.index.by_id
        if turn.id in turns or (turn.parent is not None and turn.parent not in turns):
            raise BugError(f"turn {turn.id}: its id is taken, or its parent {turn.parent} unknown", kind="turn_invalid")
        wire = turn.to_wire() if history is None else {**turn.to_wire(), "history": history}
        self._write(_key(secret), rollout, orjson.dumps(wire, option=orjson.OPT_APPEND_NEWLINE))
        self._share_ids(turn)
        rollout.turns.append(turn)
        rollout.index.add(turn, history)
        if self._memory_bytes > self._max_memory_bytes:
            self._shrink()
        if self._clock() >= self._next_sweep_at or self._unswept_bytes > self._max_disk_bytes // 16:
            self.sweep()

    def freeze(self, secret: str) -> TurnRecord:
        """The rollout's record, final from now on. Again: the same record. An unknown secret has no turns."""
        key = _key(secret)
        rollout = self._rollout(key)
        if rollout.state == "dropped":
            raise _dropped()
        if rollout.state == "open":
            self._write(key, rollout, state_line("frozen"))
            rollout.state = "frozen"
        return TurnRecord(engine=self.engine, turns=list(rollout.turns))

    def forget(self, secret: str) -> None:
        """Delete a rollout's record; an unknown secret is no error."""
        self._delete(_key(secret))

    def sweep(self) -> None:
        """Apply the bounds of age and disk space."""
        now = self._clock()
        self._next_sweep_at = now + SWEEP_EVERY_S
        self._unswept_bytes = 0
        total = 0
        rollouts: list[tuple[float, int, str]] = []
        for path in self.folder.glob("*.jsonl"):
            self._on_disk.add(path.stem)
            try:
                stat = path.stat()
            except FileNotFoundError:
                continue
            if now - stat.st_mtime > self._max_age_s:
                self._delete(path.stem)
            elif stat.st_size > len(state_line("dropped")):  # dropped ones wait for their age
                total += stat.st_size
                rollouts.append((stat.st_mtime, stat.st_size, path.stem))
        rollouts.sort()
        for _, size, key in rollouts:
            if total <= self._max_disk_bytes:
                return
            self._drop(key)
            total -= size

    def close(self) -> None:
        """Leave memory; the files stay for the next start. A folder without files goes."""
        self._files.close()
        self._recent.clear()
        self._memory_bytes = 0
        if self._hold is not None:
            self._hold.release()
            return
        try:
            self.folder.rmdir()
        except OSError:
            return  # it holds rollouts, or is already gone

    def _rollout(self, key: str) -> RolloutTurns:
        rollout = self._recent.get(key)
        if rollout is None:
            path = self._path(key)
            stored = read_file(path) if key in self._on_disk else StoredTurns([], "open", 0, {}, RolloutSettings())
            for turn in stored.turns:
                self._share_ids(turn)
            rollout = self._recent[key] = RolloutTurns(stored, path)
            self._memory_bytes += rollout.memory_bytes
            self._shrink()
        else:
            self._recent.move_to_end(key)
        return rollout

    def _write(self, key: str, rollout: RolloutTurns, line: bytes) -> None:
        self._on_disk.add(key)
        self._files.append(rollout.path, line, rollout.size)
        rollout.size += len(line)
        self._memory_bytes += OBJECTS_PER_BYTE * len(line)
        self._unswept_bytes += len(line)

    def _shrink(self) -> None:
        while self._memory_bytes > self._max_memory_bytes and len(self._recent) > 1:
            _, rollout = self._recent.popitem(last=False)
            self._memory_bytes -= rollout.memory_bytes

    def _share_ids(self, turn: Turn) -> None:
        for ids in (turn.prompt_ids, turn.sampled_ids):
            if ids is not None:
                ids[:] = map(self._ids.setdefault, ids, ids)

    def _leave_memory(self, key: str) -> None:
        rollout = self._recent.pop(key, None)
        if rollout is not None:
            self._memory_bytes -= rollout.memory_bytes

    def _delete(self, key: str) -> None:
        self._leave_memory(key)
        if key not in self._on_disk:
            return
        self._on_disk.discard(key)
        path = self._path(key)
        self._files.release(path)
        with _disk_errors(path), suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108 - for each rollout: a `Path` costs more than the call

    def _drop(self, key: str) -> None:
        self._leave_memory(key)
        path = self._path(key)
        self._files.release(path)
        replace_file(path, state_line("dropped"))

    def _path(self, key: str) -> str:
        return f"{self.folder}/{key}.jsonl"


@lru_cache(maxsize=4096)
def _key(secret: str) -> str:
    return hashlib.sha256(os.fsencode(secret)).hexdigest()


def _dropped() -> InfraError:
    return InfraError("this rollout's turns were dropped: the turn store's disk space ran out", kind="turns_dropped")
