"""A report's file as a view: its verdict, and blocks.

Errors  none: what is wrong with a file is its verdict. A JSON Lines file is read as far as it can be; lines that are
        damaged are counted, and the first of them named.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import orjson
from pydantic import ValidationError

from paddock.viewer.blocks import Block, LabelledValue
from paddock.viewer.reports import fidelity, grading, judge, rows
from paddock.viewer.reports.files import ReportKind
from paddock.viewer.reports.forms import StoredPart, first_fault, unknown_keys

MAX_BYTES = 256 << 20

PartT = TypeVar("PartT", bound=StoredPart)


class ReportView(NamedTuple):
    """What is shown of a report."""

    verdict: LabelledValue
    warnings: list[str]
    """What could not be read, or is not shown."""
    blocks: list[Block]


class UnreadableReportError(ValueError):
    """A report's file that can't be read; the message says why."""


def read_report(path: Path, kind: ReportKind) -> ReportView:
    """The view of a report."""
    try:
        if kind == "row check":
            return _row_checks(path)
        data = _read(path)
        if kind == "fidelity":
            return _view(_part(fidelity.StoredFidelity, data), fidelity.verdict, fidelity.blocks)
        if kind == "judge check":
            return _view(_part(judge.StoredCalibration, data), judge.verdict, judge.blocks)
        return _view(_part(grading.StoredGrading, data), grading.verdict, grading.blocks)
    except UnreadableReportError as error:
        return ReportView(LabelledValue(kind, "can't be shown", "bad"), [str(error)], [])


def _view(
    report: PartT, verdict: Callable[[PartT], LabelledValue], blocks: Callable[[PartT], Iterable[Block]]
) -> ReportView:
    return ReportView(verdict(report), _later([report]), list(blocks(report)))


def _row_checks(path: Path) -> ReportView:
    *lines, last = _read(path).split(b"\n")
    found: list[rows.StoredRowCheck] = []
    damaged: list[str] = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                found.append(_part(rows.StoredRowCheck, line))
            except UnreadableReportError as error:
                damaged.append(f"line {number}: {error}")
    warnings = [f"{len(damaged)} lines were left out; the first: {damaged[0]}"] if damaged else []
    warnings += ["the last line is not whole: the check goes on, or was ended"] if last.strip() else []
    shown = rows.latest(found)
    return ReportView(rows.verdict(shown), [*warnings, *_later(found)], list(rows.blocks(shown)))


def _later(parts: Sequence[StoredPart]) -> list[str]:
    names = unknown_keys(parts)
    return [f"a later version wrote it; not shown: {', '.join(names)}"] if names else []


def _part(form: type[PartT], data: bytes) -> PartT:
    try:
        return form.model_validate(orjson.loads(data))
    except orjson.JSONDecodeError as error:
        raise UnreadableReportError(f"damaged: {error}") from error
    except ValidationError as error:
        raise UnreadableReportError(f"another form than this version reads: {first_fault(error)}") from error


def _read(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise UnreadableReportError(f"{size:,} bytes, more than {MAX_BYTES:,}")
        return path.read_bytes()
    except OSError as error:
        raise UnreadableReportError(f"can't be read: {error.strerror or error}") from error
