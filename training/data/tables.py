"""Reads published tables, JSON lines or Parquet, from the first row to the last.

Shapes  a `TableEntry` is one row and where it stands; of a line that is no JSON object it has the problem in place of
        the row. Parquet rows are plain JSON values: times are ISO text.
Memory  one line, or `BATCH_ROWS` rows of a Parquet file.
Errors  ConfigError for a file that can't be read, is of another kind, or needs the package that reads it. Empty lines
        are skipped and not counted.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from paddock.errors import ConfigError
from paddock.types import JsonObject

BATCH_ROWS = 16
LINES = ".jsonl"
PARQUET = ".parquet"


class TableEntry(NamedTuple):
    """One row of a table."""

    where: str
    """File and line, or file and row counted from 0."""
    row: JsonObject
    """Empty where there is a problem."""
    problem: str = ""


def read_table(path: Path) -> Iterator[TableEntry]:
    if path.suffix == LINES:
        return _read_lines(path)
    if path.suffix == PARQUET:
        return _read_parquet(path)
    raise ConfigError(f"{path}: is no table: needs {LINES} (a row a line) or {PARQUET}", kind="table_unknown")


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that are not empty with their numbers, from 1; each as it stands in the file."""
    try:
        with path.open("rb", buffering=1 << 20) as file:
            for number, text in enumerate(file, 1):
                if not text.isspace():
                    yield number, text
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error.strerror or error}", kind="table_unreadable") from error


def tables_in(root: Path, *, split: str = "", kinds: Sequence[str] = (LINES, PARQUET)) -> list[Path]:
    """The tables at a path: the file itself, or those below the folder, by name; if some are named by the split,
    those."""
    if not root.is_dir():
        if root.suffix not in kinds:
            raise ConfigError(f"{root}: needs a file that ends in {' or '.join(kinds)}", kind="table_unknown")
        return [root]
    tables = sorted(path for path in root.rglob("*") if path.suffix in kinds and not _hidden(path, root))
    if not tables:
        raise ConfigError(f"{root}: has no file that ends in {' or '.join(kinds)}", kind="table_missing")
    of_split = [path for path in tables if split and path.name.startswith((f"{split}-", f"{split}."))]
    return of_split or tables


def encode(row: JsonObject) -> bytes:
    """A row as a line."""
    try:
        return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        # Whole numbers beyond 64 bits, which answers to sums are.
        return json.dumps(row, allow_nan=False).encode() + b"\n"


def _read_lines(path: Path) -> Iterator[TableEntry]:
    for number, text in numbered_lines(path):
        where = f"{path}:{number}"
        try:
            row = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            yield TableEntry(where, {}, f"no JSON: {error.msg} at character {error.pos + 1}")
            continue
        if isinstance(row, dict):
            yield TableEntry(where, row)
        else:
            yield TableEntry(where, {}, f"needs a JSON object, got {type(row).__name__}")


def _read_parquet(path: Path) -> Iterator[TableEntry]:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise ConfigError(
            f"{path}: reading Parquet needs pyarrow: install paddock[data]", kind="package_missing"
        ) from error
    try:
        with parquet.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(batch_size=BATCH_ROWS):
                for row in batch.to_pylist():
                    yield TableEntry(f"{path}: row {number}", _plain(row))
                    number += 1
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: can't be read as Parquet: {error}", kind="table_unreadable") from error


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8")
    return value.isoformat() if hasattr(value, "isoformat") else value


def _hidden(path: Path, below: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(below).parts)
