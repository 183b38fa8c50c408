"""Claims about a whole run over a real model server and a real sandbox: how it ends, and how bad calls are answered."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from paddock.harness import Exit, RunLimits, SandboxWorkspace, Step, Task
from paddock.harness.native import NativeSettings
from paddock.harnesses.codex import CodexHarness
from paddock.http import SCRIPT, Call, ReplayScript, new_secret
from paddock.models_servers.replay import ReplayServer
from paddock.models_servers.replay.config import ReplayConfig
from paddock.server.rollout_model import RolloutModel
from paddock.testing import over
from paddock.types import Fix, JsonObject
from paddock.types.responses import call_item, message_item

pytestmark = pytest.mark.sandbox
DONE = [message_item("Done.")]
PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n-two\n+TWO\n*** End Patch\n"


def custom(name: str, text: str) -> JsonObject:
    return {"type": "custom_tool_call", "id": "ctc_1", "call_id": f"call_{name}", "name": name, "input": text}


async def run(
    workspace: SandboxWorkspace, turns: Sequence[Sequence[JsonObject]], profile: str = "default", **task: Any
) -> tuple[Exit, list[str]]:
    steps: list[Step] = []
    secret = new_secret()
    async with over("direct", ReplayServer(ReplayConfig(), name="model", peers={})) as peers:
        await peers["model"].call(SCRIPT, ReplayScript(turns=[list(turn) for turn in turns]), Call(), secret=secret)
        model = RolloutModel(peers["model"], Call(), secret=secret, name="model")
        harness = CodexHarness(NativeSettings(profile=profile))
        left = await harness.run(Task(prompt="Go.", **task), workspace, model, RunLimits(), steps.append)
    said = [str(item["output"]) for step in steps for item in step.output if str(item["type"]).endswith("_output")]
    return left, said


async def test_an_answer_without_a_call_ends_the_run(workspace: SandboxWorkspace) -> None:
    left, said = await run(workspace, [[call_item("exec_command", '{"cmd": "pwd"}')], DONE])
    assert (left.ended, left.turns, left.final) == ("finished", 2, "Done.")
    assert said[0].endswith("Output:\n/testbed\n")


async def test_calls_that_no_tool_can_take_are_answered_and_counted(workspace: SandboxWorkspace) -> None:
    bad = "failed to parse function arguments: exec_command: "
    asked: list[tuple[JsonObject, str]] = [
        (call_item("foo", "{}"), "unsupported call: foo"),
        (custom("foo", "text"), "unsupported custom tool call: foo"),
        (call_item("exec_command", "ls"), f"{bad}arguments are not JSON: Expecting value: line 1 column 1 (char 0)"),
        (call_item("exec_command", "{}"), f"{bad}cmd: Field required"),
        (call_item("apply_patch", json.dumps({"input": PATCH})), "aborted"),
        (custom("exec_command", "touch ran"), "aborted"),
        (call_item("write_stdin", '{"session_id": 5}'), "write_stdin failed: Unknown process id 5"),
        (call_item("update_plan", '{"plan": []}'), "Plan updated"),
    ]
    left, said = await run(workspace, [[item for item, _ in asked], DONE])
    assert said == [text for _, text in asked]
    assert left.malformed == {"unknown_tool": 2, "bad_json": 2, "bad_arguments": 1}
    assert (await workspace.exec(["ls", "ran"])).exit_code != 0


@pytest.mark.parametrize(
    ("profile", "item"),
    [
        ("default", custom("apply_patch", PATCH)),
        ("functions", call_item("apply_patch", json.dumps({"input": PATCH}))),
        ("codex_0_63", custom("apply_patch", PATCH)),
    ],
)
async def test_a_patch_is_applied_as_a_custom_tool_or_as_a_function(
    workspace: SandboxWorkspace, profile: str, item: JsonObject
) -> None:
    _, said = await run(workspace, [[item], DONE], profile)
    assert said == ["Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated the following files:\nM a.txt\n"]
    assert await workspace.read("a.txt") == b"one\nTWO\nthree\n"


@pytest.mark.parametrize(
    ("command", "ending"),
    [
        (f"apply_patch <<'EOF'\n{PATCH}EOF\n", "M a.txt\n"),
        (f"cd sub && apply_patch <<EOF\n{PATCH.replace('a.txt', '../a.txt')}EOF", "M ../a.txt\n"),
        (PATCH, 'Rerun as ["apply_patch", "<patch>"]'),
    ],
)
async def test_a_patch_in_place_of_a_command_is_seen(workspace: SandboxWorkspace, command: str, ending: str) -> None:
    _, said = await run(workspace, [[call_item("exec_command", json.dumps({"cmd": command}))], DONE])
    assert said[0].endswith(ending)
    changed = await workspace.read("a.txt") == b"one\nTWO\nthree\n"
    assert changed == (command is not PATCH)


async def test_tools_are_known_by_the_names_that_are_shown(workspace: SandboxWorkspace) -> None:
    turns = [[call_item("Run", '{"cmd": "pwd"}'), call_item("exec_command", '{"cmd": "pwd"}')], DONE]
    _, said = await run(workspace, turns, tool_names={"exec_command": "Run"})
    assert said[0].endswith("/testbed\n")
    assert said[1] == "unsupported call: exec_command"


async def test_the_oracle_plays_through_the_loop(workspace: SandboxWorkspace) -> None:
    patch = b"diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    fix = Fix(patch=patch, workdir="/testbed", files={"a.txt": "one\ntwo\nthree\n"})
    turns = CodexHarness(NativeSettings()).oracle(fix)
    left, _ = await run(workspace, turns)
    assert (left.ended, left.malformed, left.turns) == ("finished", {}, len(turns))
    assert await workspace.read("a.txt") == b"one\n2\nthree\n"
