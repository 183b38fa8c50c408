"""`metrics.jsonl`: a line for each step, and for each validation beside steps; on the disk when `append` returns.

Form    {"step", "trained", "groups", "dropped", "lost", "wall_s", "metrics"}: steps done by then; whether this is the
        report of one; ids of the groups that it was made of, those of them that were dropped, the groups lost since
        (with why, how long they ran, whether their row is run again); seconds since this start of the run; the metrics
        by name.
Law     steps never fall. What a run that goes on from a checkpoint will report again is removed first; so is an
        incomplete last line.
Errors  InfraError, kind `disk`, not retryable, when the disk refuses a line.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from paddock.errors import InfraError
from paddock.types import JsonObject
from paddock.whole_file import sync_folder

METRICS = "metrics.jsonl"


class MetricsLine(NamedTuple):
    """The part of a line that curves and summaries need."""

    step: int
    trained: bool
    metrics: dict[str, float]


class MetricsLog:
    def __init__(self, folder: Path) -> None:
        self._path = folder / METRICS

    def forget(self, after: int) -> None:
        """Remove the lines of steps after this one; -1: all."""
        last_end = 0
        for end, line in self._read():
            if line["step"] > after:
                break
            last_end = end
        with self._path.open("ab") as file:
            file.truncate(last_end)
            os.fsync(file.fileno())
        sync_folder(self._path.parent)

    def append(self, line: JsonObject) -> None:
        try:
            with self._path.open("ab") as file:
                file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InfraError(f"{self._path}: can't be written: {error}", kind="disk", retryable=False) from error

    def lines(self) -> list[MetricsLine]:
        """All lines. Values that are no finite number are left out."""
        return [
            MetricsLine(line["step"], line["trained"], {k: v for k, v in line["metrics"].items() if v is not None})
            for _, line in self._read()
        ]

    def _read(self) -> Iterator[tuple[int, Any]]:
        """Each whole line and where it ends."""
        if not self._path.exists():
            return
        end = 0
        with self._path.open("rb") as file:
            for text in file:
                if not text.endswith(b"\n"):
                    return
                end += len(text)
                yield end, orjson.loads(text)
