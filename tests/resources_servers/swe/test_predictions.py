"""Claims about `paddock swe grade`: SWE-bench's predictions in, its report out, no failure counted as unresolved."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.images import ScriptedRegistry, scripted_registry

from paddock.cli import main
from paddock.errors import ConfigError
from paddock.resources_servers.swe.predictions import open_row_grader, read_predictions
from paddock.sandbox import SandboxSettings
from paddock.sandbox.images import ImageStore
from paddock.sandbox.settings import HOME_VARIABLE
from paddock.types import JsonObject

Open = Callable[..., Any]
TEST = "from shapes import area\n\n\ndef test_area():\n    assert area(2, 3) == 6\n"
ONE = {"instance_id": "a__b-1", "model_name_or_path": "org/model", "model_patch": "x"}
TWO = {**ONE, "instance_id": "a__b-2", "model_patch": None}


class CommandOutput(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def grade(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., CommandOutput]:
    """Run `paddock swe grade` over these predictions and rows, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(predictions: list[JsonObject], rows: list[JsonObject], *words: str) -> CommandOutput:
        for name, lines in (("mine.jsonl", predictions), ("rows.jsonl", rows)):
            Path(name).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        capfd.readouterr()
        code = main(["swe", "grade", "mine.jsonl", "--rows", "rows.jsonl", "--out", "graded", *words])
        return CommandOutput(code, *capfd.readouterr())

    return run


@pytest.fixture
def registry() -> Iterator[ScriptedRegistry]:
    with scripted_registry() as registry:
        yield registry


def report(model: str = "org__model") -> JsonObject:
    found: JsonObject = json.loads(Path(f"graded/{model}.graded.json").read_text())
    return found


def lines() -> dict[str, JsonObject]:
    records = [json.loads(line) for line in Path("graded/gradings.jsonl").read_text().splitlines()]
    return {one["instance_id"]: one for one in records}


