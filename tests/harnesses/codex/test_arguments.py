"""Claims about reading a call: it is taken where the real program takes it, and else refused with the key or place."""

import json
import re
from pathlib import Path

import pytest

from paddock.harness import RunLimits, SandboxWorkspace
from paddock.harness.native import NativeSettings
from paddock.harnesses.codex import CodexHarness
from paddock.harnesses.codex.toolbox import CodexToolbox
from paddock.tools import InvalidCall

MEASURED = json.loads(Path(__file__).with_name("arguments.json").read_text())
"""By version: tool, arguments, what the program said of them; null: they were read."""
PLACE = re.compile(r"^[a-z_.0-9]+: |line \d+ column \d+|position \d+|the key '")
"""How a refusal names what is wrong: by the argument, or by where it is no JSON."""
PROFILE_OF = {"shell_command": "codex_0_63", "shell": "gpt_oss", "apply_patch": "gpt_oss"}


def toolbox(profile: str) -> CodexToolbox:
    harness = CodexHarness(NativeSettings(profile=profile))
    workspace: SandboxWorkspace = None  # type: ignore[assignment]  # reading touches none
    return CodexToolbox(workspace, RunLimits(), harness.profile)


@pytest.mark.parametrize(("tool", "raw", "said"), MEASURED["0.169.0"] + MEASURED["0.63.0"])
def test_a_call_is_read_as_the_real_program_reads_it(tool: str, raw: str, said: str | None) -> None:
    read = toolbox(PROFILE_OF.get(tool, "default")).read_arguments(tool, raw)
    if said is None:
        assert isinstance(read, dict)
    else:
        assert isinstance(read, InvalidCall)
        assert PLACE.search(read.detail)
        assert all(key in read.detail for key in re.findall("field `([^`]+)`", said))


@pytest.mark.parametrize(("depth", "is_read"), [(100, True), (100_000, False)])
def test_a_value_that_is_dropped_may_be_nested_but_not_without_end(depth: int, is_read: bool) -> None:
    raw = '{"cmd": "a", "x": ' + "[" * depth + "]" * depth + "}"
    read = toolbox("default").read_arguments("exec_command", raw)
    assert read == {"cmd": "a"} if is_read else isinstance(read, InvalidCall)


def test_of_many_wrong_values_the_first_is_named() -> None:
    read = toolbox("default").read_arguments("update_plan", json.dumps({"plan": [{"step": "a"}] * 1000}))
    assert read == InvalidCall("wrong_type", "plan.0.status: Field required")


@pytest.mark.parametrize(
    "text", ['é"\\ / \b\f\n\r\t', "\u2028\U0001f600", "\x7f", "", "*** Begin Patch\n*** End Patch\n"]
)
def test_what_any_writer_of_json_writes_is_read_back(text: str) -> None:
    for raw in (json.dumps({"cmd": text}), json.dumps({"cmd": text}, ensure_ascii=False)):
        assert toolbox("default").read_arguments("exec_command", raw) == {"cmd": text}


def test_all_fields_are_read_and_null_is_left_to_the_tool() -> None:
    given = {"cmd": "a", "workdir": None, "tty": True, "yield_time_ms": 5, "prefix_rule": ["a"], "login": False}
    assert toolbox("default").read_arguments("exec_command", json.dumps(given)) == given


def test_of_an_unknown_session_only_the_number_is_read() -> None:
    assert toolbox("default").read_arguments("write_stdin", '{"session_id": 7, "chars": 5}') == {"session_id": 7}
