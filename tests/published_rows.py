"""Rows in published forms, as tests make them."""

from paddock.types import JsonObject


def diff(path: str) -> str:
    """A patch of one line of one file."""
    return f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-a\n+b\n"


def swe_bench_row(**fields: object) -> JsonObject:
    """A row of SWE-bench's older form, which names no image."""
    row = {
        "instance_id": "pallets__flask-1",
        "repo": "pallets/flask",
        "environment_setup_commit": "1",
        "problem_statement": "p",
        "patch": diff("src/a.py"),
        "test_patch": diff("tests/test_a.py"),
        "FAIL_TO_PASS": '["tests/test_a.py::t"]',
        "PASS_TO_PASS": "[]",
    }
    return {**row, **fields}
