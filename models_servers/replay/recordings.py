"""Turns of a `rollouts.jsonl`, found by their request key.

Law     the n-th request of one key gets the n-th recorded answer to it, again from the first after the last: members
        of a group that began alike each get a recorded member. Ids stay as recorded, so that the next request is
        again one that was recorded.
Bounds  in memory are hashes and file positions; lines are read when they are played.
Errors  ConfigError when the file can't be read or a line is no rollout; RequestError `not_recorded`.
"""

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from paddock.errors import ConfigError, RequestError
from paddock.types import JsonObject


class _TurnPosition(NamedTuple):
    offset: int
    length: int
    turn: int


class Recordings:
    """The recorded turns of one file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._positions: dict[str, list[_TurnPosition]] = {}
        self._plays: Counter[str] = Counter()
        try:
            self._index()
        except OSError as error:
            raise ConfigError(f"rollouts {path}: {error.strerror or error}", kind="rollouts_unreadable") from error

    def play(self, request_key: str) -> list[JsonObject]:
        """The output items of the next recorded answer to the request with this hash."""
        positions = self._positions.get(request_key)
        if positions is None:
            raise RequestError(f"{self._path}: no recorded turn has this request", kind="not_recorded")
        position = positions[self._plays[request_key] % len(positions)]
        self._plays[request_key] += 1
        with self._path.open("rb") as file:
            file.seek(position.offset)
            output: list[JsonObject] = _turns(file.read(position.length))[position.turn]["output"]
        return output

    def _index(self) -> None:
        offset = 0
        with self._path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    hashes = [turn["request_hash"] for turn in _turns(line)]
                except (ValueError, KeyError, TypeError) as error:
                    raise ConfigError(
                        f"{self._path}:{number}: no rollout: {error}", kind="rollouts_unreadable"
                    ) from error
                for index, request_key in enumerate(hashes):
                    self._positions.setdefault(request_key, []).append(_TurnPosition(offset, len(line), index))
                offset += len(line)


def _turns(line: bytes) -> list[Any]:
    if not line.strip():
        return []
    turns: list[Any] = orjson.loads(line)["rollout"]["turns"]
    return turns
