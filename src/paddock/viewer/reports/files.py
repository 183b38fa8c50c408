"""Which files are reports, by their first bytes.

Errors  none: a file that can't be read is no report.
"""

import re
from pathlib import Path
from typing import Literal, get_args

ReportKind = Literal["fidelity", "judge check", "row check", "grading"]
REPORT_KINDS: tuple[ReportKind, ...] = get_args(ReportKind)
REPORT_SUFFIXES = (".json", ".jsonl")
HEAD_BYTES = 200

_STARTS: tuple[tuple[ReportKind, str, re.Pattern[bytes]], ...] = (
    ("fidelity", ".json", re.compile(rb'\{\s*"combinations"\s*:')),
    ("judge check", ".json", re.compile(rb'\{\s*"pairs"\s*:')),
    ("grading", ".json", re.compile(rb'\{\s*"total_instances"\s*:')),
    ("row check", ".jsonl", re.compile(rb'\{\s*"digest"\s*:\s*"[^"]*"\s*,\s*"line"\s*:')),
)


def report_kind(path: Path) -> ReportKind | None:
    """The kind of a report; None: it is none."""
    if path.suffix not in REPORT_SUFFIXES:
        return None
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return None
    return next((kind for kind, suffix, start in _STARTS if path.suffix == suffix and start.match(head)), None)
