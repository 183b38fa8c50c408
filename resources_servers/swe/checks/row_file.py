"""A file of rows, line by line: a line that is no JSON object is reported, not fatal.

Errors  ConfigError: the file can't be read, or holds no line.
"""

import hashlib
import json
from pathlib import Path
from typing import NamedTuple

from paddock.errors import ConfigError
from paddock.types import JsonObject


class RowLine(NamedTuple):
    """One line that is not blank."""

    number: int
    """From 1."""
    row: JsonObject | None
    wrong: str = ""
    """Why it is no row."""

    def digest(self, *more: object) -> str:
        """Return a digest of what the row says, and of `more`."""
        text = json.dumps([self.row, self.wrong, *more], sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def read_lines(path: Path) -> list[RowLine]:
    """Read the rows of a file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", kind="rows_unreadable") from None
    lines = [_line(number, raw) for number, raw in enumerate(data.split(b"\n"), start=1) if raw.strip()]
    if not lines:
        raise ConfigError(f"{path}: holds no row", kind="no_rows")
    return lines


def _line(number: int, raw: bytes) -> RowLine:
    try:
        row = json.loads(raw)
    except ValueError as error:
        return RowLine(number, None, f"not JSON: {error}")
    if not isinstance(row, dict):
        return RowLine(number, None, f"needs a JSON object, got {type(row).__name__}")
    return RowLine(number, row)
