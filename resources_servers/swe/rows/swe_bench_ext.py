"""swe-bench-ext rows (NeMo-Gym): a test command, a framework, and its report read by NeMo-Gym's own functions.

Source  `instance_dict` of NeMo-Gym's data set `swe-bench-ext`: `base_commit`, `test_command`, `test_framework`,
        `test_patch`, FAIL_TO_PASS and PASS_TO_PASS in either case; the tree is where `workdir` says, else /testbed.
Report  the framework's flags are added to the command; the file that they write is read apart from the output.
Rule    all listed tests PASSED, names matched as NeMo-Gym does. It grades what is left of a patch of which parts do not
        apply (`--reject ... || true`); here such a patch is refused.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AliasChoices, Field

from paddock.resources_servers.swe.instance import LogReader, SweInstance
from paddock.resources_servers.swe.publishers import PublisherTools, describe, interpreter
from paddock.resources_servers.swe.rows.fields import field_error
from paddock.resources_servers.swe.rows.schema import PublishedRow, TestNames, Text, patch_bytes, place, validate

NAME = "swe-bench-ext"
KEY = "nemo_gym_python"


class BenchExtRow(PublishedRow):
    test_command: Text
    test_framework: Text
    test_patch: Text
    workdir: Annotated[str, Field(pattern="^/")] = "/testbed"
    fail_to_pass: Annotated[TestNames, Field(min_length=1)] = Field(
        validation_alias=AliasChoices("FAIL_TO_PASS", "fail_to_pass")
    )
    pass_to_pass: TestNames = Field(default=[], validation_alias=AliasChoices("PASS_TO_PASS", "pass_to_pass"))


def read(row: Mapping[str, Any], tools: PublisherTools) -> SweInstance:
    """Read a swe-bench-ext row."""
    made = validate(BenchExtRow, row, NAME)
    framework, python = made.test_framework, tools.nemo_gym_python
    asked = describe(KEY, "ext_command", python, command=made.test_command, framework=framework)
    if not asked["known"]:
        raise field_error("test_framework", f"NeMo-Gym has no framework {framework!r}")
    file = asked["result_file"]
    tests = [*made.fail_to_pass, *made.pass_to_pass]
    return SweInstance(
        **place(row, "swe_bench_local", made.workdir).fields(),
        instance_id=made.instance_id,
        dataset="swe_bench_ext",
        repo=made.repo,
        problem_statement=made.problem_statement,
        workdir=made.workdir,
        gold_patch=patch_bytes(row, "patch"),
        test_patch=patch_bytes(row, "test_patch"),
        test_command=f"mkdir -p /workspace/test-results\n{asked['command']}",
        # A pattern names no file there either: the output is read.
        result_command=None if file is None or "*" in file else f"cat {file}",
        log_reader=LogReader(
            call="ext_parse",
            args={"framework": framework, "tests": tests},
            python=interpreter(python),
            reads_results=True,
        ),
        rule="passed",
        fail_to_pass=made.fail_to_pass,
        pass_to_pass=made.pass_to_pass,
        language=str(row.get("language") or "python"),
    )
