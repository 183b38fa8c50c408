"""The report file: one record a line, added as each ends, so that an interrupted command goes on where it was.

Law     a report is on disk before the next is begun in its place; a torn last line is passed over. At the end the file
        is written anew in the given order. Rows are written beside and moved: the file is whole, or not there.
Errors  ConfigError: a file that can't be written, or holds other lines.
"""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import ValidationError

from paddock.errors import ConfigError
from paddock.resources_servers.swe.checks.records import ReportLine
from paddock.types import JsonObject
from paddock.whole_file import whole_file

ReportT = TypeVar("ReportT", bound=ReportLine)


class Reports(Generic[ReportT]):
    """The reports in a file."""

    def __init__(self, path: Path, kind: type[ReportT], *, again: bool = False) -> None:
        """Read what the file holds; `again`: discard it."""
        self.path = path
        self.finished: dict[str, ReportT] = {} if again else _read_finished(path, kind)
        """Final reports by digest: what need not be done again."""
        if again:
            path.unlink(missing_ok=True)

    def add(self, report: ReportT) -> None:
        try:
            with self.path.open("ab") as file:
                if file.tell() and _last_byte(self.path) != b"\n":
                    file.write(b"\n")
                file.write(report.model_dump_json().encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise ConfigError(f"{self.path}: {error.strerror}", kind="report_unwritable") from None

    def close(self, reports: Sequence[ReportT]) -> None:
        """Write the reports in order, in place of all that was there."""
        _replace(self.path, (report.model_dump_json() for report in reports))


def write_rows(path: Path, rows: Iterable[JsonObject]) -> None:
    """Write rows as JSONL, all or nothing."""
    _replace(path, (json.dumps(row, ensure_ascii=False) for row in rows))


def _read_finished(path: Path, kind: type[ReportT]) -> dict[str, ReportT]:
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", kind="report_unreadable") from None
    finished = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            report = kind.model_validate_json(line)
        except ValidationError:
            if number == len(lines):
                continue
            raise ConfigError(
                f"{path}:{number}: no report of this command; name another place, or remove this one",
                kind="report_invalid",
            ) from None
        if report.is_final:
            finished[report.digest] = report
    return finished


def _last_byte(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1)


def _replace(path: Path, lines: Iterable[str]) -> None:
    try:
        with whole_file(path) as file:
            file.writelines(f"{line}\n".encode(errors="surrogatepass") for line in lines)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", kind="file_unwritable") from None
