"""Claims about reports: what each command writes is shown, its verdict first; damaged and later files are named so."""

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from paddock.cli import main
from paddock.resources_servers.genrm.calibration import Preference, PreferenceCheck, calibrate
from paddock.resources_servers.genrm.records import PairComparison
from paddock.resources_servers.swe.checks import Reports, RowReport
from paddock.resources_servers.swe.checks.records import Flake, refusal
from paddock.resources_servers.swe.predictions import Prediction
from paddock.resources_servers.swe.predictions.grading import GradedPrediction
from paddock.resources_servers.swe.predictions.report import make_report
from paddock.viewer.blocks import Fold, Grid, TextBlock
from paddock.viewer.reports import ReportView, read_report, report_kind
from paddock.viewer.web import Catalog


def grids(view: ReportView) -> dict[str, list[list[str]]]:
    """Cells by the first column's title."""
    return {
        block.header[0]: [[cell.text for cell in row] for row in block.rows]
        for block in view.blocks
        if isinstance(block, Grid)
    }


def read(path: Path) -> ReportView:
    kind = report_kind(path)
    assert kind is not None
    return read_report(path, kind)


@pytest.fixture(scope="module")
def fidelity_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """By the command itself; prompts are made of what clients send back, which is not exact."""
    file = tmp_path_factory.mktemp("fidelity") / "naive.json"
    arguments = ["fidelity", "client:openhands", "client:codex_cli", "--naive", "--template", "thinking"]
    assert main([*arguments, "--scenario", "malformed", "--json", str(file)]) == 0
    return file


def test_fidelity_says_its_worst_verdict_first(fidelity_file: Path) -> None:
    stored = orjson.loads(fidelity_file.read_bytes())
    verdicts = [one["verdict"] for one in stored["combinations"]]
    assert set(verdicts) > {"exact"}, "else nothing is claimed below"
    view = read(fidelity_file)
    assert view.warnings == []
    assert view.verdict.text.endswith(f"of {len(verdicts)} combinations")
    for verdict in set(verdicts):
        assert f"{verdicts.count(verdict)} {verdict}" in view.verdict.text
    rows = next(block.rows for block in view.blocks if isinstance(block, Grid) and "verdict" in block.header)
    assert sorted(row[3].text for row in rows) == sorted(verdicts)
    assert (rows[-1][3].text, rows[-1][-1].text) == ("exact", "")
    assert rows[0][-1].text == "malformed"


def test_a_judges_check_has_its_agreement_and_shares(tmp_path: Path) -> None:
    def answer(first: int, score_1: float, score_2: float) -> PairComparison:
        return PairComparison(
            response_i=first, response_j=1 - first, judge_idx=0, score_1=score_1, score_2=score_2, ranking=3.5
        )

    agrees = PreferenceCheck(Preference(1, [], ({}, {}), 0, 3), [answer(0, 4, 2), answer(1, 1, 3)])
    failed = PreferenceCheck(Preference(2, [], ({}, {}), 0, None), [], failure="judge_unusable")
    (tmp_path / "judge.json").write_text(json.dumps(calibrate([agrees, agrees, failed]).to_json(), indent=1))
    view = read(tmp_path / "judge.json")
    assert view.warnings == []
    assert view.verdict.text.startswith("agrees with 1.000 [")
    assert [row[2:] for row in grids(view)[""] if row[0] == "agrees with the preference"] == [["2", "2"]]
    (tmp_path / "none.json").write_text(json.dumps(calibrate([failed]).to_json(), indent=1))
    assert read(tmp_path / "none.json").verdict.text == "no agreement to count: 0 of 1 pairs were answered"


def row_report(line: int, ended: Any, **fields: Any) -> RowReport:
    return RowReport(digest=f"{line}", line=line, instance_id=f"made__made-{line}", ended=ended, **fields)


def write_checks(path: Path) -> None:
    reports = Reports(path, RowReport)
    reports.add(row_report(1, "failed"))
    reports.add(row_report(3, "refused", findings=[refusal("gold_fails", "two tests fail", "mend the patch")]))
    flake = Flake(test="test_a", side="gold", statuses=["PASSED", "FAILED"])
    reports.add(row_report(2, "accepted", fail_to_pass=["test_b"], null_s=[1.0], gold_s=[2.0], flakes=[flake]))
    reports.add(row_report(1, "accepted", fail_to_pass=["test_b"], null_s=[1.0, 2.5], gold_s=[2.0]))


