"""Known preferences between two responses: what a judge is held against.

File    JSONL. Ours: `conversation_history` (messages, or a text), `response_1`, `response_2` (a text, or a Responses
        object), `preference` (1 or 2; 0: neither), optionally `strength` (1 to 3) and `principle`.
        As published: HelpSteer3's rows (`context`, `response1`, `response2`, `overall_preference` from -3, the first is
        much better, to 3).
Errors  ConfigError with file, line and key.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from paddock.errors import ConfigError
from paddock.types import JsonObject
from paddock.types.responses import make_response, message_item

STRONGEST = 3


class Preference(NamedTuple):
    """One row of a file of preferences."""

    line: int
    history: list[JsonObject]
    responses: tuple[JsonObject, JsonObject]
    preferred: int | None
    """0: the first; 1: the second; None: neither."""
    strength: int | None
    """1 to 3; None: not stated."""
    principle: str | None = None


def read_preferences(path: Path) -> list[Preference]:
    """Read all preferences of a file, in order; ConfigError where there is none, or a line is wrong."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error.strerror}", kind="preferences_unreadable") from error
    preferences = list(_read(path, lines))
    if not preferences:
        raise ConfigError(f"{path}: holds no preferences", kind="preferences_unreadable")
    return preferences


def _read(path: Path, lines: list[bytes]) -> Iterator[Preference]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise _error(path, number, f"no JSON: {error}") from error
        if not isinstance(row, dict):
            raise _error(path, number, "needs an object")
        try:
            yield _published(row, number) if "overall_preference" in row else _own(row, number)
        except ValueError as error:
            raise _error(path, number, str(error)) from error


def _own(row: JsonObject, number: int) -> Preference:
    preference, strength, principle = row.get("preference"), row.get("strength"), row.get("principle")
    if isinstance(preference, bool) or preference not in (0, 1, 2):
        raise ValueError(f"preference: needs 1 or 2, or 0 for neither, got {preference!r}")
    if isinstance(strength, bool) or strength not in (None, *range(1, STRONGEST + 1)):
        raise ValueError(f"strength: needs 1 to {STRONGEST}, got {strength!r}")
    if not isinstance(principle, str | None):
        raise ValueError(f"principle: needs a text, got {type(principle).__name__}")
    history, responses = _history(row, "conversation_history"), _responses(row, "response_1", "response_2")
    return Preference(number, history, responses, preference - 1 if preference else None, strength, principle)


def _published(row: JsonObject, number: int) -> Preference:
    preference = row["overall_preference"]
    if isinstance(preference, bool) or not isinstance(preference, int) or abs(preference) > STRONGEST:
        raise ValueError(f"overall_preference: needs -{STRONGEST} to {STRONGEST}, got {preference!r}")
    preferred = None if preference == 0 else int(preference > 0)
    responses = _responses(row, "response1", "response2")
    return Preference(number, _history(row, "context"), responses, preferred, abs(preference) or None)


def _history(row: JsonObject, key: str) -> list[JsonObject]:
    given = row.get(key)
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    if not isinstance(given, list) or not given or not all(isinstance(item, dict) for item in given):
        raise ValueError(f"{key}: needs a list of messages")
    return given


def _responses(row: JsonObject, first: str, second: str) -> tuple[JsonObject, JsonObject]:
    return _response(row.get(first), first), _response(row.get(second), second)


def _response(given: Any, key: str) -> JsonObject:
    if isinstance(given, str):
        return make_response([message_item(given)], {}, model="given")
    if isinstance(given, dict) and isinstance(given.get("output"), list):
        return given
    raise ValueError(f"{key}: needs a text or a Responses object with `output`")


def _error(path: Path, number: int, text: str) -> ConfigError:
    return ConfigError(f"{path}:{number}: {text}", kind="preferences_unreadable")
