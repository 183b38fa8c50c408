"""Claims about `paddock swe new` and `paddock swe check` over real repositories, images and sandboxes."""

import os
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.collect.test_workers import workers

from paddock.cli import main
from paddock.collect.worker_spread import WorkerSpread
from paddock.http import read_row
from paddock.resources_servers.swe.checks import (
    CheckOptions,
    Reports,
    RowReport,
    Watcher,
    check_rows,
    leaks,
    read_lines,
)
from paddock.resources_servers.swe.checks.visible_text import FixedFile
from paddock.resources_servers.swe.grading.sandbox import GradingSandbox, open_grading_sandbox
from paddock.resources_servers.swe.rows import read
from paddock.sandbox import SandboxLimits, SandboxSettings, open_provider
from paddock.sandbox.images import ImageStore

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.timeout(300)]
TIMES = {"null_s", "gold_s", "total_s"}
STEADY = (1, 4)
"""Lines of rows of which each check says the same: a sound one and one that is refused."""
TARGET, KEPT = "tests/test_harbour.py::test_free", "tests/test_harbour.py::test_old"


def test_a_sound_row_is_written_with_its_lists(checked: Any) -> None:
    rows = checked.command.lines("rows.jsonl")
    assert rows == [{**checked.row("sound"), "FAIL_TO_PASS": [TARGET], "PASS_TO_PASS": [KEPT]}], checked.result
    assert read(read_row(rows[0])).fail_to_pass == [TARGET]


def test_not_all_accepted_is_exit_1_and_each_row_is_said(checked: Any) -> None:
    assert checked.result.code == 1
    said = [line.split(";")[0].split("__")[-1] for line in checked.result.out.splitlines() if not line.startswith(" ")]
    assert sorted(said[:-1]) == ["shown (line 4)", "sound (line 1)", "unfixed (line 3)", "unsteady (line 2)"]
    assert (checked.result.out.count("accepted  "), checked.result.out.count("REFUSED   ")) == (1, 3)
    assert "1 of 4 accepted" in checked.result.out
    assert checked.result.err == ""


def test_the_report_has_every_row_in_order_with_its_times(checked: Any) -> None:
    reports = checked.command.lines("rows.report.jsonl")
    assert [one["line"] for one in reports] == [1, 2, 3, 4]
    for one in reports:
        assert len(one["null_s"]) == len(one["gold_s"]) == 2
        assert 0 < max(one["gold_s"]) < one["total_s"]


def test_a_flaky_target_refuses_the_row_and_is_named(checked: Any) -> None:
    found = checked.findings("unsteady")
    assert found["flaky_target"]["is_refusal"]
    assert "test_at_times[" in found["flaky_target"]["detail"]
    flakes = next(one for one in checked.command.lines("rows.report.jsonl") if one["line"] == 2)["flakes"]
    assert {flake["side"] for flake in flakes} == {"gold"}
    assert {status for flake in flakes for status in flake["statuses"]} == {"PASSED", "FAILED"}


def test_a_fix_that_does_not_pass_its_tests_refuses_the_row(checked: Any) -> None:
    found = checked.findings("unfixed")
    assert found["no_target"]["is_refusal"]
    assert f"with the fix fail: {TARGET}" in found["no_target"]["detail"]


def test_a_hidden_test_and_a_fix_in_the_image_are_found_by_content(checked: Any) -> None:
    found = checked.findings("shown")
    assert "/testbed/attic/notes.txt" in found["test_in_image"]["detail"]
    assert "/testbed/attic/harbour.py" in found["fix_in_image"]["detail"]
    assert found["test_in_image"]["is_refusal"] and found["fix_in_image"]["is_refusal"]


def test_what_is_in_the_report_is_not_run_again(checked: Any) -> None:
    before = checked.command.lines("rows.report.jsonl")
    said = checked.command.check("--runs", "2")
    assert said.code == 1
    assert said.out.count("known from the report") == 4
    assert checked.command.lines("rows.report.jsonl") == before
    assert len(checked.command.lines("rows.jsonl")) == 1


