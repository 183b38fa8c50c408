"""Turns per rollout: appended as they are sampled, frozen when they are read for good, forgotten when told or too old.

Disk    one JSONL file per rollout, append-only, mode 0600, named by a SHA-256 of its secret, which is never written.
        No flush to the platter per turn: a lost turn is sampled again, and the collector's rollout line is the durable
        record. A torn last line, left by a killed process, is dropped when the file is read again.
Memory  the turns of the latest `max_in_memory` rollouts; the others are read back when asked for.
Bounds  files older than `max_age_s` are swept, then the oldest until all together have at most `max_mib`.
Errors  RequestError (kind `frozen`) on a turn after the freeze.
"""

import hashlib
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from paddock.errors import BugError, RequestError
from paddock.types import Engine, Turn, TurnRecord


class TurnStoreConfig(BaseModel):
    """Where a model server keeps its turns, and how much of them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    folder: str | None = None
    """Folder of the turn files; None: a temporary one, gone with the server."""
    max_age_s: float = Field(default=86400.0, gt=0)
    """Seconds after its last turn that a rollout may be forgotten."""
    max_mib: int = Field(default=4096, ge=1)
    """MiB of turn files kept; the oldest go first."""
    max_in_memory: int = Field(default=1024, ge=1)
    """Rollouts whose turns are kept in memory too."""
    sweep_every_s: float = Field(default=60.0, gt=0)
    """Seconds between two sweeps of the folder."""


_FROZEN = b"null\n"
"""Line that ends the file of a frozen rollout that has left the memory."""


@dataclass
class _Entry:
    turns: list[Turn] = field(default_factory=list)
    frozen: bool = False


class TurnStore:
    """The turns of one model server. Not shared between processes; safe within one event loop."""

    def __init__(
        self,
        folder: Path,
        *,
        engine: Engine,
        config: TurnStoreConfig | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.engine = engine
        self._folder = folder
        self._config = config or TurnStoreConfig()
        self._clock = clock
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._swept = clock()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def turns(self, secret: str) -> list[Turn]:
        """The rollout's turns so far, oldest first; do not change the list."""
        return self._entry(secret).turns

    def append(self, secret: str, turn: Turn) -> None:
        entry = self._entry(secret)
        if entry.frozen:
            raise RequestError("this rollout has ended: its record is frozen", kind="frozen")
        self._write(secret, orjson.dumps(turn.model_dump()) + b"\n")
        entry.turns.append(turn)
        self._sweep_when_due()

    def freeze(self, secret: str) -> TurnRecord:
        """The record; nothing is appended to it any more."""
        entry = self._entry(secret)
        entry.frozen = True
        return TurnRecord(engine=self.engine, turns=list(entry.turns))

    def forget(self, secret: str) -> None:
        """Drop the record; a secret that was never seen is no error."""
        self._entries.pop(secret, None)
        self._path(secret).unlink(missing_ok=True)

    def sweep(self) -> None:
        """Delete files past their age, then the oldest above the size limit."""
        self._swept = self._clock()
        files = sorted(
            ((path, path.stat()) for path in self._folder.glob("*.jsonl")), key=lambda item: item[1].st_mtime
        )
        excess = sum(stat.st_size for _, stat in files) - self._config.max_mib * 2**20
        for path, stat in files:
            if stat.st_mtime < self._swept - self._config.max_age_s or excess > 0:
                path.unlink(missing_ok=True)
                excess -= stat.st_size

    def _sweep_when_due(self) -> None:
        if self._clock() - self._swept >= self._config.sweep_every_s:
            self.sweep()

    def _entry(self, secret: str) -> _Entry:
        entry = self._entries.get(secret)
        if entry is None:
            entry = self._entries[secret] = self._read(secret)
        self._entries.move_to_end(secret)
        while len(self._entries) > self._config.max_in_memory:
            old, evicted = self._entries.popitem(last=False)
            if evicted.frozen and evicted.turns:
                self._write(old, _FROZEN)
        return entry

    def _write(self, secret: str, line: bytes) -> None:
        descriptor = os.open(self._path(secret), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

    def _read(self, secret: str) -> _Entry:
        path = self._path(secret)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return _Entry()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.truncate(path, len(whole))
        lines = whole.splitlines(keepends=True)
        try:
            turns = [Turn.model_validate(orjson.loads(line)) for line in lines if line != _FROZEN]
        except (orjson.JSONDecodeError, ValidationError) as error:
            raise BugError(f"turn file {path.name}: {error}", kind="turns_unreadable") from error
        return _Entry(turns, frozen=_FROZEN in lines)

    def _path(self, secret: str) -> Path:
        return self._folder / f"{hashlib.sha256(secret.encode()).hexdigest()[:40]}.jsonl"
