"""One rollout's turns as a file: a JSON line per turn, appended; a last line `{"state": ...}` when it is closed.

Line    the turn's own fields, and `history`: the digest of its request's history (`paddock.tokens.prefix_match`).
        What was set for the rollout: a line `{"settings": ...}`; the last one counts.
Law     a line counts when it is whole. A torn last line (a crash in mid-write) is cut off before anything is added.
        No fsync: sampling a turn again is cheaper than a disk flush on every model call, and what has to last, the
        collector's rollout line, is flushed there. A killed process loses nothing, a lost machine the last seconds.
Access  files are 0600 and named by the SHA-256 of the rollout's secret, never by the secret.
Errors  InfraError `turn_store` when the disk refuses, `turns_unreadable` when a line before the last is no turn.
"""

import os
from collections import OrderedDict
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import orjson
from pydantic import ValidationError

from paddock.errors import InfraError
from paddock.types import Record, RolloutSettings, Turn

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
    """Digest of what a turn's request told, by turn id; turns of which it is unknown are missing."""
    settings: RolloutSettings


def turn_line(turn: Turn, history: str | None = None) -> bytes:
    """The turn's line. Field by field: a generic dump would copy every id and log-prob once more."""
    usage = turn.usage.__dict__ if turn.usage else None
    spans = [span.__dict__ for span in turn.weight_spans]
    known = {} if history is None else {"history": history}
    return orjson.dumps(
        {**turn.__dict__, "usage": usage, "weight_spans": spans, **known}, option=orjson.OPT_APPEND_NEWLINE
    )


def state_line(state: State) -> bytes:
    return orjson.dumps({"state": state}, option=orjson.OPT_APPEND_NEWLINE)


def settings_line(settings: RolloutSettings) -> bytes:
    return orjson.dumps({"settings": settings.model_dump()}, option=orjson.OPT_APPEND_NEWLINE)


def read(path: Path) -> StoredTurns:
    """The file's turns, after cutting off a torn last line."""
    with _disk(path):
        try:
            data = path.read_bytes()
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


class Appending:
    """Adds lines to rollouts' files. The latest files stay open: a rollout's lines come close together."""

    def __init__(self, *, max_open: int = 64) -> None:
        self._max_open = max_open
        self._open: OrderedDict[Path, int] = OrderedDict()

    def append(self, path: Path, line: bytes, size: int) -> None:
        """Add a line to a file of `size` bytes; a line that does not fit is taken back whole."""
        with _disk(path):
            descriptor = self._descriptor(path)
            written = os.write(descriptor, line)
            if written < len(line):
                os.ftruncate(descriptor, size)
                raise OSError(f"only {written} of {len(line)} bytes could be written")

    def release(self, path: Path) -> None:
        """Close the file, if it is open."""
        descriptor = self._open.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)

    def close(self) -> None:
        while self._open:
            os.close(self._open.popitem()[1])

    def _descriptor(self, path: Path) -> int:
        descriptor = self._open.get(path)
        if descriptor is None:
            while len(self._open) >= self._max_open:
                os.close(self._open.popitem(last=False)[1])
            try:
                descriptor = _open(path)
            except FileNotFoundError:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                descriptor = _open(path)
            self._open[path] = descriptor
        self._open.move_to_end(path)
        return descriptor


def replace(path: Path, line: bytes) -> None:
    """Make a line all that the file holds."""
    with _disk(path):
        descriptor = _open(path)
        try:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, line)
        finally:
            os.close(descriptor)


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, MODE)


class _disk:  # noqa: N801 - read as a statement: `with _disk(path):`
    """What the disk refuses is the machine's failure."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError):
            raise InfraError(f"turns in {self._path.parent}: {error.strerror or error}", kind="turn_store") from error


def _parse(line: bytes, path: Path) -> dict[str, Any]:
    try:
        wire = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise _unreadable(path, error) from error
    if not isinstance(wire, dict):
        raise _unreadable(path, "a line is no object")
    return wire


def _valid(model: type[RecordT], wire: Any, path: Path) -> RecordT:
    try:
        return model.model_validate(wire)
    except ValidationError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, why: object) -> InfraError:
    return InfraError(f"turns in {path}: {why}", kind="turns_unreadable", retryable=False)