@pytest.mark.parametrize(
    "text",
    [
        f"{json.dumps(ONE)}\n\n{json.dumps(TWO)}\n",
        json.dumps([ONE, TWO], indent=1),
        json.dumps({one["instance_id"]: {**one, "instance_id": one["instance_id"]} for one in (ONE, TWO)}),
        json.dumps({one["instance_id"]: {key: one[key] for key in list(one)[1:]} for one in (ONE, TWO)}),
    ],
    ids=["lines", "list", "object", "object without ids"],
)
def test_predictions_are_read_in_every_form_that_the_harness_takes(text: str, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text(text)
    assert read_predictions(tmp_path / "mine") == [("a__b-1", "org/model", "x"), ("a__b-2", "org/model", "")]


def test_one_prediction_is_a_file_and_is_named_after_it_where_it_names_no_model(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text('{"instance_id": "a__b-1", "model_patch": "x"}')
    assert read_predictions(tmp_path / "mine.json") == [("a__b-1", "mine", "x")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no prediction"),
        (json.dumps(ONE) + "\n{", "mine:2: not JSON"),
        ("[3]", "mine: prediction 1: needs an object, got int"),
        (json.dumps({**ONE, "instance_id": ""}), "instance_id: needs a non-empty string"),
        (json.dumps({"instance_id": "a"}), "model_patch: missing"),
        (json.dumps({**ONE, "model_patch": 3}), "model_patch: needs a string or null, got int"),
        (json.dumps([ONE, ONE]), "prediction 2: .*prediction 1 is a prediction of org/model for a__b-1 too"),
    ],
)
def test_a_file_that_is_none_of_predictions_is_said_where(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_predictions(tmp_path / "mine")


def test_a_file_without_a_prediction_for_any_row_is_a_mistake(grade: Open) -> None:
    said = grade([ONE], [{"instance_id": "other"}])
    assert (said.code, said.out) == (2, "")
    assert "no prediction is for a row of rows.jsonl: the first is a__b-1" in said.err


@pytest.fixture
def row(shapes: JsonObject, diff: Open) -> Callable[..., JsonObject]:
    """An own row over the project's image, by the number of its instance."""
    fixed = "def area(width, height):\n    return width * height\n\n\n"
    gold = diff({"shapes/__init__.py": fixed + "def perimeter(width, height):\n    return 2 * (width + height)\n"})

    def make(number: int, **fields: Any) -> JsonObject:
        return {
            "instance_id": f"shapes__area-{number}",
            "problem_statement": "area(2, 3) is 5.",
            "image": "shapes__area-1",
            "patch": gold,
            "test_files": {"tests/test_new.py": TEST},
            "test_command": "pytest -rA tests/test_new.py",
            "FAIL_TO_PASS": ["tests/test_new.py::test_area"],
            "PASS_TO_PASS": [],
            **fields,
        }

    return make


@pytest.mark.slow
@pytest.mark.sandbox
def test_every_prediction_is_in_one_list_of_the_report_and_only_failures_are_tried_again(
    grade: Open, row: Open, diff: Open, images: ImageStore, registry: ScriptedRegistry
) -> None:
    gone = f"{registry.host}/t/x:v1"
    rows = [row(1), row(2), row(3), row(4), row(5, image=gone), row(6), {"instance_id": "shapes__area-7"}]
    patches = [row(1)["patch"], diff({"NOTES": "Nothing.\n"}), "", "No patch.\n", row(1)["patch"], None, "x\n", "x\n"]
    predictions = [
        {"instance_id": f"shapes__area-{number}", "model_name_or_path": "org/model", "model_patch": patch}
        for number, patch in enumerate(patches, start=1)
        if number != 6
    ]
    registry.faults["manifests"] = [418, 418]
    said = grade(predictions, rows, "--home", str(images.home))
    assert said.code == 3
    assert "not graded, no row is there for: shapes__area-8" in said.err
    assert "org/model: 1 resolved, 1 unresolved, 1 empty patches, 3 errors, 2 of these without a verdict" in said.out

    def ids(*numbers: int) -> list[str]:
        return [f"shapes__area-{number}" for number in numbers]

    found = report()
    assert {key: value for key, value in found.items() if key.endswith("_ids")} == {
        "completed_ids": ids(1, 2),
        "incomplete_ids": ids(6),
        "empty_patch_ids": ids(3),
        "submitted_ids": ids(1, 2, 3, 4, 5, 7, 8),
        "resolved_ids": ids(1),
        "unresolved_ids": ids(2),
        "infra_failure_ids": ids(5, 7),
        "ambiguous_failure_ids": [],
        "error_ids": ids(4, 5, 7),
    }
    assert (found["total_instances"], found["error_instances"], found["schema_version"]) == (7, 3, 2)
    assert found["failure_reasons"]["shapes__area-2"] == "tests_fail"
    first = lines()
    assert first["shapes__area-5"]["failed"] == "infra"
    assert first["shapes__area-1"]["verdict"]["tests"]["FAIL_TO_PASS"] == {"tests/test_new.py::test_area": "PASSED"}

    assert grade(predictions, rows, "--home", str(images.home)).code == 3
    again = lines()
    assert [again[name] for name in ids(1, 2, 3, 4)] == [first[name] for name in ids(1, 2, 3, 4)], "seconds and all"
    assert registry.faults["manifests"] == [], "what has no verdict is tried again"


@pytest.mark.slow
@pytest.mark.sandbox
async def test_a_single_patch_is_graded_by_the_id_of_its_row(
    row: Open, diff: Open, images: ImageStore, tmp_path: Path
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps(row(1)))
    async with open_row_grader(rows, SandboxSettings(home=images.home), max_concurrent=1) as grade:
        verdicts = [await grade("shapes__area-1", patch) for patch in (row(1)["patch"], diff({"NOTES": "Nothing.\n"}))]
        assert [verdict and verdict.reason for verdict in verdicts] == ["resolved", "tests_fail"]
        assert await grade("shapes__area-2", row(1)["patch"]) is None


@pytest.mark.slow
@pytest.mark.cli
def test_a_machine_without_sandboxes_grades_nothing(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text(json.dumps(ONE))
    (tmp_path / "rows.jsonl").write_text(json.dumps({"instance_id": "a__b-1"}))
    command = [sys.executable, "-m", "paddock", "swe", "grade", "mine.jsonl", "--rows", "rows.jsonl"]
    home = os.environ.get(HOME_VARIABLE) or f"/var/tmp/paddock-tests-{os.geteuid()}"  # others may look into it
    env = {**os.environ, "PATH": str(tmp_path), HOME_VARIABLE: home}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b""), done.stderr
    assert b"no sandbox runtime works here" in done.stderr
    assert not list(tmp_path.glob("runs/mine/*.json"))
