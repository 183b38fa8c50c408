"""The checks of many rows: some at a time, each failing alone; what a report already has is not done again.

Alone   two rows of one id, or of one image with different recipes, can't both be: the later is refused.
Errors  what concerns no single row (no runtime, a package that grading needs) is raised.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from paddock.errors import PaddockError
from paddock.resources_servers.swe.checks.drafts import RowDraft, label, read_draft, with_lists
from paddock.resources_servers.swe.checks.records import RowReport, refusal
from paddock.resources_servers.swe.checks.reports import Reports
from paddock.resources_servers.swe.checks.row_checkers import CheckOptions, CheckRow, open_checker
from paddock.resources_servers.swe.checks.row_file import RowLine
from paddock.types import JsonObject


class RowCheckResult(NamedTuple):
    """A row whose check has ended."""

    report: RowReport
    row: JsonObject | None
    """With its lists; None where it was not accepted."""
    reused: bool
    """From the report of an earlier check."""


class Watcher(NamedTuple):
    """Callbacks of a check."""

    on_progress: Callable[[str], None]
    """Called with what is being done now."""
    on_result: Callable[[RowCheckResult], None]
    """Called with each row's result as it ends."""


async def check_rows(
    lines: Sequence[RowLine], options: CheckOptions, reports: Reports[RowReport], watcher: Watcher
) -> list[RowCheckResult]:
    """Check all rows; results come in their order, and every report is in the file when this returns."""
    try:
        async with open_checker(options, len(lines)) as check_row, asyncio.TaskGroup() as group:
            jobs = _RowJobs(check_row, options, len(lines), reports, watcher)
            tasks = [group.create_task(jobs.check(line)) for line in lines]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    checked = [task.result() for task in tasks]
    reports.close([result.report for result in checked])
    return checked


class _RowJobs:
    """The checks of the rows of one file."""

    def __init__(
        self, check_row: CheckRow, options: CheckOptions, n_rows: int, reports: Reports[RowReport], watcher: Watcher
    ) -> None:
        self._check_row = check_row
        self._publishers = options.publishers
        self._how = (options.runs, options.tests_timeout_s)
        self._turns = asyncio.Semaphore(options.spread.n_at_once(options.jobs, n_rows))
        self._reports = reports
        self._watcher = watcher
        self._ids: dict[str, int] = {}
        self._images: dict[str, RowDraft] = {}

    async def check(self, line: RowLine) -> RowCheckResult:
        digest = line.digest(*self._how)
        # Before the first wait: rows are met in the file's order.
        report, draft = self._register(line, digest)
        if report.ended == "failed" and draft is not None:
            reused = self._reports.finished.get(digest)
            if reused is not None:
                return self._finish(reused.model_copy(update={"line": line.number}), line, reused=True)
            async with self._turns:
                report = await self._check_row(draft, report, self._watcher.on_progress)
                self._reports.add(report)
        return self._finish(report, line, reused=False)

    def _register(self, line: RowLine, digest: str) -> tuple[RowReport, RowDraft | None]:
        """Make the report to be filled in, or one that refuses the row at once."""
        name = label(line.row or {})
        report = RowReport(line=line.number, instance_id=name, digest=digest, ended="failed")
        try:
            if line.row is None:
                return _refused(report, "row_invalid", line.wrong), None
            draft = read_draft(line.row, self._publishers)
        except PaddockError as error:
            return _refused(report, error.kind, error.message), None
        instance = draft.instance
        report = report.model_copy(update={"instance_id": instance.instance_id})
        first = self._ids.setdefault(instance.instance_id, line.number)
        if first != line.number:
            detail = f"line {first} has the same instance_id"
            return _refused(report, "duplicate_id", detail, "give each row a name of its own"), None
        other = self._images.setdefault(instance.image, draft)
        if other.instance.build != instance.build:
            detail = f"image {instance.image!r} has another recipe in {other.instance.instance_id}"
            return _refused(report, "image_of_two_recipes", detail, "give each recipe an image name of its own"), None
        return report, draft

    def _finish(self, report: RowReport, line: RowLine, *, reused: bool) -> RowCheckResult:
        row = None
        if report.ended == "accepted" and line.row is not None:
            row = with_lists(line.row, report.fail_to_pass, report.pass_to_pass)
        checked = RowCheckResult(report, row, reused)
        self._watcher.on_result(checked)
        return checked


def _refused(report: RowReport, kind: str, detail: str, advice: str = "") -> RowReport:
    return report.model_copy(update={"ended": "refused", "findings": [refusal(kind, detail, advice)]})