async def test_workers_say_what_one_process_says_also_where_one_is_killed(checked: Any, tmp_path: Path) -> None:
    killed: list[int] = []

    def kill_one(doing: str) -> None:
        if "null 1" in doing and not killed:
            killed.append(workers()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    sandbox = SandboxSettings(home=checked.command.home)
    spread = WorkerSpread(workers=2, restart_wait_s=0.05)
    options = CheckOptions(runs=2, jobs=2, sandbox=sandbox, local_repositories=[checked.command.folder], spread=spread)
    lines = [line for line in read_lines(checked.command.folder / "drafts.jsonl") if line.number in STEADY]
    reports = Reports(tmp_path / "report.jsonl", RowReport)
    results = await check_rows(lines, options, reports, Watcher(kill_one, lambda _: None))
    assert killed and workers() == []
    alone = [RowReport.model_validate(one) for one in checked.command.lines("rows.report.jsonl")]
    expected = [report.model_dump(exclude=TIMES) for report in alone if report.line in STEADY]
    assert [result.report.model_dump(exclude=TIMES) for result in results] == expected
    assert [result.row for result in results if result.row is not None] == checked.command.lines("rows.jsonl")


def test_workers_build_what_a_store_lacks_and_say_what_it_has(checked: Any, capfd: pytest.CaptureFixture[str]) -> None:
    home, folder = checked.command.home, checked.command.folder
    rows = [{**checked.row(name), "FAIL_TO_PASS": [TARGET], "PASS_TO_PASS": [KEPT]} for name in ("sound", "shown")]
    names = [str(row["image"]) for row in rows]
    checked.command.write(rows, "two.jsonl")
    ImageStore(home, payload_id=SandboxSettings().payload_id).remove(names[1])
    words = ["--rows", str(folder / "two.jsonl"), "--local-repository", str(folder), "--home", str(home)]
    capfd.readouterr()
    assert main(["images", "build", *words, "--workers", "2"]) == 0
    out, err = capfd.readouterr()
    assert sorted(out.splitlines()) == sorted(names)
    said = {line.partition(": ")[0]: line for line in err.splitlines()}
    assert said[names[0]].endswith(" s, was there already")
    assert re.fullmatch(r"[0-9.]+ s", said[names[1]].partition(": ")[2])
    assert workers() == []


SITE = "/opt/venv/lib/python3.11/site-packages"
LINES = ["left_over_berths = max(0, count - taken)", "return left_over_berths"]


@pytest.fixture
async def sandbox(checked: Any) -> AsyncIterator[GradingSandbox]:
    """A sandbox of the sound row's image."""
    provider = await open_provider(SandboxSettings(home=checked.command.home))
    instance = read(read_row({**checked.row("sound"), "FAIL_TO_PASS": [TARGET], "PASS_TO_PASS": []}))
    try:
        async with open_grading_sandbox(provider, instance, instance.image, SandboxLimits()) as sandbox:
            yield sandbox
    finally:
        await provider.close()


async def test_history_beyond_the_base_is_told(sandbox: GradingSandbox) -> None:
    assert await leaks.check_history(sandbox, []) == []
    await sandbox.must(
        ["sh", "-c", "git checkout -q -b fixed && git commit -q --allow-empty -m fix && git checkout -q main"], "x"
    )
    told = await leaks.check_history(sandbox, [])
    assert [one.kind for one in told] == ["image_unscrubbed"]
    assert "refs/heads/fixed" in told[0].detail


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("def free_berths(count, taken):\n    left_over_berths = max(0, count - taken)\n", "fix_in_image"),
        ("def free_berths(count, taken):\n    return -count\n", "other_version"),
        ("def free_berths(count, taken):\n    return count\n", None),
    ],
)
async def test_an_installed_copy_is_told_with_its_distribution(
    sandbox: GradingSandbox, text: str, kind: str | None
) -> None:
    await sandbox.write(f"{SITE}/harbour.py", text.encode())
    await sandbox.write(f"{SITE}/harbour-9.1.dist-info/METADATA", b"Name: harbour\n")
    told = await leaks.check_fix(sandbox, [FixedFile("harbour.py", LINES)], LINES)
    assert [one.kind for one in told] == ([] if kind is None else [kind])
    assert all(f"{SITE}/harbour.py (harbour-9.1)" in one.detail for one in told)


async def test_small_files_are_no_hidden_tests(sandbox: GradingSandbox) -> None:
    await sandbox.write("/opt/copy.py", b"")
    assert await leaks.check_tests(sandbox, {"tests/__init__.py": b"", "tests/test_x.py": b"import os\n"}) == []
