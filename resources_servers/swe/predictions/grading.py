"""The grading of many predictions: some at a time, each failing alone; what the record has is not done again.

Verdict by the `swe` resources server, as a rollout gets it: the same images, sandboxes, guard, audit and rules.
Outcome `resolved` and `unresolved` are verdicts; `empty_patch` is not run; `error` has no report in SWE-bench's harness
        either: a patch that does not apply and tests that run out of time (the patch's doing: final), and every failure
        of a machine, a grader or a row (nobody's verdict: tried again, and graded anew by the next run).
Errors  what concerns no single prediction (no runtime, a package that grading needs) is raised.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from paddock.errors import BugError, InfraError, PaddockError, RowError, boundary
from paddock.http import read_row
from paddock.resources_servers.swe.checks.drafts import label
from paddock.resources_servers.swe.checks.records import ReportLine
from paddock.resources_servers.swe.checks.reports import Reports
from paddock.resources_servers.swe.checks.row_file import RowLine
from paddock.resources_servers.swe.grading import GradingOptions
from paddock.resources_servers.swe.images import SweImages
from paddock.resources_servers.swe.predictions.file import Prediction
from paddock.resources_servers.swe.publishers import PublisherTools
from paddock.resources_servers.swe.rows import read
from paddock.resources_servers.swe.server import SweServer, SweServerConfig
from paddock.sandbox import SandboxSettings
from paddock.types import JsonObject, Owner, Row, Verdict

Outcome = Literal["resolved", "unresolved", "empty_patch", "error"]
_NO_REPORT = ("patch_does_not_apply", "timeout")
"""Reasons of verdicts that SWE-bench's harness counts among the errors."""


class GradeOptions(BaseModel):
    """How predictions are graded."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    jobs: int = Field(default=2, ge=1)
    """Predictions at once; tests want a core or two each."""
    attempts: int = Field(default=3, ge=1)
    """At one prediction, while a machine or a grader fails in a way that may pass."""
    first_wait_s: float = Field(default=2.0, ge=0)
    """Before the second attempt; then twice as long each time."""
    tests_timeout_s: float = Field(default=1800.0, gt=0)
    sandbox: SandboxSettings = SandboxSettings()
    images: SweImages = SweImages()
    publishers: PublisherTools = PublisherTools()


class GradedPrediction(ReportLine):
    """One prediction: a line of the record."""

    instance_id: str
    model: str
    outcome: Outcome
    reason: str
    """The verdict's, or the failure's kind."""
    detail: str = ""
    failed: Owner | None = None
    """Whose failure kept it from a verdict (`user`: of who wrote the file); None: it has one, or is an empty patch."""
    verdict: JsonObject | None = None
    """`tests` by status, `official` where that differs, `patch_dropped`."""
    total_s: float = 0.0

    @property
    def has_verdict(self) -> bool:
        return self.failed is None

    @property
    def is_final(self) -> bool:
        return self.failed in (None, "user")


async def grade_predictions(
    predictions: Sequence[Prediction],
    lines: Sequence[RowLine],
    options: GradeOptions,
    records: Reports[GradedPrediction],
    done: Callable[[GradedPrediction], None],
) -> list[GradedPrediction]:
    """Grade all predictions, each of which has a row; in their order, and each record is in the file at the end."""
    rows = rows_by_id(lines)
    config = SweServerConfig(
        sandbox=options.sandbox,
        images=options.images,
        publishers=options.publishers,
        max_concurrent_gradings=options.jobs,
        grading=GradingOptions(tests_timeout_s=options.tests_timeout_s),
    )
    server = SweServer(config, name="swe", peers={})
    await server.start()
    try:
        if why_not := await server.why_not_ready():
            raise InfraError(why_not, kind="sandbox_not_ready")
        jobs = _GradingJobs(server, options, records, done)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(jobs.grade(prediction, rows[prediction.instance_id])) for prediction in predictions
            ]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    finally:
        await server.stop()
    graded = [task.result() for task in tasks]
    records.close(graded)
    return graded


def rows_by_id(lines: Sequence[RowLine]) -> dict[str, RowLine]:
    """Return rows by the ids of their instances; the first of an id counts."""
    rows: dict[str, RowLine] = {}
    for line in lines:
        if line.row is not None:
            rows.setdefault(_instance_id(line.row), line)
    return rows


def _instance_id(row: JsonObject) -> str:
    """Return the id of the row's instance; a row that can't be read is called by what it says."""
    try:
        return read(_row(row)).instance_id
    except RowError:
        return label(row)


def _row(wire: Mapping[str, object]) -> Row:
    return read_row({"responses_create_params": {"input": []}, **wire})


class _GradingJobs:
    """The gradings of one file of predictions."""

    def __init__(
        self,
        server: SweServer,
        options: GradeOptions,
        records: Reports[GradedPrediction],
        done: Callable[[GradedPrediction], None],
    ) -> None:
        self._server = server
        self._options = options
        self._turns = asyncio.Semaphore(options.jobs)
        self._records = records
        self._done = done

    async def grade(self, prediction: Prediction, line: RowLine) -> GradedPrediction:
        digest = line.digest(*prediction, self._options.tests_timeout_s)
        graded = self._records.finished.get(digest)
        if graded is None:
            async with self._turns:
                graded = await self._grade(prediction, line, digest)
            self._records.add(graded)
        self._done(graded)
        return graded

    async def _grade(self, prediction: Prediction, line: RowLine, digest: str) -> GradedPrediction:
        blank = GradedPrediction(
            digest=digest,
            instance_id=prediction.instance_id,
            model=prediction.model,
            outcome="empty_patch",
            reason="no_patch",
        )
        if not prediction.patch.strip():
            return blank
        started = time.monotonic()
        try:
            verdict = await self._grade_with_retries(prediction, line)
        except PaddockError as error:
            failure = {"outcome": "error", "reason": error.kind, "detail": error.message, "failed": error.owner}
            return blank.model_copy(update={**failure, "total_s": round(time.monotonic() - started, 2)})
        outcome: Outcome = "resolved" if verdict.reason == "resolved" else "unresolved"
        return blank.model_copy(
            update={
                "outcome": "error" if verdict.reason in _NO_REPORT else outcome,
                "reason": verdict.reason,
                "detail": verdict.detail or "",
                "verdict": verdict.extras,
                "total_s": round(time.monotonic() - started, 2),
            }
        )

    async def _grade_with_retries(self, prediction: Prediction, line: RowLine) -> Verdict:
        wait_s = self._options.first_wait_s
        for left in reversed(range(self._options.attempts)):
            try:
                return await self._verdict(prediction, line)
            except PaddockError as error:
                if not error.retryable or left == 0:
                    raise
            await asyncio.sleep(wait_s)
            wait_s *= 2
        raise AssertionError("an attempt returns or raises")

    async def _verdict(self, prediction: Prediction, line: RowLine) -> Verdict:
        assert line.row is not None  # lines without a row have no id
        with boundary(BugError, f"grading {prediction.instance_id}"):
            row = _row(line.row)
            return await self._server.verify(
                self._server.read_task(row), row, {"output": [], "model_patch": prediction.patch}
            )
