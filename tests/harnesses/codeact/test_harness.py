"""Claims about CodeAct over a real model server: what ends a run, and what a call that no tool can take is told."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

import pytest

from paddock.harness import Exit, RunLimits, Step, Task, Workspace
from paddock.harness.native import NativeSettings, load_profile
from paddock.harnesses.codeact import CodeActHarness
from paddock.http import SCRIPT, Call, ReplayScript, new_secret
from paddock.models_servers.replay import ReplayServer
from paddock.models_servers.replay.config import ReplayConfig
from paddock.server.rollout_model import RolloutModel
from paddock.testing import over
from paddock.types import JsonObject
from paddock.types.responses import call_item, message_item

IN_ACTION = "\n[Error occurred in processing last action]"
ARGUMENTS = "command, path, file_text, old_str, new_str, insert_line, view_range, security_risk"
COMMANDS = "view, create, str_replace, insert, undo_edit"
IN_EXECUTION = "[An error occurred during execution.]\n"


class CodeActRun(NamedTuple):
    left: Exit
    results: list[str]
    said: list[str]
    """By the harness as the user, in the last request."""


class CodeActModel(RolloutModel):
    """Keeps the last request."""

    asked: JsonObject = {}

    async def respond(self, body: JsonObject) -> JsonObject:
        self.asked = body
        return await super().respond(body)


@pytest.fixture
async def peer() -> AsyncIterator[Any]:
    async with over("direct", ReplayServer(ReplayConfig(), name="model", peers={})) as peers:
        yield peers["model"]


async def play(
    peer: Any, turns: Sequence[Sequence[JsonObject]], names: dict[str, str] | None = None, **settings: Any
) -> CodeActRun:
    secret = new_secret()
    await peer.call(SCRIPT, ReplayScript(turns=[list(turn) for turn in turns]), Call(), secret=secret)
    model = CodeActModel(peer, Call(), secret=secret, name="model")
    steps: list[Step] = []
    workspace: Workspace = None  # type: ignore[assignment]  # no call here gets as far as a workspace
    harness = CodeActHarness(NativeSettings(**settings))
    left = await harness.run(Task(prompt="Go.", tool_names=names or {}), workspace, model, RunLimits(), steps.append)
    results = [item["output"] for step in steps for item in step.output if item["type"] == "function_call_output"]
    said = [item["content"] for item in model.asked["input"] if item.get("role") == "user"]
    return CodeActRun(left, results, said)


def call(name: str, **arguments: object) -> JsonObject:
    return call_item(name, json.dumps(arguments))


async def test_finish_ends_the_run_with_its_message(peer: Any) -> None:
    ran = await play(peer, [[call("think", thought="Hm.")], [call("finish", message="Done.")], [message_item("no")]])
    assert (ran.left.ended, ran.left.turns, ran.left.final) == ("finished", 2, "Done.")
    assert ran.results[0] == "Your thought has been logged."


async def test_an_answer_without_a_call_is_told_to_go_on_a_few_times_and_then_ends_the_run(peer: Any) -> None:
    ran = await play(peer, [[message_item(f"Shall I? {turn}")] for turn in range(9)], options={"max_nudges": 2})
    assert (ran.left.ended, ran.left.turns, ran.left.final) == ("finished", 3, "Shall I? 2")
    assert ran.said[0] == "Go."
    assert len(ran.said) == 3
    assert "nobody here to answer" in ran.said[1]


async def test_the_later_program_takes_words_for_an_end_and_asks_only_after_nothing(peer: Any) -> None:
    ran = await play(peer, [[message_item("")], [message_item("It is solved.")]], profile="openhands_1_58")
    assert (ran.left.ended, ran.left.turns, ran.left.final) == ("finished", 2, "It is solved.")
    assert len(ran.said) == 2


async def test_the_task_list_is_kept_and_shown(peer: Any) -> None:
    tasks = [{"id": "1", "title": "Look", "status": "done", "notes": "all of it"}, {"title": "Mend", "id": "2"}]
    turns = [
        [call("task_tracker", command="view")],
        [call("task_tracker", command="plan", task_list=tasks), call("task_tracker", command="view")],
        [call("finish")],
    ]
    ran = await play(peer, turns)
    assert ran.results[:3] == [
        'No task list found. Use the "plan" command to create one.',
        "Task list has been updated with 2 items.",
        "# Task List\n\n1. ✅ Look\nall of it\n2. ⏳ Mend\n\n",
    ]


RETRY = "Please check the tool name and retry with an existing tool."
V0_CASES: list[tuple[JsonObject, str, str]] = [
    (call("execute_bash"), "bad_arguments", 'Missing required argument "command" in tool call execute_bash'),
    (
        call("str_replace_editor", command="view"),
        "bad_arguments",
        'Missing required argument "path" in tool call str_replace_editor',
    ),
    (
        call("execute_bash", command="ls", timeout="soon"),
        "bad_arguments",
        "Invalid float passed to 'timeout' argument: soon",
    ),
    (
        call("task_tracker", command="plan"),
        "bad_arguments",
        'Missing required argument "task_list" for "plan" command in tool call task_tracker',
    ),
    (
        call("str_replace_editor", command="insert", path="/a", line=3),
        "bad_arguments",
        "Unexpected argument line in tool call str_replace_editor. Allowed arguments are: " + ARGUMENTS,
    ),
    (
        call("str_replace_editor", command="rename", path="/a"),
        "bad_arguments",
        "Unrecognized command rename. The allowed commands for the oh_editor tool are: " + COMMANDS,
    ),
    (
        call_item("execute_bash", '{"command": "ls'),
        "bad_json",
        'Failed to parse tool call arguments: {"command": "ls',
    ),
    (
        call("terminal", command="ls"),
        "unknown_tool",
        "Tool terminal is not registered. (arguments: {'command': 'ls'}). " + RETRY,
    ),
]


@pytest.mark.parametrize(("item", "kind", "text"), V0_CASES, ids=[text[:40] for _, _, text in V0_CASES])
async def test_a_call_that_no_tool_can_take_is_counted_and_told_why(
    peer: Any, item: JsonObject, kind: str, text: str
) -> None:
    ran = await play(peer, [[item, call("think")], [call("finish", message="")]])
    assert ran.left.malformed == {kind: 1}
    assert ran.results[:2] == [text + IN_ACTION, "Your thought has been logged."]


async def test_words_about_tools_use_the_names_that_they_are_shown_by(peer: Any) -> None:
    names = {"execute_bash": "Sh", "finish": "End", "terminal": "Sh"}
    ran = await play(peer, [[call("Sh")], [call("execute_bash")], [call("End", message="")]], names)
    assert ran.left.malformed == {"bad_arguments": 1, "unknown_tool": 1}
    assert ran.results[0].startswith('Missing required argument "command" in tool call Sh\n')
    later = await play(peer, [[call("terminal")], [call("End", message="")]], names, profile="openhands_1_58")
    assert "Available: ['Sh', 'file_editor', 'task_tracker', 'End', 'think']" in later.results[0]


@pytest.mark.parametrize(
    ("item", "kind", "parts"),
    [
        (
            call("execute_bash", command="ls"),
            "unknown_tool",
            ["Tool 'execute_bash' not found. Available: ['terminal', "],
        ),
        (call("file_editor", command="view"), "bad_arguments", ["Error validating tool 'file_editor'", "'path'"]),
        (call("terminal", command="ls", is_input="true"), "bad_arguments", ["Parameters provided: ['command', "]),
        (call("terminal", command="ls", cwd="/"), "bad_arguments", ["'cwd'"]),
        (call_item("terminal", "["), "bad_json", ["Arguments: unparseable JSON"]),
    ],
)
async def test_the_later_program_says_it_in_its_own_way(
    peer: Any, item: JsonObject, kind: str, parts: list[str]
) -> None:
    ran = await play(peer, [[item], [call("finish", message="")]], profile="openhands_1_58")
    assert ran.left.malformed == {kind: 1}
    assert ran.results[0].startswith(IN_EXECUTION)
    assert all(part in ran.results[0] for part in parts)


def test_what_the_earlier_program_forgives_is_forgiven() -> None:
    profile = load_profile(CodeActHarness.folder(), "default")
    box = CodeActHarness.TOOLBOX(None, RunLimits(), profile)  # type: ignore[arg-type]  # nothing is run
    given = {"command": "ls", "timeout": "2.5", "is_input": True, "security_risk": "NONE", "why": "so", "x": None}
    assert box.read_arguments("execute_bash", json.dumps(given)) == {
        "command": "ls",
        "timeout": 2.5,
        "is_input": False,
    }
    edit = {"command": "insert", "path": "/a", "insert_line": "3", "new_str": "x", "view_range": None}
    accepted_arguments = box.read_arguments("str_replace_editor", json.dumps(edit))
    assert accepted_arguments == {"command": "insert", "path": "/a", "insert_line": 3, "new_str": "x"}
