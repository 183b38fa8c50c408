"""Claims about transcripts: steps from what passes and what is recorded, whatever the dialect; pins that are pure."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.harness import SideRequest, Step
from paddock.harness.programs.step_recorder import RequestRules, StepRecorder
from paddock.testing.native import ModelWithoutPrograms
from paddock.types import JsonObject, TurnSummary
from paddock.types.responses import call_item, message_item

SHELL = {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]}
TOOLS: dict[str, list[JsonObject]] = {
    "responses": [{"type": "function", "name": "exec_command", "parameters": SHELL}],
    "chat": [{"type": "function", "function": {"name": "exec_command", "parameters": SHELL}}],
    "messages": [{"name": "exec_command", "input_schema": SHELL}],
}
PATHS = {"responses": "/v1/responses", "chat": "/v1/chat/completions", "messages": "/v1/messages"}


class TurnsModel(ModelWithoutPrograms):
    """A model whose record the test writes."""

    name = "policy"

    def __init__(self) -> None:
        self.turns: list[TurnSummary] = []

    async def respond(self, body: JsonObject) -> JsonObject:
        raise AssertionError("a program asks by itself")

    async def transcript(self, skip: int = 0) -> Sequence[TurnSummary]:
        return self.turns[skip:]

    def say(self, *items: JsonObject, reason: Any = "tool_calls") -> None:
        number = len(self.turns)
        self.turns.append(
            TurnSummary(id=f"turn_{number}", parent=None, finish_reason=reason, output=list(items), sampled_tokens=3)
        )


class RecorderRun:
    """A transcript, and all that it tells."""

    def __init__(self, **rules: Any) -> None:
        self.model = TurnsModel()
        self.steps: list[Step] = []
        self.commands: list[str] = []
        self.recorder = StepRecorder(
            self.model, self.steps.append, rules=RequestRules(**rules), note=self.commands.append
        )


def results(dialect: str, *pairs: tuple[str, str]) -> list[JsonObject]:
    """Results of calls, as a client sends them back."""
    if dialect == "chat":
        return [{"role": "tool", "tool_call_id": call_id, "content": text} for call_id, text in pairs]
    if dialect == "messages":
        parts = [{"type": "tool_result", "tool_use_id": call_id, "content": text} for call_id, text in pairs]
        return [{"role": "user", "content": parts}]
    return [{"type": "function_call_output", "call_id": call_id, "output": text} for call_id, text in pairs]


def request(dialect: str, *items: JsonObject) -> JsonObject:
    key = "input" if dialect == "responses" else "messages"
    return {"model": "policy", key: [{"role": "user", "content": "Go."}, *items], "tools": TOOLS[dialect]}


@pytest.mark.parametrize("dialect", PATHS)
async def test_steps_are_turns_with_their_results_in_every_dialect(dialect: str) -> None:
    run = RecorderRun()
    one, two = call_item("exec_command", '{"cmd":"ls"}', "c1"), call_item("exec_command", '{"cmd":"pwd"}', "c2")
    async with run.recorder.recording():
        run.recorder.filter(PATHS[dialect], request(dialect))
        run.model.say(one, two)
        run.recorder.filter(PATHS[dialect], request(dialect, *results(dialect, ("c1", "a.txt"), ("c2", "/testbed"))))
        while not run.steps:
            await asyncio.sleep(0)
        run.model.say(message_item("Done."), reason="stop")
    await run.recorder.finish()
    outputs = [
        {"type": "function_call_output", "call_id": "c1", "output": "a.txt"},
        {"type": "function_call_output", "call_id": "c2", "output": "/testbed"},
    ]
    assert [(step.turn, step.turn_id) for step in run.steps] == [(1, "turn_0"), (2, "turn_1")]
    assert run.steps[0].output == [one, two, *outputs]
    assert (run.recorder.turns, run.recorder.final, run.recorder.sampled_tokens) == (2, "Done.", 6)
    assert run.commands == ["ls", "pwd"]
    assert not run.recorder.malformed


async def test_a_custom_call_keeps_its_kind() -> None:
    run = RecorderRun()
    call = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "apply_patch", "input": "*** Begin"}
    run.model.say(call)
    answer = {"type": "custom_tool_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "ok"}]}
    run.recorder.filter("/v1/responses", request("responses", answer))
    await run.recorder.finish()
    assert run.steps[0].output[1:] == [{"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"}]


async def test_calls_that_no_tool_can_take_are_counted_by_what_was_wrong() -> None:
    run = RecorderRun()
    run.recorder.filter("/v1/chat/completions", request("chat"))
    run.model.say(
        call_item("exec_command", "{", "c1"),
        call_item("exec_command", "[]", "c2"),
        call_item("fly", "{}", "c3"),
        call_item("exec_command", '{"dir":"x"}', "c4"),
        call_item("exec_command", '{"cmd":"true"}', "c5"),
    )
    run.model.say(call_item("exec_command", '{"cmd', "c6"), reason="length")
    await run.recorder.finish()
    assert dict(run.recorder.malformed) == {"bad_json": 2, "unknown_tool": 1, "bad_arguments": 1, "cut": 1}
    assert run.commands == ["true"]


async def test_a_cancelled_run_tells_what_was_known() -> None:
    run = RecorderRun()
    run.model.say(call_item("exec_command", '{"cmd":"sleep 9"}', "c1"))

    async def live() -> None:
        async with run.recorder.recording():
            run.recorder.filter("/v1/responses", request("responses"))
            await asyncio.sleep(3600)

    task = asyncio.create_task(live())
    while not run.recorder.turns:
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [step.turn for step in run.steps] == [1]


def test_what_is_no_part_of_the_task_is_refused_and_counted() -> None:
    def side_request(path: str, body: JsonObject) -> str | None:
        return None if body.get("tools") else "a title"

    run = RecorderRun(side_request=side_request)
    with pytest.raises(SideRequest, match="a title"):
        run.recorder.filter("/v1/chat/completions", {"messages": []})
    run.recorder.filter("/v1/chat/completions", request("chat"))
    assert dict(run.recorder.side_requests) == {"a title": 1}


def dateless(text: str) -> str:
    return text.replace("Sunday", "Monday")


TEXTS = st.text(alphabet="ab ", max_size=5) | st.just("It is Sunday.")
CONTENTS = TEXTS | st.lists(st.builds(lambda text: {"type": "input_text", "text": text}, TEXTS), max_size=2)
MESSAGES = st.builds(
    lambda role, content: {"role": role, "content": content},
    st.sampled_from(["system", "developer", "user", "assistant", "tool"]),
    CONTENTS,
)


@given(st.sampled_from(["input", "messages"]), st.lists(MESSAGES, max_size=6), CONTENTS)
def test_pins_are_pure_and_end_where_the_model_begins(key: str, history: list[JsonObject], system: Any) -> None:
    run = RecorderRun(pin=dateless)
    body = {key: history, "system": system, "temperature": 1}
    before = json.dumps(body)
    filter = run.recorder.filter("/v1/messages", body)
    assert json.dumps(body) == before
    assert run.recorder.filter("/v1/messages", filter) == filter
    begun = next(
        (place for place, message in enumerate(history) if message["role"] in ("assistant", "tool")), len(history)
    )
    assert filter[key][begun:] == history[begun:]
    assert "Sunday" not in json.dumps([filter[key][:begun], filter["system"]])
    assert json.dumps(filter).replace("Monday", "Sunday") == before
    if filter == body:
        assert filter is body
