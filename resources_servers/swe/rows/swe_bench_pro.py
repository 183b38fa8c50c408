"""SWE-bench Pro rows: tests from the fix's commit, runner and log reader per instance in the publisher's repository.

Source  ScaleAI/SWE-bench_Pro; `publishers.swe_bench_pro` names a checkout of scaleapi/SWE-bench_Pro-os, of which
        `run_scripts/ID/{run_script.sh,parser.py}` and the `ENV` lines of `dockerfiles/*/ID/Dockerfile` are read.
Tests   the last line of `before_repo_set_cmd` puts them into the tree. The tree is at /app.
Rule    fail_to_pass and pass_to_pass all PASSED. The log reader runs in a sandbox without the policy's code.
"""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.publishers import PublisherTools
from paddock.resources_servers.swe.rows.fields import dockerfile_env, field_error
from paddock.resources_servers.swe.rows.schema import (
    TOOLS,
    PublishedRow,
    TestNames,
    lacks,
    patch_bytes,
    place,
    validate,
)

NAME = "SWE-bench Pro"
WORKDIR = "/app"


class ProRow(PublishedRow):
    instance_id: Annotated[str, Field(pattern=r"^[\w.-]+$")]
    repo: Annotated[str, Field(pattern=r"^[^/]+/[^/]+$")]
    requirements: str | None = None
    interface: str | None = None
    before_repo_set_cmd: Annotated[str, Field(pattern=r"\S")]
    selected_test_files_to_run: TestNames
    fail_to_pass: Annotated[TestNames, Field(min_length=1)]
    pass_to_pass: TestNames = []
    repo_language: str = "python"


def read(row: Mapping[str, Any], tools: PublisherTools) -> SweInstance:
    """Read a SWE-bench Pro row."""
    upper = {key.lower(): row[key] for key in ("FAIL_TO_PASS", "PASS_TO_PASS") if key in row}
    made = validate(ProRow, {**upper, **row}, NAME)
    if tools.swe_bench_pro is None:
        raise lacks(
            "instance_id",
            f"a row of {NAME}: run_script.sh and parser.py of {made.instance_id} are not in the row",
            "name a checkout of scaleapi/SWE-bench_Pro-os as `publishers: {swe_bench_pro: FOLDER}`",
        )
    folder = tools.swe_bench_pro
    found = place(row, "swe_bench_pro", WORKDIR)
    dockerfiles = [
        _text(folder / "dockerfiles" / f"{kind}_dockerfile" / made.instance_id / "Dockerfile") or ""
        for kind in ("base", "instance")
    ]
    selected = ",".join(made.selected_test_files_to_run)
    return SweInstance(
        **{**found.fields(), "env": {**dockerfile_env(dockerfiles), **found.env}},
        instance_id=made.instance_id,
        dataset="swe_bench_pro",
        repo=made.repo,
        problem_statement=_statement(made),
        workdir=WORKDIR,
        gold_patch=patch_bytes(row, "patch"),
        test_patch=patch_bytes(row, "test_patch"),
        test_setup=made.before_repo_set_cmd.strip().splitlines()[-1],
        test_tools={f"{TOOLS}/run_script.sh": _script(folder, made.instance_id, "run_script.sh")},
        test_command=f"bash {TOOLS}/run_script.sh {shlex.quote(selected)}",
        log_program=_script(folder, made.instance_id, "parser.py"),
        rule="passed",
        fail_to_pass=made.fail_to_pass,
        pass_to_pass=made.pass_to_pass,
        language=made.repo_language,
    )


def _statement(made: ProRow) -> str:
    """Return what the publisher shows: the problem, its requirements and new interfaces."""
    more = [
        f"{title}:\n{text}"
        for title, text in (
            ("Requirements", made.requirements),
            ("New interfaces introduced", made.interface),
        )
        if text and re.search(r"\S", text)
    ]
    return "\n\n".join([made.problem_statement, *more])


def _script(folder: Path, instance_id: str, name: str) -> bytes:
    path = folder / "run_scripts" / instance_id / name
    text = _text(path)
    if text is None:
        raise field_error("instance_id", f"publishers.swe_bench_pro: {path} is not there")
    return text.encode("utf-8", "surrogateescape")


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        return None
