"""Claims about `paddock data convert`, `instances` and `images`: instances become rows that the swe server reads."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from paddock.cli import main
from paddock.training.data.tables import read_table

DIFF = "diff --git a/{0} b/{0}\n--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-old\n+new\n"
GYM = {
    "instance_id": "getmoto__moto-1234",
    "repo": "getmoto/moto",
    "base_commit": "0" * 40,
    "version": "4.1",
    "created_at": "2023-01-01T00:00:00+00:00",
    "problem_statement": "A bucket can't be deleted.",
    "hints_text": "",
    "patch": DIFF.format("moto/s3.py"),
    "test_patch": DIFF.format("tests/test_s3.py"),
    "FAIL_TO_PASS": ["tests/test_s3.py::test_delete"],
    "PASS_TO_PASS": [],
}
BENCH = {
    **GYM,
    "instance_id": "psf__requests-99999",
    "repo": "psf/requests",
    "FAIL_TO_PASS": '["tests/test_a.py::test_b"]',
    "PASS_TO_PASS": "[]",
    "environment_setup_commit": "1" * 40,
    "image": "swebench/sweb.eval.x86_64.psf_1776_requests-99999:latest",
    "eval_script": "#!/bin/bash\n: '>>>>> Start Test Output'\npytest -rA tests/test_a.py\n: '>>>>> End Test Output'\n",
    "log_parser": "parse_log_pytest",
    "eval_type": "pass_and_fail",
}
COMMIT = {
    "file_diffs": [{"header": {"file": {"path": "lib/a.py"}}, "old_file_content": "old\n", "new_file_content": "new\n"}]
}
RUN = {"test_file_names": ["test_1.py"], "test_file_codes": ["def test_a(): ..."], "old_commit_res_stdout": ""}
R2E = {
    "repo_name": "aiohttp",
    "docker_image": "namanjain12/aiohttp_final:" + "a" * 40,
    "commit_hash": "a" * 40,
    "parsed_commit_content": json.dumps(COMMIT),
    "execution_result_content": json.dumps(RUN),
    "problem_statement": "Intro.\n[ISSUE]\nIt hangs.\n[/ISSUE]",
    "expected_output_json": '{"test_a": "PASSED"}',
    "modified_files": ["lib/a.py"],
}
INSTANCES = {"swe_bench": BENCH, "swe_gym": GYM, "r2e_gym": R2E}
IDS = {"swe_bench": "psf__requests-99999", "swe_gym": "getmoto__moto-1234", "r2e_gym": "aiohttp__aiohttp-" + "a" * 40}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, *rows: Any) -> str:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return name


def data(*words: str) -> int:
    return main(["data", *words])


@pytest.mark.parametrize("form", list(INSTANCES))
def test_a_converted_row_is_what_the_server_reads(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    write("in.jsonl", INSTANCES[form])
    assert data("convert", "in.jsonl", "--form", form, "--out", "out.jsonl") == 0
    (row,) = (json.loads(line) for line in Path("out.jsonl").read_text().splitlines())
    metadata = row["responses_create_params"]["metadata"]
    assert all(isinstance(value, str) for value in metadata.values())
    assert metadata["instance_id"] == IDS[form]
    assert "+new\n" in metadata["golden_patch"]
    kept = json.loads(metadata["instance_dict"])
    assert {key: kept[key] for key in INSTANCES[form]} == INSTANCES[form]
    assert row["agent_ref"]["name"] == "swe_agents_train"
    assert data("check", "out.jsonl") == 0
    assert "1 read by swe" in capsys.readouterr().out


def test_the_statement_of_r2e_gym_stands_without_its_marks() -> None:
    write("in.jsonl", R2E)
    assert data("convert", "in.jsonl", "--form", "r2e_gym", "--out", "out.jsonl") == 0
    row = json.loads(Path("out.jsonl").read_text())
    assert row["responses_create_params"]["metadata"]["problem_statement"] == "It hangs."


def test_instances_that_cannot_be_rows_are_named_and_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    unknown = {**GYM, "repo": "people/project"}
    write("in.jsonl", R2E, GYM, {**GYM, "patch": None}, unknown, [1])
    assert data("convert", "in.jsonl", "--form", "swe_gym", "--out", "out.jsonl") == 1
    told = capsys.readouterr()
    lines = told.err.splitlines()
    for line, named in zip(lines, ["1: is no swe_gym", "3: is no swe_gym", "4: repo", "5: needs"], strict=True):
        assert line.startswith(f"paddock data: in.jsonl:{named}")
    assert "it looks like r2e_gym" in lines[0]
    assert "has no patch" in lines[1]
    assert len(Path("out.jsonl").read_text().splitlines()) == 1
    assert "1 rows of SWE-Gym/SWE-Gym, 4 left out" in told.out


def test_ids_and_images_of_rows_each_once(capsys: pytest.CaptureFixture[str]) -> None:
    for form, instance in INSTANCES.items():
        write(f"{form}.jsonl", instance, instance)
        data("convert", f"{form}.jsonl", "--form", form, "--out", f"rows/{form}.jsonl")
    capsys.readouterr()
    assert data("instances", "rows") == 0
    assert sorted(capsys.readouterr().out.split()) == sorted(IDS.values())
    assert data("images", "rows", "--files", "--out", "images.txt") == 0
    assert sorted(line.split("\t")[1] for line in Path("images.txt").read_text().splitlines()) == [
        f"r2egym_aiohttp_final_{'a' * 40}.sif",
        "swebench_sweb.eval.x86_64.psf_1776_requests-99999.sif",
        "swegym_sweb.eval.x86_64.getmoto_s_moto-1234.sif",
    ]


def test_rows_without_an_image_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    write("rows.jsonl", {"instance_id": "a__b-1"}, {"instance_dict": "{"}, {"image": "x/y"})
    assert data("images", "rows.jsonl") == 1
    told = capsys.readouterr()
    assert told.out.split() == ["x/y:latest"]
    assert "rows.jsonl:1" in told.err and "rows.jsonl:2" in told.err
    assert data("images", "rows.jsonl", "--dataset", "swe_gym") == 1
    assert "xingyaoww/sweb.eval.x86_64.a_s_b-1:latest" in capsys.readouterr().out
    assert data("images", "rows.jsonl", "--dataset", "wiki") == 2


def test_parquet_is_read_as_lines_are(capsys: pytest.CaptureFixture[str]) -> None:
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow: install paddock[data]")
    from pyarrow import parquet

    at = datetime(2023, 1, 1, tzinfo=UTC)
    rows = [{**GYM, "created_at": at, "note": None, "instance_id": f"getmoto__moto-{index}"} for index in range(40)]
    Path("hub/data").mkdir(parents=True)
    parquet.write_table(pa.Table.from_pylist(rows), "hub/data/train-00000-of-00001.parquet")
    parquet.write_table(pa.Table.from_pylist(rows[:1]), "hub/data/test-00000-of-00001.parquet")
    expected = [{**row, "created_at": "2023-01-01T00:00:00+00:00"} for row in rows]
    assert [entry.row for entry in read_table(Path("hub/data/train-00000-of-00001.parquet"))] == expected
    assert data("convert", "hub", "--form", "swe_gym", "--out", "out.jsonl") == 0
    assert len(Path("out.jsonl").read_text().splitlines()) == 40
    Path("broken.parquet").write_bytes(b"no table")
    capsys.readouterr()
    assert data("convert", "broken.parquet", "--form", "swe_gym", "--out", "other.jsonl") == 2
    assert "broken.parquet" in capsys.readouterr().err
    assert not Path("other.jsonl").exists()


def test_real_instances_become_rows(capsys: pytest.CaptureFixture[str]) -> None:
    shared = os.environ.get("PADDOCK_TEST_DATA")
    if not shared:
        pytest.skip("PADDOCK_TEST_DATA names no folder of published rows")
    words = ("--form", "swe_bench", "--dataset", "SWE-bench/SWE-bench_Verified")
    assert data("convert", f"{shared}/swe/instances.jsonl", *words, "--out", "out.jsonl") == 0
    assert data("check", "out.jsonl") == 0
    assert "12 rows, 0 wrong, 12 read by swe" in capsys.readouterr().out
