"""Claims about rows and reports on disk, and about what the command refuses before any sandbox is made."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paddock.errors import ConfigError, RowError
from paddock.http import read_row
from paddock.resources_servers.swe.checks import Reports, RowReport, read_draft, read_lines, with_lists
from paddock.resources_servers.swe.checks.visible_text import check_text, distinctive, fixed_files
from paddock.resources_servers.swe.rows import read
from paddock.sandbox.images import ImageStore
from paddock.types import JsonObject

Make = Callable[..., JsonObject]


def report(digest: str, **fields: Any) -> RowReport:
    return RowReport.model_validate({"line": 1, "instance_id": "a", "digest": digest, "ended": "accepted", **fields})


@pytest.mark.parametrize("given", [{}, {"FAIL_TO_PASS": None}, {"FAIL_TO_PASS": []}, {"FAIL_TO_PASS": "[]"}])
def test_an_own_row_may_lack_its_targets_here_and_nowhere_else(row: Make, given: JsonObject) -> None:
    draft = read_draft(row(**given))
    assert (draft.instance.fail_to_pass, draft.has_targets, draft.has_pass_to_pass) == ([], False, False)
    with pytest.raises(RowError, match="FAIL_TO_PASS"):
        read(read_row(row(PASS_TO_PASS=[], **given)))


def test_a_row_of_another_form_needs_its_lists(row: Make) -> None:
    with pytest.raises(RowError, match="FAIL_TO_PASS"):
        read_draft(
            row(
                test_command=None,
                log_parser="parse_log_pytest",
                repo="a/b",
                eval_script=": '>>>>> Start Test Output'\n",
                test_patch="x",
                FAIL_TO_PASS=None,
            )
        )


def test_lists_go_back_as_the_row_keeps_them(row: Make) -> None:
    assert with_lists(row(FAIL_TO_PASS='["b"]'), ["a"], ["c"]) == row(FAIL_TO_PASS='["a"]', PASS_TO_PASS=["c"])
    elsewhere = row(test_command=None)
    assert with_lists(elsewhere, ["a"], ["c"]) == elsewhere


def test_lines_know_their_number_and_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1}\n\n[1]\n{"a"\n')
    lines = read_lines(path)
    assert [(one.number, one.row) for one in lines] == [(1, {"a": 1}), (3, None), (4, None)]
    assert "needs a JSON object" in lines[1].wrong
    assert "not JSON" in lines[2].wrong
    assert len({one.digest() for one in lines}) == 3
    assert lines[0].digest(3) != lines[0].digest(2)


def test_reports_are_gone_on_with_but_for_failures_and_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    reports = Reports(path, RowReport)
    reports.add(report("a"))
    reports.add(report("b", ended="failed"))
    with path.open("a") as file:
        file.write('{"line": 3, "inst')
    again = Reports(path, RowReport)
    assert list(again.finished) == ["a"]
    again.add(report("c"))
    again.close([report("c"), report("a")])
    assert [json.loads(line)["digest"] for line in path.read_text().splitlines()] == ["c", "a"]
    assert Reports(path, RowReport, again=True).finished == {}


def test_a_report_of_the_version_before_is_read(tmp_path: Path) -> None:
    finding = {"kind": "ids_missing", "detail": "none", "mend": "write ids as runs do", "refuses": True}
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps({**report("a").model_dump(), "findings": [finding]}) + "\n")
    (read,) = Reports(path, RowReport).finished["a"].findings
    assert (read.advice, read.is_refusal) == ("write ids as runs do", True)


def test_a_file_of_other_lines_is_no_report(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"instance_id": "a"}\n{"instance_id": "b"}\n')
    with pytest.raises(ConfigError, match=r"rows.jsonl:1: no report"):
        Reports(path, RowReport)
    assert path.read_text().count("\n") == 2


def test_lines_of_the_fix_and_names_of_its_files_in_the_text_are_warned_of(row: Make) -> None:
    patch = (
        "diff --git a/harbour.py b/harbour.py\n--- a/harbour.py\n+++ b/harbour.py\n@@ -1,2 +1,5 @@\n"
        "+import something_long_enough\n+left_over = max(0, count - taken)\n+# a comment that is long enough\n"
        "+return the_same_as_before(count)\n-x\n y\n"
    )
    files = fixed_files(patch.encode())
    lines = distinctive(files, "if a:\n    return the_same_as_before(count)\n")
    assert lines == ["left_over = max(0, count - taken)"]
    asked = [{"role": "user", "content": "Try `left_over = max(0, count - taken)` in harbour.py, please; " + "x" * 80}]
    draft = read_draft(row(patch=patch, responses_create_params={"input": asked}))
    found = check_text(draft, files, lines, ["tests/test_a.py"])
    assert [(one.kind, one.is_refusal) for one in found] == [("text_has_fix", False), ("text_hints", False)]
    assert check_text(read_draft(row(patch=patch)), files, lines, ["tests/test_a.py"]) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--runs", "0"), "--runs needs 1 or more"),
        (("--jobs", "0"), "--jobs needs 1 or more"),
        (("--timeout-s", "0"), "--timeout-s"),
        (("--report", "/nowhere/r.jsonl"), "no folder"),
    ],
)
def test_a_mistake_in_the_command_is_exit_2(command: Any, row: Make, words: tuple[str, ...], message: str) -> None:
    command.write([row()])
    said = command.check(*words)
    assert (said.code, said.out) == (2, "")
    assert message in said.err


def test_no_file_of_rows_is_written_over(command: Any, row: Make) -> None:
    command.write([row()], "rows.jsonl")
    assert command.check(rows="rows.jsonl").code == 2
    assert command.lines("rows.jsonl") == [row()]
    assert command.check(rows="missing.jsonl").code == 2


@pytest.mark.sandbox
def test_rows_that_can_not_be_checked_are_refused_each_alone(command: Any, row: Make, images: ImageStore) -> None:
    command.home = images.home
    recipe = {"python": "3.11", "git": {"repository": "/nowhere", "commit": "a"}}
    rows = [
        "[]",
        row(instance_id="a__b-2", test_command=None),
        row(),
        row(instance_id="a__b-1", problem_statement="again"),
        row(instance_id="a__b-3", build=recipe),
    ]
    command.write(rows)
    said = command.check("--runs", "1")
    assert said.code == 1, said
    assert said.err == ""
    assert command.lines("rows.jsonl") == []
    reports = command.lines("rows.report.jsonl")
    assert [one["findings"][0]["kind"] for one in reports] == [
        "row_invalid",
        "task_invalid",
        "image_missing",
        "duplicate_id",
        "image_of_two_recipes",
    ]
    assert "paddock images pull" in reports[2]["findings"][0]["advice"]
    assert "REFUSED   row (line 1)\n    refused: needs a JSON object, got list" in said.out


@pytest.mark.parametrize(("kind", "final"), [("repository_refused", False), ("gold_unresolved", True)])
def test_a_refusal_that_the_next_start_may_not_meet_is_tried_again(tmp_path: Path, kind: str, final: bool) -> None:
    path = tmp_path / "report.jsonl"
    finding = {"kind": kind, "detail": "x", "is_refusal": True}
    Reports(path, RowReport).add(report("d", ended="refused", findings=[finding]))
    assert ("d" in Reports(path, RowReport).finished) is final
