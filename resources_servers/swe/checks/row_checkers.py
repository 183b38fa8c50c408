"""What checks rows: this process, or worker processes here or on the nodes of a cluster.

Spread  a worker has a provider of its own, of the machine that it is on: its store, its runtime, its limits. A row goes
        there whole, its report comes back; files are written by the command alone.
Errors  a row whose workers are lost with it is `failed`. What concerns no single row is raised.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from paddock.collect.item_work import ItemResult, MakeItem, WorkItem
from paddock.collect.items import ItemWork, open_item_workers
from paddock.collect.restarts import WORKERS_LOST
from paddock.collect.worker_spread import WorkerSpread
from paddock.errors import PaddockError
from paddock.resources_servers.swe import official
from paddock.resources_servers.swe.checks.drafts import RowDraft, read_draft
from paddock.resources_servers.swe.checks.records import RowReport, refusal
from paddock.resources_servers.swe.checks.row import RowChecker
from paddock.resources_servers.swe.grading import GradingOptions
from paddock.resources_servers.swe.publishers import PublisherTools
from paddock.sandbox import SandboxSettings, open_local_provider
from paddock.types import JsonObject

OPENS = f"{__name__}:open_row_checks"
CheckRow = Callable[[RowDraft, RowReport, Callable[[str], None]], Awaitable[RowReport]]
"""Fills in the report of a row; the last argument is called with each step's name."""


class CheckOptions(BaseModel):
    """How rows are checked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    runs: int = Field(default=3, ge=1)
    """Of the tests, without the fix and with it, each."""
    jobs: int | None = Field(default=None, ge=1)
    """Rows at once; None: one by each worker."""
    tests_timeout_s: float = Field(default=1800.0, gt=0)
    sandbox: SandboxSettings = SandboxSettings()
    """What is not set in it is as each worker's machine has it."""
    publishers: PublisherTools = PublisherTools()
    """Of this machine, or of each worker's."""
    local_repositories: list[Path] = []
    """Folders of this machine, or of each worker's, that a recipe's repository may lie in."""
    spread: WorkerSpread = WorkerSpread()


@asynccontextmanager
async def open_checker(options: CheckOptions, n_rows: int) -> AsyncIterator[CheckRow]:
    """What checks that many rows."""
    if options.spread.is_here:
        async with _open_here(options) as check:
            yield check
        return
    given = options.model_dump(mode="json", exclude_unset=True, exclude={"spread"})
    work = ItemWork(OPENS, given)
    async with open_item_workers(work, options.spread, at_once=options.jobs, n_items=n_rows) as workers:

        async def check_there(draft: RowDraft, report: RowReport, progress: Callable[[str], None]) -> RowReport:
            item = {"row": draft.row, "report": report.model_dump(mode="json")}
            try:
                made = await workers.make(item, on_progress=progress)
            except PaddockError as error:
                if error.kind == WORKERS_LOST:
                    raise
                return report.model_copy(update={"ended": "failed", "findings": [refusal(error.kind, error.message)]})
            return RowReport.model_validate(made.result)

        yield check_there


@asynccontextmanager
async def open_row_checks(given: JsonObject) -> AsyncIterator[MakeItem]:
    """What a worker does."""
    options = CheckOptions.model_validate(given)
    async with _open_here(options) as check:

        async def make(item: WorkItem) -> ItemResult:
            draft = read_draft(item.value["row"], options.publishers)
            report = RowReport.model_validate(item.value["report"])
            return ItemResult((await check(draft, report, item.on_progress)).model_dump(mode="json"))

        yield make


@asynccontextmanager
async def _open_here(options: CheckOptions) -> AsyncIterator[CheckRow]:
    official.require()
    provider = await open_local_provider(options.sandbox)
    try:
        grading = GradingOptions(tests_timeout_s=options.tests_timeout_s, official=False)
        yield RowChecker(provider, grading, options.runs, options.local_repositories).check
    finally:
        await provider.close()
