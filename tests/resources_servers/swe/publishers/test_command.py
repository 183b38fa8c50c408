"""Claims about the commands over rows of publishers' data sets."""

import json
from pathlib import Path

import pytest
from tests.resources_servers.swe.publishers.rows import HALF, live, multi, pro, rebench_v2, smith
from tests.resources_servers.swe.test_forms import GOLD, NULL

from paddock.cli import main
from paddock.resources_servers.swe.publishers import PublisherTools
from paddock.sandbox.images import ImageStore
from paddock.types import JsonObject


def write(path: Path, lines: list[JsonObject]) -> str:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return str(path)


@pytest.mark.slow
@pytest.mark.sandbox
def test_predictions_for_rows_of_a_publisher_are_built_and_graded(
    images: ImageStore, shapes: JsonObject, tools: PublisherTools, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    row = rebench_v2(paddock=shapes)
    rows = write(tmp_path / "rows.jsonl", [row])
    publisher = ["--publisher", f"swe_rebench_v2={tools.swe_rebench_v2}"]
    local = ["--local-repository", str(images.home / "test-sources"), "--home", str(images.home)]
    assert main(["images", "build", "--rows", rows, *publisher, *local]) == 0
    capfd.readouterr()
    predictions = [
        {"instance_id": row["instance_id"], "model_name_or_path": name, "model_patch": patch}
        for name, patch in (("gold", GOLD), ("noop", NULL), ("half", HALF))
    ]
    mine = write(tmp_path / "mine.jsonl", predictions)
    out = tmp_path / "graded"
    assert main(["swe", "grade", mine, "--rows", rows, "--out", str(out), *publisher, *local]) == 0
    said = capfd.readouterr().out
    assert {line.split(" ")[0] for line in said.splitlines() if row["instance_id"] in line} == {
        "resolved",
        "unresolved",
        "error",
    }
    assert json.loads((out / "gold.graded.json").read_text())["resolved_ids"] == [row["instance_id"]]
    assert json.loads((out / "half.graded.json").read_text())["resolved_ids"] == []


def test_rows_that_lack_a_publishers_code_have_no_verdict_and_say_which(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = write(tmp_path / "rows.jsonl", [rebench_v2(image_name="x:1")])
    report = tmp_path / "report.jsonl"
    main(["swe", "check", rows, "--report", str(report)])
    assert "name a checkout of SWE-rebench/SWE-rebench-V2" in capfd.readouterr().out


def test_names_of_images_are_the_publishers(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    made = {
        "swe_bench_live": live(instance_id="a__b-1"),
        "swe_bench_pro": pro(),
        "multi_swe": multi(org="cli", repo="cli"),
        "swe_smith": {**smith(), "image_name": None},
    }
    for dataset, row in made.items():
        rows = write(tmp_path / f"{dataset}.jsonl", [row])
        assert main(["images", "names", "--rows", rows, "--dataset", dataset]) == 0
    assert capfd.readouterr().out.splitlines() == [
        "starryzhang/sweb.eval.x86_64.a_1776_b-1:latest",
        "jefzda/sweap-images:shapes.shapes-shapes__shapes-1",
        "mswebench/cli_m_cli:pr-1",
        "swebench/swesmith.x86_64.oauthlib_1776_oauthlib.1fd52536:latest",
    ]


@pytest.mark.parametrize("given", ["swe_bench_pro", "swe_bench_pro=", "swe_bench_max=x"])
def test_a_publisher_that_is_none_is_a_mistake(tmp_path: Path, capfd: pytest.CaptureFixture[str], given: str) -> None:
    rows = write(tmp_path / "rows.jsonl", [live()])
    assert main(["images", "names", "--rows", rows, "--publisher", given]) == 2
    assert "--publisher" in capfd.readouterr().err
