"""Row files: JSONL, read one line at a time, so that a collection holds only the rows in flight.

Source  one JSON object per line; empty lines are skipped and not counted.
Shapes  a `RowFileLine` is where a row stands and its bytes; `read_line` makes it a Row.
Errors  a file that can't be read is a ConfigError; a line that is no row is a RowError naming file, line and key.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import orjson

from paddock.collect.row_prompt import RowPrompt
from paddock.collect.settings import Selection
from paddock.errors import ConfigError, RowError
from paddock.http import read_row
from paddock.types import JsonObject, Row


class RowSource(NamedTuple):
    """One file of rows."""

    path: Path
    repeats: int = 1
    agent: str | None = None
    """The agent of rows without `agent_ref`; None: the only agent there is."""
    prompt: RowPrompt | None = None
    """Of rows that bring none; None: they all bring one."""


@dataclass(frozen=True, slots=True)
class RowFileLine:
    """One line of a row file."""

    index: int
    """Row index over all sources, from 0: the group id."""
    source: RowSource
    number: int
    """Line number in its file, from 1."""
    text: bytes

    @property
    def where(self) -> str:
        return f"{self.source.path}:{self.number}"


class FileFacts(NamedTuple):
    """What identifies a row file."""

    sha256: str
    size_bytes: int
    n_rows: int


def lines(sources: Sequence[RowSource], selection: Selection) -> Iterator[RowFileLine]:
    """The selected lines of all sources, in order."""
    index = 0
    for source in sources:
        for number, text in _numbered(source.path):
            if selection.is_past(index):
                return
            if selection.takes(index):
                yield RowFileLine(index, source, number, text)
            index += 1


def read_line(line: RowFileLine, *, own_prompt: Callable[[JsonObject], bool] = lambda _: False) -> Row:
    """The row of a line; `own_prompt`: whether its agent makes the model's request, so that it need not bring one."""
    try:
        wire = orjson.loads(line.text)
    except orjson.JSONDecodeError as error:
        raise RowError(
            f"{line.where}: no JSON: {error.msg} at character {error.pos + 1}", kind="row_unreadable"
        ) from error
    if not isinstance(wire, dict):
        raise RowError(f"{line.where}: needs a JSON object, got {type(wire).__name__}", kind="row_unreadable")
    if line.source.prompt is not None:
        wire = line.source.prompt.fill(wire, line.where)
    if own_prompt(wire):
        wire.setdefault("responses_create_params", {"input": []})
    try:
        return read_row(wire)
    except RowError as error:
        raise RowError(f"{line.where}: {error.message}", kind=error.kind) from error


def file_facts(path: Path) -> FileFacts:
    """Hash, size and number of rows, in one pass."""
    digest, size, rows = hashlib.sha256(), 0, 0
    for text in _raw(path):
        digest.update(text)
        size += len(text)
        rows += not text.isspace()
    return FileFacts(digest.hexdigest(), size, rows)


def _numbered(path: Path) -> Iterator[tuple[int, bytes]]:
    return ((number, text) for number, text in enumerate(_raw(path), 1) if not text.isspace())


def _raw(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb", buffering=1 << 20) as file:
            yield from file
    except OSError as error:
        raise ConfigError(f"{path}: rows can't be read: {error.strerror or error}", kind="rows_unreadable") from error
