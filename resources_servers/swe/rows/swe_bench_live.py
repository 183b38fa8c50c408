"""SWE-bench-Live rows (also MultiLang): commands that rebuild, test and print, and a parser that the row itself holds.

Source  SWE-bench-Live/SWE-bench-Live, /MultiLang: `test_cmds`, `rebuild_cmds`, `print_cmds`, and `log_parser`: the word
        `pytest`, or a Python program that defines `parser(log)`, which runs in a sandbox without the policy's code.
Rule    SWE-bench's. The publisher's own lets a PASS_TO_PASS test be missing; here it must be there.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AliasChoices, Field

from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.rows.fields import field_error
from paddock.resources_servers.swe.rows.schema import (
    Commands,
    PublishedRow,
    TestLists,
    Text,
    patch_bytes,
    place,
    validate,
)

NAME = "SWE-bench-Live"
WORKDIR = "/testbed"
PROGRAM = """import json, sys
names = {"pass": "PASSED", "fail": "FAILED", "skip": "SKIPPED"}
space = {}
exec(SOURCE, space)
with open(sys.argv[1], encoding="utf-8", errors="replace") as file:
    found = space["parser"](file.read())
tests = [{"name": name, "status": names.get(status, status)} for name, status in found.items()]
with open(sys.argv[3], "w") as file:
    json.dump({"tests": tests}, file)
"""


class LiveRow(PublishedRow, TestLists):
    test_patch: Text
    test_cmds: Annotated[Commands, Field(min_length=1)]
    rebuild_cmds: Commands = []
    print_cmds: Commands = []
    log_parser: Text = Field(default="pytest", validation_alias=AliasChoices("log_parser", "parser"))
    docker_image: str | None = None


def read(row: Mapping[str, Any]) -> SweInstance:
    """Read a SWE-bench-Live row."""
    made = validate(LiveRow, row, NAME)
    if ".win." in (made.docker_image or ""):
        raise field_error("docker_image", f"{made.docker_image}: a Windows image; sandboxes here are Linux's")
    named = made.log_parser.strip().lower() == "pytest"
    if not named and "def parser" not in made.log_parser:
        raise field_error("log_parser", "needs `pytest`, or a Python program that defines `parser(log)`")
    return SweInstance(
        **place(row, "swe_bench_live", WORKDIR).fields(),
        instance_id=made.instance_id,
        dataset="swe_bench_live",
        repo=made.repo,
        problem_statement=made.problem_statement,
        workdir=WORKDIR,
        gold_patch=patch_bytes(row, "patch"),
        test_patch=patch_bytes(row, "test_patch"),
        test_command=_command(made, merged=not named),
        log_parser="parse_log_pytest",
        log_program=None if named else f"SOURCE = {made.log_parser!r}\n{PROGRAM}".encode(),
        fail_to_pass=made.FAIL_TO_PASS,
        pass_to_pass=made.PASS_TO_PASS,
        language=str(row.get("language") or "python"),
    )


def _command(made: LiveRow, *, merged: bool) -> str:
    """Return the commands as one; what is printed at the end is the log, where something is."""
    tests = " ; ".join(made.test_cmds)
    if made.rebuild_cmds:
        tests = f"{{ {' ; '.join(made.rebuild_cmds)} ; }} >/dev/null 2>&1\n{tests}"
    if made.print_cmds:
        return f"{{\n{tests}\n}} >/dev/null 2>&1\nstatus=$?\n{{ {' ; '.join(made.print_cmds)} ; }} 2>&1\nexit $status"
    return f"{{\n{tests}\n}} 2>&1" if merged else tests
