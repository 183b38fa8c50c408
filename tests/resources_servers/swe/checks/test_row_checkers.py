"""Claims about rows that worker processes check: what is said of them is what one process says, also where one dies."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paddock.collect.worker_spread import WorkerSpread
from paddock.resources_servers.swe.checks import CheckOptions, Reports, RowReport, Watcher, check_rows, read_lines

WATCHER = Watcher(lambda _: None, lambda _: None)


@pytest.mark.slow
async def test_a_row_whose_workers_die_with_it_is_checked_again_next_time(
    row: Callable[..., Any], command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command.write([row()])
    monkeypatch.setattr("paddock.resources_servers.swe.checks.row_checkers.OPENS", "tests.collect.item_functions:dying")
    monkeypatch.syspath_prepend(Path(__file__).parents[4])
    options = CheckOptions(spread=WorkerSpread(workers=2, restart_wait_s=0), jobs=2)
    reports = Reports(tmp_path / "report.jsonl", RowReport)
    lines = read_lines(tmp_path / "drafts.jsonl")
    results = await asyncio.wait_for(check_rows(lines, options, reports, WATCHER), 120)
    assert [result.report.ended for result in results] == ["failed"]
    assert {finding.kind for result in results for finding in result.report.findings} == {"worker_lost"}
    assert Reports(tmp_path / "report.jsonl", RowReport).finished == {}


def test_a_number_of_workers_that_is_none_is_a_mistake(command: Any, row: Callable[..., Any]) -> None:
    command.write([row()])
    assert (said := command.check("--workers", "0")).code == 2
    assert said.err == "--workers needs 1 or more"
