"""Many rows checked: some at a time, each failing alone, what a report already tells not done again.

Alone   two rows of one id, or of one image with different recipes, can't both be: the later is refused.
Errors  what concerns no single row (no runtime, a package that grading needs) is raised.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from paddock.errors import PaddockError
from paddock.resources_servers.swe import official
from paddock.resources_servers.swe.checking.drafts import Draft, finished, label, read_draft
from paddock.resources_servers.swe.checking.records import RowReport, refusal
from paddock.resources_servers.swe.checking.reports import Reports
from paddock.resources_servers.swe.checking.row import RowChecker
from paddock.resources_servers.swe.checking.row_file import Line
from paddock.resources_servers.swe.grading import GradingOptions
from paddock.sandbox import SandboxSettings, open_provider
from paddock.types import JsonObject


class CheckOptions(BaseModel):
    """How rows are checked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    runs: int = Field(default=3, ge=1)
    """Of the tests, without the fix and with it, each."""
    jobs: int = Field(default=1, ge=1)
    """Rows at once."""
    tests_timeout_s: float = Field(default=1800.0, gt=0)
    sandbox: SandboxSettings = SandboxSettings()
    local_repositories: list[Path] = []
    """Folders of this machine that a recipe's repository may lie in."""


class Checked(NamedTuple):
    """A row that is through."""

    report: RowReport
    row: JsonObject | None
    """With its lists; None where it was not accepted."""
    known: bool
    """From the report of an earlier check."""


class Watcher(NamedTuple):
    """Who is told how it goes."""

    doing: Callable[[str], None]
    """What is being done now."""
    done: Callable[[Checked], None]


async def check_rows(
    lines: Sequence[Line], options: CheckOptions, reports: Reports[RowReport], watcher: Watcher
) -> list[Checked]:
    """All rows, in their order; every report is in the file when this returns."""
    official.require()
    provider = await open_provider(options.sandbox)
    try:
        grading = GradingOptions(tests_timeout_s=options.tests_timeout_s, official=False)
        checker = RowChecker(provider, grading, options.runs, options.local_repositories)
        work = _Work(checker, options, reports, watcher)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work.one(line)) for line in lines]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    finally:
        await provider.close()
    checked = [task.result() for task in tasks]
    reports.close([one.report for one in checked])
    return checked


class _Work:
    def __init__(
        self, checker: RowChecker, options: CheckOptions, reports: Reports[RowReport], watcher: Watcher
    ) -> None:
        self._checker = checker
        self._how = (options.runs, options.tests_timeout_s)
        self._turns = asyncio.Semaphore(options.jobs)
        self._reports = reports
        self._watcher = watcher
        self._ids: dict[str, int] = {}
        self._images: dict[str, Draft] = {}

    async def one(self, line: Line) -> Checked:
        digest = line.digest(*self._how)
        # Before the first wait: rows are met in the file's order.
        report, draft = self._meet(line, digest)
        if report.ended == "failed" and draft is not None:
            known = self._reports.known.get(digest)
            if known is not None:
                return self._end(known.model_copy(update={"line": line.number}), line, known=True)
            async with self._turns:
                report = await self._checker.check(draft, report, self._watcher.doing)
                self._reports.add(report)
        return self._end(report, line, known=False)

    def _meet(self, line: Line, digest: str) -> tuple[RowReport, Draft | None]:
        """A report to be filled in, or one that refuses the row at once."""
        name = label(line.row or {})
        report = RowReport(line=line.number, instance_id=name, digest=digest, ended="failed")
        try:
            if line.row is None:
                return _refused(report, "row_invalid", line.wrong), None
            draft = read_draft(line.row)
        except PaddockError as error:
            return _refused(report, error.kind, error.message), None
        instance = draft.instance
        report = report.model_copy(update={"instance_id": instance.instance_id})
        first = self._ids.setdefault(instance.instance_id, line.number)
        if first != line.number:
            told = f"line {first} has the same instance_id"
            return _refused(report, "duplicate_id", told, "give each row a name of its own"), None
        other = self._images.setdefault(instance.image, draft)
        if other.instance.build != instance.build:
            told = f"image {instance.image!r} has another recipe in {other.instance.instance_id}"
            return _refused(report, "image_of_two_recipes", told, "give each recipe an image name of its own"), None
        return report, draft

    def _end(self, report: RowReport, line: Line, *, known: bool) -> Checked:
        row = None
        if report.ended == "accepted" and line.row is not None:
            row = finished(line.row, report.fail_to_pass, report.pass_to_pass)
        checked = Checked(report, row, known)
        self._watcher.done(checked)
        return checked


def _refused(report: RowReport, kind: str, detail: str, mend: str = "") -> RowReport:
    return report.model_copy(update={"ended": "refused", "findings": [refusal(kind, detail, mend)]})
