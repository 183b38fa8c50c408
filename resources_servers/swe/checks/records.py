"""What a check says of a row.

Ended   `accepted`; `refused`: the row is at fault, and each refusing finding says what would mend it; `failed`: the
        machine was, and the row is checked again next time.
Finding refuses the row, or is a warning.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

from paddock.types import Record
from paddock.types.renamed import RenamedKeys

Side = Literal["null", "gold"]
"""Without the fix, with it."""
SIDES: tuple[Side, Side] = ("null", "gold")
Ended = Literal["accepted", "refused", "failed"]


class CheckFinding(RenamedKeys, Record):
    """One thing that is wrong, or that its maker should look at."""

    OLD_NAMES: ClassVar[Mapping[str, str]] = {"mend": "advice", "refuses": "is_refusal"}

    kind: str
    """A short stable key."""
    detail: str
    advice: str = ""
    """What would mend it."""
    is_refusal: bool = False


class Flake(Record):
    """A test that does not say the same each time."""

    test: str
    side: Side
    statuses: list[str]
    """One per run; MISSING where the run does not tell."""


class ReportLine(Record):
    """One line of a report file."""

    digest: str
    """A digest of what was done and how: a final report of the same is not made again."""

    @property
    def is_final(self) -> bool:
        """False: it is done again next time."""
        raise NotImplementedError


_OF_THE_START = ("repository_refused", "no_such_commit", "image_missing")
"""Refusals that say what this start of the command could not reach, and nothing of the row."""


class RowReport(ReportLine):
    """One checked row: a line of the report."""

    line: int
    """In the file of rows, from 1."""
    instance_id: str
    ended: Ended
    findings: list[CheckFinding] = []
    flakes: list[Flake] = []
    needs_fix: list[str] = []
    """Tests that are there with the fix alone."""
    fail_to_pass: list[str] = []
    pass_to_pass: list[str] = []
    """The lists of an accepted row."""
    derived: bool = False
    """The row had no lists, or not both."""
    null_s: list[float] = []
    gold_s: list[float] = []
    """Seconds of each run of the tests, its sandbox's making included."""
    total_s: float = 0.0
    """Seconds of the check, the image's building included."""

    @property
    def is_final(self) -> bool:
        return self.ended != "failed" and not any(finding.kind in _OF_THE_START for finding in self.findings)


def refusal(kind: str, detail: str, advice: str = "") -> CheckFinding:
    return CheckFinding(kind=kind, detail=detail, advice=advice, is_refusal=True)


def warning(kind: str, detail: str, advice: str = "") -> CheckFinding:
    return CheckFinding(kind=kind, detail=detail, advice=advice)


def some(names: list[str], shown: int = 5) -> str:
    """The first names, and how many more."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
