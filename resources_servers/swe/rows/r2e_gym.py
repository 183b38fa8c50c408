"""R2E-Gym rows: a commit with whole files, hidden tests, and the whole map of statuses that the fix gives.

Source  R2E-Gym/R2E-Gym-* as published: `repo_name`, `docker_image`, `commit_hash`, `parsed_commit_content`,
        `execution_result_content`, `expected_output_json`, `problem_statement` in `[ISSUE] ... [/ISSUE]`.
Tests   lie in `r2e_tests` below the tree; images also have copies and a runner elsewhere: the agent gets none of them.
Rule    `map`: as many keys as expected, each with the expected status.
"""

import re
from collections.abc import Mapping
from typing import Any

from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.rows import fields
from paddock.resources_servers.swe.rows.commits import gold_patch
from paddock.resources_servers.swe.rows.fields import field_error
from paddock.resources_servers.swe.summary import parse_summary

WORKDIR = "/testbed"
FOLDER = "r2e_tests"
RUNNER = "run_tests.sh"
HIDDEN = [
    *(f"{root}/{name}" for root in (WORKDIR, "/root", "") for name in (FOLDER, RUNNER)),
    *(
        f"{WORKDIR}/{name}.json"
        for name in (
            "expected_test_output",
            "execution_result",
            "parsed_commit",
            "modified_files",
            "modified_entities",
            "syn_issue",
        )
    ),
]
WARNINGS = "PYTHONWARNINGS='ignore::UserWarning,ignore::SyntaxWarning'"
COMMAND = f"{WARNINGS} python -W ignore -m pytest -rA {FOLDER}"
IMAGE_COMMAND = f"{WARNINGS} .venv/bin/python -W ignore -m pytest -rA {FOLDER}"
_ISSUE = re.compile(r"\[ISSUE\](.*?)\[/ISSUE\]", re.DOTALL)


def read(row: Mapping[str, Any]) -> SweInstance:
    """Read an R2E-Gym row."""
    own = fields.recipe_fields(row)
    results = fields.obj(row, "execution_result_content")
    repo, commit = fields.text(row, "repo_name"), fields.text(row, "commit_hash")
    instance_id = fields.optional_text(row, "instance_id") or f"{repo}-{commit}"
    built = "python" in own
    return SweInstance(
        instance_id=instance_id,
        dataset="r2e_gym",
        repo=repo,
        problem_statement=statement(fields.text(row, "problem_statement")),
        image=instance_id if built else fields.image(row, {}, "r2e_gym"),
        build=fields.recipe(own, workdir=WORKDIR, key="paddock") if built else None,
        workdir=WORKDIR,
        gold_patch=gold_patch(fields.obj(row, "parsed_commit_content")),
        test_files=_tests(results),
        test_command=fields.optional_text(own, "test_cmd") or (COMMAND if built else IMAGE_COMMAND),
        rule="map",
        expected=_expected(row),
        before=parse_summary(_stdout(results)),
        hidden_paths=HIDDEN,
        env=fields.strings(own, "env"),
        network=fields.network(own),
    )


def statement(text: str) -> str:
    """Return what stands between the marks, or all of the text."""
    issue = _ISSUE.search(text)
    return issue.group(1).strip() if issue else text


def _tests(results: Mapping[str, Any]) -> dict[str, bytes]:
    key = "execution_result_content"
    file_names, codes = results.get("test_file_names"), results.get("test_file_codes")
    if not isinstance(file_names, list) or not isinstance(codes, list) or len(file_names) != len(codes) or not codes:
        raise field_error(key, "needs `test_file_names` and `test_file_codes`, lists of the same length")
    if not all(isinstance(item, str) for item in (*file_names, *codes)):
        raise field_error(key, "needs strings in `test_file_names` and `test_file_codes`")
    plain = [name.removeprefix(f"{FOLDER}/") for name in file_names]
    files = {
        f"{FOLDER}/{name}": code.encode("utf-8", "surrogateescape") for name, code in zip(plain, codes, strict=True)
    }
    return {f"{FOLDER}/__init__.py": b"", **files}


def _expected(row: Mapping[str, Any]) -> dict[str, str]:
    expected = fields.obj(row, "expected_output_json")
    if not expected or not all(isinstance(value, str) for value in expected.values()):
        raise field_error("expected_output_json", "needs a map from test to PASSED, FAILED or ERROR")
    return expected


def _stdout(results: Mapping[str, Any]) -> str:
    return str(results.get("old_commit_res_stdout") or "")