def test_checked_rows_are_counted_and_what_is_refused_has_its_advice(tmp_path: Path) -> None:
    write_checks(tmp_path / "rows.report.jsonl")
    view = read(tmp_path / "rows.report.jsonl")
    assert view.warnings == []
    assert view.verdict[1:] == ("2 of 3 rows accepted, 1 refused", "bad")
    assert [row[:3] for row in grids(view)["line"]] == [
        ["1", "made__made-1", "accepted"],
        ["2", "made__made-2", "accepted"],
        ["3", "made__made-3", "refused"],
    ]
    refused = next(block for block in view.blocks if isinstance(block, Fold) and block.open)
    assert refused.title == "made__made-3 (line 3): refused"
    assert [block.text for block in refused.blocks if isinstance(block, TextBlock)] == [
        "gold_fails: two tests fail",
        "-> mend the patch",
    ]


def test_a_grading_is_counted_by_how_instances_ended(tmp_path: Path) -> None:
    def graded(name: str, outcome: Any, reason: str, **fields: Any) -> GradedPrediction:
        return GradedPrediction(digest=name, instance_id=name, model="m", outcome=outcome, reason=reason, **fields)

    done = [
        graded("a", "resolved", "resolved"),
        graded("b", "unresolved", "tests_fail"),
        graded("c", "error", "sandbox_died", failed="infra"),
    ]
    report = make_report(["a", "b", "c", "d"], [Prediction(name, "m", "x") for name in "abc"], done)
    (tmp_path / "m.run.json").write_bytes(orjson.dumps(report, option=orjson.OPT_INDENT_2))
    view = read(tmp_path / "m.run.json")
    assert view.warnings == []
    assert view.verdict.text.startswith("1 of 4 instances resolved (25.0%); 1 without a verdict")
    assert grids(view)["instance"] == [
        ["c", "error", "sandbox_died"],
        ["b", "unresolved", "tests_fail"],
        ["d", "without a prediction", ""],
        ["a", "resolved", ""],
    ]


def test_a_damaged_file_is_said_to_be_so(fidelity_file: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.json").write_bytes(fidelity_file.read_bytes()[:-500])
    view = read(tmp_path / "cut.json")
    assert (view.verdict.text, view.blocks) == ("can't be shown", [])
    assert view.warnings[0].startswith("damaged: ")


def test_a_later_form_is_said_to_be_so(fidelity_file: Path, tmp_path: Path) -> None:
    stored = orjson.loads(fidelity_file.read_bytes())
    stored["combinations"][0]["runs"][0]["temperature"] = 1.0
    stored["combinations"][0]["verdict"] = "perfect"
    (tmp_path / "more.json").write_bytes(orjson.dumps(stored))
    view = read(tmp_path / "more.json")
    assert view.warnings == ["a later version wrote it; not shown: temperature"]
    assert "1 perfect" in view.verdict.text
    del stored["combinations"][0]["verdict"]
    (tmp_path / "other.json").write_bytes(orjson.dumps(stored))
    assert read(tmp_path / "other.json").warnings == [
        "another form than this version reads: combinations.0.verdict: Field required"
    ]


def test_lines_are_read_as_far_as_they_are_whole(tmp_path: Path) -> None:
    file = tmp_path / "rows.report.jsonl"
    write_checks(file)
    with file.open("ab") as report:
        report.write(b'{"digest": 7}\n{"digest":"x","line":9,')
    view = read(file)
    assert view.verdict.text == "2 of 3 rows accepted, 1 refused"
    assert view.warnings == [
        (
            "1 lines were left out; the first: line 5: another form than this version reads: "
            "digest: Input should be a valid string"
        ),
        "the last line is not whole: the check goes on, or was ended",
    ]


def test_a_catalog_has_reports_beside_runs_and_none_of_a_runs_own_files(
    fidelity_file: Path, seen_run: Path, tmp_path: Path
) -> None:
    for folder in (tmp_path, tmp_path / "run"):
        folder.mkdir(exist_ok=True)
        (folder / "fidelity.json").write_bytes(fidelity_file.read_bytes())
    (tmp_path / "run" / "rollouts.jsonl").write_bytes((seen_run / "rollouts.jsonl").read_bytes())
    (tmp_path / "settings.json").write_text('{"pears": 1}')
    catalog = Catalog([tmp_path])
    kinds = {run.path.relative_to(tmp_path).as_posix(): run.kind for run in catalog.runs()}
    assert kinds == {"run": "rollouts", "fidelity.json": "fidelity"}
    report = catalog.get(f"{tmp_path.name}/fidelity.json")
    assert report is not None
    assert catalog.counts(report)["verdict"].endswith("combinations")
