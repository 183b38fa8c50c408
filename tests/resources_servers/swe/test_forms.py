"""Claims about rows of the other forms, graded in real sandboxes by each one's own rule."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from paddock.types import JsonObject

pytestmark = pytest.mark.sandbox
Open = Callable[..., Any]

BEFORE = "def area(width, height):\n    return width + height\n\n\ndef perimeter(width, height):\n"
BEFORE += "    return 2 * (width + height)\n"
AFTER = BEFORE.replace("width + height\n\n", "width * height\n\n")


def edit(before: str, after: str) -> str:
    """The patch of one changed function body, `before` to `after`."""
    start = 1 if "2 *" not in before else 5
    name = "area" if start == 1 else "perimeter"
    return (
        "diff --git a/shapes/__init__.py b/shapes/__init__.py\n--- a/shapes/__init__.py\n+++ b/shapes/__init__.py\n"
        f"@@ -{start},2 +{start},2 @@\n def {name}(width, height):\n-    return {before}\n+    return {after}\n"
    )


GOLD = edit("width + height", "width * height")
REGRESSING = GOLD + "@@ -5,2 +5,2 @@\n def perimeter(width, height):\n-    return 2 * (width + height)\n+    return 0\n"
MISSING = GOLD + "@@ -5,2 +5,1 @@\n-def perimeter(width, height):\n-    return 2 * (width + height)\n+SIDES = 4\n"
NULL = "diff --git a/NOTES b/NOTES\nnew file mode 100644\n--- /dev/null\n+++ b/NOTES\n@@ -0,0 +1 @@\n+nothing\n"
TEST_FILE = (
    "import shapes\n\n\ndef test_area(sides):\n    assert shapes.area(*sides) == 6\n\n\n"
    "if hasattr(shapes, 'perimeter'):\n    def test_perimeter(sides):\n        assert shapes.perimeter(*sides) == 10\n"
)
TEST_PATCH = "".join(
    [
        "diff --git a/tests/test_new.py b/tests/test_new.py\nnew file mode 100644\n--- /dev/null\n",
        "+++ b/tests/test_new.py\n",
        f"@@ -0,0 +1,{len(TEST_FILE.splitlines())} @@\n",
        *(f"+{line}\n" for line in TEST_FILE.splitlines()),
    ]
)
NEW, OLD = "tests/test_new.py::test_area", "tests/test_new.py::test_perimeter"
CASES = pytest.mark.parametrize(
    ("patch", "reason"),
    [
        (GOLD, "resolved"),
        (NULL, "tests_fail"),
        (REGRESSING, "tests_regress"),
        (MISSING, "tests_regress"),
        ("", "no_patch"),
    ],
    ids=["gold", "null", "regression", "missing", "empty"],
)
READER = """
import json, re, sys
log = open(sys.argv[1]).read()
found = re.findall(r"^(PASSED|FAILED) (\\S+)", log, re.M)
json.dump({"tests": [{"name": name, "status": status} for status, name in found]}, open(sys.argv[3], "w"))
"""


@CASES
async def test_a_swe_gym_row_has_lists_and_no_script(stand: Open, shapes: JsonObject, patch: str, reason: str) -> None:
    row = {
        "instance_id": "shapes__area-1",
        "repo": "iterative/dvc",
        "problem_statement": "x",
        "patch": GOLD,
        "test_patch": TEST_PATCH,
        "FAIL_TO_PASS": [NEW],
        "PASS_TO_PASS": [OLD],
        "paddock": shapes,
    }
    grade = await stand().grade(row, patch)
    assert (grade.reason, grade.official) == (reason, None)


@CASES
async def test_an_r2e_row_compares_a_whole_map(stand: Open, shapes: JsonObject, patch: str, reason: str) -> None:
    changed = {
        "header": {"file": {"path": "shapes/__init__.py"}},
        "old_file_content": BEFORE,
        "new_file_content": AFTER,
    }
    results = {
        "test_file_names": ["test_1.py"],
        "test_file_codes": [TEST_FILE],
        "old_commit_res_stdout": "= short test summary info =\nPASSED r2e_tests/test_1.py::test_perimeter\n"
        "FAILED r2e_tests/test_1.py::test_area - assert 5 == 6",
    }
    row = {
        "instance_id": "shapes__area-1",
        "repo_name": "shapes",
        "commit_hash": "abc",
        "parsed_commit_content": json.dumps({"file_diffs": [changed]}),
        "execution_result_content": json.dumps(results),
        "expected_output_json": json.dumps({"test_area": "PASSED", "test_perimeter": "PASSED"}),
        "problem_statement": "[ISSUE]x[/ISSUE]",
        "paddock": shapes,
    }
    grade = await stand().grade(row, patch)
    assert grade.reason == reason, grade


@CASES
async def test_a_swe2_row_holds_its_source_row_as_text(
    stand: Open, shapes: JsonObject, patch: str, reason: str
) -> None:
    source = {
        "repo": "pallets/flask",
        "instance_id": "shapes__area-1",
        "patch": GOLD,
        "test_patch": TEST_PATCH,
        "FAIL_TO_PASS": json.dumps([NEW]),
        "PASS_TO_PASS": json.dumps([OLD]),
        "environment_setup_commit": "a" * 40,
    }
    params = swe2("SWE-bench/SWE-bench_Verified", "shapes__area-1", source)
    grade = await stand().grade({"paddock": shapes}, patch, params)
    assert grade.reason == reason, grade


@CASES
async def test_an_internal_swe2_row_is_read_by_its_own_program(
    stand: Open, shapes: JsonObject, patch: str, reason: str
) -> None:
    source = {
        "before_repo_set_cmd": "git status\nmkdir -p tests && printf '%s' \"$NEW_TESTS\" > tests/test_new.py",
        "instance_dockerfile": "",
        "selected_test_files_to_run": "['tests/test_new.py']",
        "run_script.sh": "pytest -rA ${1//,/ }\n",
        "parsing_script.py": READER,
        "fail_to_pass": [NEW],
        "pass_to_pass": [OLD],
    }
    params = swe2("nv-internal-1", "shapes__app-1", source)
    grade = await stand().grade({"paddock": {**shapes, "env": {"NEW_TESTS": TEST_FILE}}}, patch, params)
    assert grade.reason == reason, grade


def swe2(dataset_name: str, instance_id: str, source: JsonObject) -> JsonObject:
    metadata = {
        "instance_id": instance_id,
        "dataset_name": dataset_name,
        "problem_statement": "x",
        "golden_patch": GOLD,
        "instance_dict": json.dumps(source),
    }
    return {"input": [], "metadata": metadata}
