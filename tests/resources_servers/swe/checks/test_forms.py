"""Claims about rows of other forms: checked by their own rule, and written as they came."""

import json
from typing import Any

import pytest

from paddock.sandbox.images import ImageStore
from paddock.types import JsonObject

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]
BEFORE = "def area(width, height):\n    return width + height\n\n\ndef perimeter(width, height):\n"
BEFORE += "    return 2 * (width + height)\n"
AFTER = BEFORE.replace("width + height\n\n", "width * height\n\n")
TESTS = "import shapes\n\n\ndef test_area(sides):\n    assert shapes.area(*sides) == 6\n\n\n"
TESTS += "def test_perimeter(sides):\n    assert shapes.perimeter(*sides) == 10\n"
GOLD = (
    "diff --git a/shapes/__init__.py b/shapes/__init__.py\n--- a/shapes/__init__.py\n+++ b/shapes/__init__.py\n"
    "@@ -1,2 +1,2 @@\n def area(width, height):\n-    return width + height\n+    return width * height\n"
)
READER = """
import json, re, sys
found = re.findall(r"^(PASSED|FAILED) (\\S+)", open(sys.argv[1]).read(), re.M)
json.dump({"tests": [{"name": name, "status": status} for status, name in found]}, open(sys.argv[3], "w"))
"""
AREA, PERIMETER = "tests/test_new.py::test_area", "tests/test_new.py::test_perimeter"


def r2e(recipe: JsonObject, expected: dict[str, str]) -> JsonObject:
    changed = {
        "header": {"file": {"path": "shapes/__init__.py"}},
        "old_file_content": BEFORE,
        "new_file_content": AFTER,
    }
    before = (
        "= short test summary info =\nPASSED r2e_tests/test_1.py::test_perimeter\nFAILED r2e_tests/test_1.py::test_area"
    )
    results = {"test_file_names": ["test_1.py"], "test_file_codes": [TESTS], "old_commit_res_stdout": before}
    return {
        "instance_id": "shapes__area-1",
        "responses_create_params": {"input": []},
        "repo_name": "shapes",
        "commit_hash": "abc",
        "parsed_commit_content": json.dumps({"file_diffs": [changed]}),
        "execution_result_content": json.dumps(results),
        "expected_output_json": json.dumps(expected),
        "problem_statement": "[ISSUE]x[/ISSUE]",
        "paddock": recipe,
    }


def internal(recipe: JsonObject, kept: list[str]) -> JsonObject:
    source = {
        "before_repo_set_cmd": "git status\nmkdir -p tests && printf '%s' \"$NEW_TESTS\" > tests/test_new.py",
        "instance_dockerfile": "",
        "selected_test_files_to_run": "['tests/test_new.py']",
        "run_script.sh": "pytest -rA ${1//,/ }\n",
        "parsing_script.py": READER,
        "fail_to_pass": [AREA],
        "pass_to_pass": kept,
    }
    metadata = {
        "instance_id": "shapes__app-2",
        "dataset_name": "nv-internal-1",
        "problem_statement": "x",
        "golden_patch": GOLD,
        "instance_dict": json.dumps(source),
    }
    params = {"input": [], "metadata": metadata}
    return {"responses_create_params": params, "paddock": {**recipe, "env": {"NEW_TESTS": TESTS}}}


def test_rows_of_other_forms_are_accepted_as_they_are(command: Any, images: ImageStore, shapes: JsonObject) -> None:
    rows = [r2e(shapes, {"test_area": "PASSED", "test_perimeter": "PASSED"}), internal(shapes, [PERIMETER])]
    command.home = images.home
    command.write(rows)
    said = command.check("--runs", "1", "--jobs", "2", "--local-repository", shapes["git"]["repository"])
    assert (said.code, command.lines("rows.jsonl")) == (0, rows), said


def test_rows_of_other_forms_are_refused_by_their_own_rule(
    command: Any, images: ImageStore, shapes: JsonObject
) -> None:
    command.home = images.home
    command.write([r2e(shapes, {"test_area": "PASSED", "test_perimeter": "FAILED"}), internal(shapes, ["no_such"])])
    said = command.check("--runs", "1", "--jobs", "2", "--local-repository", shapes["git"]["repository"])
    found = command.findings()
    assert said.code == 1
    assert found["shapes__area-1"]["gold_unresolved"]["is_refusal"], said
    assert found["shapes__app-2"]["ids_missing"]["is_refusal"], said
