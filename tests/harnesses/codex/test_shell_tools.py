"""Claims about the tools of 0.63 over a real sandbox."""

import json
from typing import Any

import pytest

pytestmark = pytest.mark.sandbox
NOT_FOUND = 'execution error: Io(Os { code: 2, kind: NotFound, message: "No such file or directory" })'
PATCH = "*** Begin Patch\n*** Add File: n.txt\n+n\n*** End Patch\n"
ADDED = "Success. Updated the following files:\nA n.txt\n"


def as_json(output: str, exit_code: int = 0) -> str:
    return json.dumps(
        {"output": output, "metadata": {"exit_code": exit_code, "duration_seconds": 0.0}}, separators=(",", ":")
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"command": "echo hi; echo e >&2; exit 3"}, "Exit code: 3\nWall time: 0 seconds\nOutput:\nhi\ne\n"),
        ({"command": "pwd", "workdir": "sub"}, "Exit code: 0\nWall time: 0 seconds\nOutput:\n/testbed/sub\n"),
        ({"command": "echo p; sleep 9", "timeout_ms": 700}, "Exit code: 124\nWall time: 0 seconds\nOutput:\np\n"),
        ({"command": "pwd", "workdir": "/nosuch"}, NOT_FOUND),
        ({"command": f"apply_patch <<'EOF'\n{PATCH}EOF\n"}, as_json(ADDED)),
    ],
)
async def test_a_line_of_shell(codex: Any, arguments: dict[str, Any], said: str) -> None:
    assert await codex("codex_0_63")("shell_command", **arguments) == said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"command": ["echo", "a  b", "$HOME"]}, as_json("a  b $HOME\n")),
        ({"command": ["bash", "-lc", "echo e >&2; exit 3"]}, as_json("e\n", 3)),
        (
            {"command": ["bash", "-lc", "echo p; sleep 9"], "timeout_ms": 700},
            as_json("command timed out after 700 milliseconds\np\n", 124),
        ),
        ({"command": ["nosuch"]}, NOT_FOUND),
        ({"command": ["pwd"], "workdir": "/nosuch"}, NOT_FOUND),
        ({"command": []}, "command args are empty"),
        ({"command": ["apply_patch", PATCH]}, as_json(ADDED)),
        ({"command": ["bash", "-lc", f"apply_patch <<EOF\n{PATCH}EOF\n"]}, as_json(ADDED)),
    ],
)
async def test_a_program_with_its_arguments(codex: Any, arguments: dict[str, Any], said: str) -> None:
    assert await codex("gpt_oss")("shell", **arguments) == said


async def test_a_patch_as_a_function_is_answered_with_json(codex: Any) -> None:
    call = codex("gpt_oss")
    assert await call("apply_patch", input=PATCH) == as_json(ADDED)
    refused = "apply_patch verification failed: invalid patch: The first line of the patch must be '*** Begin Patch'"
    assert await call("apply_patch", input="x") == refused


async def test_long_output_keeps_its_ends_under_a_heading(codex: Any) -> None:
    said = await codex("codex_0_63")("shell_command", command="seq 1 30000")
    assert said.startswith("Exit code: 0\nWall time: 0 seconds\nTotal output lines: 30000\nOutput:\n1\n2\n")
    assert "\n42…32224 tokens truncated…7\n26668\n" in said
    said = await codex("codex_0_63")("shell_command", command="head -c 50000 /dev/zero | tr '\\0' x")
    x = "x" * 20000
    assert said == f"Exit code: 0\nWall time: 0 seconds\nOutput:\n{x}…2500 tokens truncated…{x}"


async def test_more_rights_are_refused(codex: Any) -> None:
    said = await codex("codex_0_63")("shell_command", command="true", with_escalated_permissions=True)
    assert said.startswith("approval policy is Never; reject command — you should not ask for escalated permissions")
