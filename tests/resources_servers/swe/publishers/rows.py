"""Rows of our own in the published schema of each family, over the small project of the SWE tests."""

import base64
import io
import json
import tarfile
from typing import Any

from tests.resources_servers.swe.test_forms import GOLD, NEW, OLD, READER, TEST_PATCH, edit

from paddock.types import JsonObject

HALF = GOLD + (
    "diff --git a/README.md b/README.md\n--- a/README.md\n+++ b/README.md\n"
    "@@ -1 +1 @@\n-Nothing of the kind.\n+Areas.\n"
)
"""The fix, and a part that does not apply."""
BUG = edit("2 * (width + height)", "2 * width + height")
KEPT, OTHER = "tests/test_area.py::test_perimeter", "tests/test_other.py::test_other"
SMITH_ID = "oauthlib__oauthlib.1fd52536.func_pm_op_change__shapes1"
LIVE_PARSER = """
import re


def parser(log):
    words = {"PASSED": "pass", "FAILED": "fail"}
    return {name: words[word] for word, name in re.findall(r"^(PASSED|FAILED) (\\S+)", log, re.M)}
"""
REBENCH_PARSERS = """
import re


def parse_log_small(log):
    return {f"{name} [3 ms]": word for word, name in re.findall(r"^(PASSED|FAILED) (\\S+)", log, re.M)}


NAME_TO_PARSER = {"parse_log_small": parse_log_small}
"""
TEST_SH = """#!/bin/bash
cd /app
rm -f tests/test_new.py
git apply /tests/test.patch || exit 2
reward=0
pytest -q tests/test_new.py tests/test_area.py && reward=1
echo $reward > /logs/verifier/reward.txt
"""


def _base(instance_id: str, **fields: Any) -> JsonObject:
    return {"instance_id": instance_id, "repo": "shapes/shapes", "problem_statement": "area(2, 3) is 5.", **fields}


def rebench_v2(**fields: Any) -> JsonObject:
    config = {"base_image_name": "python", "test_cmd": ["cd /shapes", "pytest -rA tests/test_new.py"]}
    row = _base(
        "shapes__v2-1",
        patch=GOLD,
        test_patch=TEST_PATCH,
        language="python",
        install_config={**config, "log_parser": "parse_log_small"},
        FAIL_TO_PASS=[f"{NEW} [12.5 ms]"],
        PASS_TO_PASS=[OLD],
    )
    return {**row, **fields}


def live(**fields: Any) -> JsonObject:
    row = _base(
        "shapes__area-1",
        patch=GOLD,
        test_patch=TEST_PATCH,
        test_cmds=["cd /testbed", "pytest -rA tests/test_new.py"],
        log_parser="pytest",
        FAIL_TO_PASS=[NEW],
        PASS_TO_PASS=[OLD],
    )
    return {**row, **fields}


def live_program(**fields: Any) -> JsonObject:
    more = {
        "rebuild_cmds": ["python -m compileall -q shapes"],
        "test_cmds": ["pytest -rA tests/test_new.py > /tmp/log.txt"],
        "print_cmds": ["cat /tmp/log.txt"],
        "log_parser": LIVE_PARSER,
    }
    return live(**more, **fields)


def pro(**fields: Any) -> JsonObject:
    row = _base(
        "shapes__app-1",
        patch=GOLD,
        test_patch=TEST_PATCH,
        requirements="area multiplies.",
        before_repo_set_cmd="git status\nmkdir -p tests && printf '%s' \"$NEW_TESTS\" > tests/test_new.py",
        selected_test_files_to_run='["tests/test_new.py"]',
        fail_to_pass=f"['{NEW}']",
        pass_to_pass=json.dumps([OLD]),
        repo_language="python",
        dockerhub_tag="shapes.shapes-shapes__shapes-1",
    )
    return {**row, **fields}


PRO_FILES = {
    "run_scripts/shapes__app-1/run_script.sh": "pytest -rA ${1//,/ }\n",
    "run_scripts/shapes__app-1/parser.py": READER,
    "dockerfiles/instance_dockerfile/shapes__app-1/Dockerfile": "FROM base\nENV SIDES=4\n",
}


def ext(**fields: Any) -> JsonObject:
    row = _base(
        "shapes__area-1",
        patch=GOLD,
        test_patch=TEST_PATCH,
        test_command="pytest tests/test_new.py",
        test_framework="pytest",
        FAIL_TO_PASS=[NEW],
        PASS_TO_PASS=[OLD],
    )
    return {**row, **fields}


def multi(**fields: Any) -> JsonObject:
    test = {"run": "NONE", "test": "FAIL", "fix": "PASS"}
    kept = {"run": "PASS", "test": "PASS", "fix": "PASS"}
    run = {"passed_count": 2, "passed_tests": [KEPT, OTHER], "failed_tests": [], "skipped_tests": []}
    row = {
        "org": "CS-SI",
        "repo": "eodag",
        "tag": "v3.1.0b1",
        "number": 1,
        "lang": "python",
        "base": {"label": "main", "ref": "main", "sha": "a" * 40},
        "resolved_issues": [{"number": 2, "title": "area(2, 3) is 5.", "body": "It is 6."}],
        "fix_patch": GOLD,
        "test_patch": TEST_PATCH,
        "f2p_tests": {NEW: test},
        "n2p_tests": {OLD: {"run": "NONE", "test": "NONE", "fix": "PASS"}},
        "s2p_tests": {},
        "p2p_tests": {KEPT: kept},
        "run_result": run,
        "test_patch_result": {**run, "failed_tests": [NEW]},
        "fix_patch_result": run,
    }
    return {**row, **fields}


def smith(**fields: Any) -> JsonObject:
    row = _base(SMITH_ID, patch=BUG, FAIL_TO_PASS=[KEPT], PASS_TO_PASS=[OTHER], image_name="x/smith:1")
    return {**row, "repo": "swesmith/oauthlib__oauthlib.1fd52536", **fields}


def deepswe(**fields: Any) -> JsonObject:
    row = _base("shapes__app-1", patch=GOLD, test_patch=TEST_PATCH, test_sh=TEST_SH, workspace_path="/app")
    return {**row, **fields}


def denovoswe(**fields: Any) -> JsonObject:
    row = {
        "instance_id": "shapes__app-1",
        "parent_commit": "a" * 40,
        "workdir": "/app",
        "document": "# shapes\n\n`area(width, height)` is the area.",
        "test_patch": TEST_PATCH,
        "passed_ptp": [NEW, OLD],
        "test_binary_archive_b64": archive({"tests/data.bin": b"\0\1"}),
    }
    return {**row, **fields}


def archive(files: dict[str, bytes]) -> str:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return base64.b64encode(made.getvalue()).decode()


FAMILIES = {
    "swe_rebench_v2": rebench_v2,
    "swe_bench_live": live,
    "swe_bench_pro": pro,
    "swe_bench_ext": ext,
    "multi_swe": multi,
    "swe_smith": smith,
    "deepswe": deepswe,
    "denovoswe": denovoswe,
}
