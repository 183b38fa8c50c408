"""Claims about calls in the loop that tables can't hold: refusals, kills, limits, names, the model's own items."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from paddock.harness import RunLimits, SandboxWorkspace, Step, Task
from paddock.harness.native import NativeSettings
from paddock.harnesses.opencode import OpenCodeHarness
from paddock.sandbox.blocklist import Blocklist
from paddock.testing.native import ModelWithoutPrograms
from paddock.testing.sandboxes import WORKDIR
from paddock.types import JsonObject
from paddock.types.responses import call_item, make_response, message_item

pytestmark = pytest.mark.sandbox
Open = Callable[..., Awaitable[SandboxWorkspace]]
END = [message_item("Done.")]


def call(tool: str, **arguments: Any) -> JsonObject:
    return call_item(tool, json.dumps(arguments))


class CutModel(ModelWithoutPrograms):
    """Each of its answers ends at its limit."""

    name = "model"

    def __init__(self, answers: list[list[JsonObject]]) -> None:
        self._answers = answers

    async def respond(self, body: JsonObject) -> JsonObject:
        return make_response(self._answers.pop(0), body, model=self.name, incomplete_reason="max_output_tokens")


@pytest.mark.slow
async def test_a_message_without_a_call_ends_the_run(open_workspace: Open, play: Any) -> None:
    ran = await play(await open_workspace(), [[call("bash", command="pwd")], END, [call("bash", command="never")]])
    assert (ran.left.ended, ran.left.turns, ran.left.final) == ("finished", 2, "Done.")
    assert ran.results == [f"{WORKDIR}\n"]


@pytest.mark.slow
async def test_calls_that_no_tool_can_take_are_counted_answered_and_kept_as_the_model_wrote_them(
    open_workspace: Open, play: Any
) -> None:
    wrong = [
        call_item("bash", '{"command": "echo'),
        call_item("fetch", '{"url":  "x"}'),
        call_item("bash", '{"timeout": 5}'),
        call_item("edit", "[1]"),
    ]
    ran = await play(await open_workspace(), [wrong, END])
    assert ran.left.malformed == {"bad_json": 2, "unknown_tool": 1, "bad_arguments": 1}
    assert ran.left.ended == "finished"
    listed = [item for item in ran.items if item["type"] == "function_call"]
    assert [(item["name"], item["arguments"]) for item in listed] == [
        (item["name"], item["arguments"]) for item in wrong
    ]
    assert all(result for result in ran.results)


async def test_the_calls_of_a_cut_answer_are_answered_and_a_cut_message_ends_the_run(open_workspace: Open) -> None:
    answers = [[call("bash", command="echo whole"), call_item("bash", '{"command": "echo ha')], [message_item("So I")]]
    model = CutModel(answers)
    steps: list[Step] = []
    harness = OpenCodeHarness(NativeSettings())
    left = await harness.run(Task(prompt="Go."), await open_workspace(), model, RunLimits(), steps.append)
    assert (left.ended, left.turns, left.malformed) == ("output_limit", 2, {"cut": 1})
    results = [str(item["output"]) for item in steps[0].output if item["type"] == "function_call_output"]
    assert results[0] == "whole\n"
    assert "Unterminated string" in results[1]
    assert "line 1 column 13" in results[1]


async def test_a_name_in_other_letters_is_put_right_and_is_no_fault(open_workspace: Open, play: Any) -> None:
    ran = await play(await open_workspace(), [[call("Read", filePath="a.txt"), call("BASH", command="echo x")], END])
    assert ran.left.malformed == {}
    assert ran.results[0].startswith(f"<path>{WORKDIR}/a.txt</path>")
    assert ran.results[1] == "x\n"


async def test_a_refused_command_is_answered_in_the_refusals_words_also_elsewhere(
    open_workspace: Open, play: Any
) -> None:
    workspace = await open_workspace(blocklist=Blocklist())
    calls = [call("bash", command="shutdown now"), call("bash", command="shutdown now", workdir="/tmp")]
    ran = await play(workspace, [calls, END])
    assert all("Not run" in result for result in ran.results)
    assert sum(workspace.counts.refused.values()) == 2


async def test_a_memory_kill_is_told_with_the_output(open_workspace: Open, play: Any) -> None:
    workspace = await open_workspace(memory_mib=48)
    command = "echo so far; x=$(head -c 300000000 /dev/zero | tr '\\0' x); echo ${#x}; true"
    ran = await play(workspace, [[call("bash", command=command)], END])
    assert ran.results[0].startswith("so far\n")
    assert "48 MiB is all there is" in ran.results[0]


async def test_the_limit_of_a_tool_goes_before_the_calls_own(open_workspace: Open, play: Any) -> None:
    calls = [call("bash", command="echo a; sleep 20", timeout=15000)]
    ran = await play(await open_workspace(), [calls, END], limits=RunLimits(tool_s=0.4))
    assert ran.results[0].startswith("a\n\n\n<shell_metadata>\nshell tool terminated command")
    assert "exceeding timeout 400 ms" in ran.results[0]


async def test_edits_of_one_file_in_one_message_are_all_made(open_workspace: Open, play: Any) -> None:
    workspace = await open_workspace()
    words = [f"word{number};" for number in range(12)]
    await workspace.write("words.txt", "".join(words).encode())
    edits = [call("edit", filePath="words.txt", oldString=word, newString=word.upper()) for word in words]
    ran = await play(workspace, [edits, END])
    assert set(ran.results) == {"Edit applied successfully."}
    assert (await workspace.read("words.txt")).decode() == "".join(words).upper()


async def test_a_long_output_can_be_read_where_the_result_says(open_workspace: Open, play: Any) -> None:
    workspace = await open_workspace()
    command = "seq 1 9000"
    ran = await play(workspace, [[call("bash", command=command)], [call("bash", command=command)], END])
    assert ran.results[0] == ran.results[1]
    path = ran.results[0].split("saved to: ")[1].split("\n")[0]
    assert not path.startswith(WORKDIR)
    assert (await workspace.read(path)).decode() == "".join(f"{number}\n" for number in range(1, 9001))


async def test_searches_leave_nothing_behind_and_come_in_the_order_of_paths(open_workspace: Open, play: Any) -> None:
    workspace = await open_workspace()
    for name in ("z.py", "b/c.py", "b.py", "a b.py"):
        await workspace.write(name, b"needle\n")
    calls = [call("glob", pattern="*.py"), call("grep", pattern="need(le)", include="*.py")]
    ran = await play(workspace, [calls, END])
    paths = [f"{WORKDIR}/{name}" for name in ("a b.py", "b.py", "b/c.py", "z.py")]
    assert ran.results[0].split("\n") == paths
    assert [line for line in ran.results[1].split("\n") if line.endswith(":")] == [f"{path}:" for path in paths]
    assert (await workspace.exec(["ls", "-A", "/tmp"])).output == b""


@pytest.mark.slow
async def test_a_search_over_many_files_stops_at_its_limit(open_workspace: Open, play: Any) -> None:
    workspace = await open_workspace()
    name = "a-long-name-so-that-several-commands-are-needed"
    await workspace.exec(["bash", "-c", f"mkdir d; for i in $(seq 3000); do echo needle > d/{name}-$i; done"])
    ran = await play(workspace, [[call("grep", pattern="needle"), call("glob", pattern="d/*")], END])
    assert ran.results[0].startswith("Found 100 matches (more matches available)\n")
    assert ran.results[0].count("  Line 1: needle") == 100
    assert ran.results[1].count(name) == 100
    ran = await play(workspace, [[call("grep", pattern="needle", include=f"{name}-9*")], END])
    assert ran.results[0].startswith("Found 100 matches")
