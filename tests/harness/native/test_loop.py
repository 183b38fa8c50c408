"""Claims about the loop of native harnesses, over a real model server: what it sends, what it answers, how it ends."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from paddock.errors import ConfigError
from paddock.harness import Exit, RunLimits, Step, Task, Workspace, make_harness
from paddock.harness.native import NativeHarness, NativeSettings, Toolbox, ToolResult
from paddock.http import SCRIPT, TURNS, Call, ReplayScript, new_secret
from paddock.models_servers.replay import ReplayServer
from paddock.models_servers.replay.config import ReplayConfig
from paddock.sandbox import SandboxGone
from paddock.server.rollout_model import RolloutModel
from paddock.testing import over
from paddock.types import JsonObject, TurnRecord
from paddock.types.responses import call_item, message_item

TOOLS: list[JsonObject] = [
    {
        "type": "function",
        "name": name,
        "description": "",
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    }
    for name in ("echo", "slow", "finish", "broken")
]


class LoopToolbox(Toolbox):
    closed = 0
    asleep = 0
    most_asleep = 0

    async def t_echo(self, text: str) -> str:
        return text

    async def t_slow(self, text: str) -> str:
        LoopToolbox.asleep += 1
        LoopToolbox.most_asleep = max(LoopToolbox.most_asleep, LoopToolbox.asleep)
        await asyncio.sleep(float(text))
        LoopToolbox.asleep -= 1
        return f"slept {text}"

    async def t_finish(self, text: str) -> ToolResult:
        return ToolResult("bye", done=True, final=text)

    async def t_broken(self, text: str) -> str:
        raise SandboxGone("sandbox", text)

    async def close(self) -> None:
        LoopToolbox.closed += 1


class Toy(NativeHarness):
    TOOLBOX = LoopToolbox
    at: ClassVar[Path]

    @classmethod
    def folder(cls) -> Path:
        return cls.at


@pytest.fixture
def toy(tmp_path: Path) -> type[Toy]:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "prompts").mkdir()
    profile = {"source": "toy", "tools": TOOLS, "system": "system.jinja", "user": "user.jinja"}
    (tmp_path / "profiles" / "default.json").write_text(json.dumps(profile))
    (tmp_path / "prompts" / "system.jinja").write_text("Be good.")
    (tmp_path / "prompts" / "user.jinja").write_text("{{ problem_statement }}")
    return type("HereToy", (Toy,), {"at": tmp_path})


class LoopResult:
    def __init__(self, left: Exit, steps: list[Step], record: TurnRecord) -> None:
        self.left = left
        self.results = [
            item["output"] for step in steps for item in step.output if item["type"] == "function_call_output"
        ]
        self.steps = steps
        self.record = record


@asynccontextmanager
async def model(turns: Sequence[Sequence[JsonObject]], delay_s: float = 0.0) -> AsyncIterator[tuple[Any, str]]:
    secret = new_secret()
    async with over("direct", ReplayServer(ReplayConfig(delay_s=delay_s), name="model", peers={})) as peers:
        await peers["model"].call(SCRIPT, ReplayScript(turns=[list(turn) for turn in turns]), Call(), secret=secret)
        yield peers["model"], secret


async def play(
    harness: NativeHarness,
    turns: Sequence[Sequence[JsonObject]],
    limits: RunLimits | None = None,
    *,
    kind: type[RolloutModel] = RolloutModel,
    **task: Any,
) -> LoopResult:
    steps: list[Step] = []
    workspace: Workspace = None  # type: ignore[assignment]  # the toy's tools touch none
    async with model(turns) as (peer, secret):
        played = kind(peer, Call(), secret=secret, name="model")
        left = await harness.run(Task(prompt="Go.", **task), workspace, played, limits or RunLimits(), steps.append)
        return LoopResult(left, steps, await peer.call(TURNS, {}, Call(), secret=secret))


def call(name: str, text: str) -> JsonObject:
    return call_item(name, json.dumps({"text": text}))


async def test_a_run_goes_on_until_the_policy_calls_nothing_and_every_turn_continues_the_last(toy: type[Toy]) -> None:
    ran = await play(toy(NativeSettings()), [[call("echo", "a")], [call("echo", "b")], [message_item("Done.")]])
    assert (ran.left.ended, ran.left.turns, ran.left.final) == ("finished", 3, "Done.")
    assert ran.results == ["a", "b"]
    turns = ran.record.turns
    assert [turn.parent for turn in turns] == [None, turns[0].id, turns[1].id]


class RepeatingRollout(RolloutModel):
    """Loses each first answer on its way, and asks again."""

    async def respond(self, body: JsonObject) -> JsonObject:
        await super().respond(body)
        return await super().respond(body)


async def test_each_step_names_the_turn_that_it_is_recorded_as_whether_it_calls_or_not_and_after_a_retry(
    toy: type[Toy],
) -> None:
    turns = [[call("echo", "a")], [message_item("I think."), call("echo", "a")], [message_item("Done.")]]
    for kind in (RolloutModel, RepeatingRollout):
        ran = await play(toy(NativeSettings()), turns, kind=kind)
        assert [step.turn_id for step in ran.steps] == [turn.id for turn in ran.record.turns]
        assert len(ran.steps) == 3


async def test_a_tool_may_end_the_run(toy: type[Toy]) -> None:
    ran = await play(toy(NativeSettings()), [[call("finish", "All is well.")], [call("echo", "never")]])
    assert (ran.left.ended, ran.left.turns, ran.left.final) == ("finished", 1, "All is well.")


async def test_calls_of_one_turn_run_side_by_side_and_are_answered_in_their_order(toy: type[Toy]) -> None:
    LoopToolbox.most_asleep = 0
    calls = [call("slow", "0.3"), call("slow", "0.2"), call("echo", "x")]
    ran = await play(toy(NativeSettings()), [calls, [message_item("Done.")]])
    assert ran.results == ["slept 0.3", "slept 0.2", "x"]
    assert LoopToolbox.most_asleep == 2


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        (call_item("echo", '{"text": '), "bad_json"),
        (call_item("echo", "[1]"), "bad_json"),
        (call_item("echo", "{}"), "bad_arguments"),
        (call_item("echo", '{"text": 1}'), "bad_arguments"),
        (call_item("ecko", '{"text": "a"}'), "unknown_tool"),
    ],
)
async def test_a_call_that_no_tool_can_take_is_answered_and_counted(
    toy: type[Toy], item: JsonObject, kind: str
) -> None:
    ran = await play(toy(NativeSettings()), [[item, call("echo", "b")], [message_item("Done.")]])
    assert ran.left.malformed == {kind: 1}
    assert ran.left.ended == "finished"
    assert len(ran.results) == 2
    assert ran.results[1] == "b"


async def test_a_failing_workspace_is_raised_and_is_no_text_and_what_ran_beside_it_is_cancelled(toy: type[Toy]) -> None:
    LoopToolbox.closed = 0
    with pytest.raises(SandboxGone):
        await play(toy(NativeSettings()), [[call("slow", "30"), call("broken", "it died")], [message_item("?")]])
    assert LoopToolbox.closed == 1


async def test_limits_end_a_run_between_steps(toy: type[Toy]) -> None:
    ran = await play(toy(NativeSettings()), [[call("echo", str(turn))] for turn in range(9)], RunLimits(max_turns=3))
    assert (ran.left.ended, ran.left.turns, ran.results) == ("turn_limit", 3, ["0", "1", "2"])


async def test_time_ends_a_run_in_the_middle_of_a_call(toy: type[Toy]) -> None:
    ran = await play(toy(NativeSettings()), [[call("echo", "a")], [call("slow", "60")]], RunLimits(time_s=0.5))
    assert (ran.left.ended, ran.left.turns, len(ran.steps)) == ("time_limit", 2, 1)


async def test_tools_are_shown_by_the_names_of_the_task_and_known_by_no_other(toy: type[Toy]) -> None:
    turns = [[call("Speak", "a")], [call("echo", "b")], [message_item("Done.")]]
    ran = await play(toy(NativeSettings()), turns, tool_names={"echo": "Speak"})
    assert ran.results[0] == "a"
    assert ran.left.malformed == {"unknown_tool": 1}


async def test_a_notice_comes_before_the_last_turn_and_not_earlier(toy: type[Toy]) -> None:
    asked: list[JsonObject] = []

    class WatchedModel(RolloutModel):
        async def respond(self, body: JsonObject) -> JsonObject:
            asked.append(body)
            return await super().respond(body)

    workspace: Workspace = None  # type: ignore[assignment]  # the toy's tools touch none
    harness = toy(NativeSettings(last_turn_notice="One more."))
    async with model([[call("echo", "a")], [call("echo", "b")], [call("echo", "c")]]) as (peer, secret):
        watched = WatchedModel(peer, Call(), secret=secret, name="model")
        await harness.run(Task(prompt="Go.", system="Be."), workspace, watched, RunLimits(max_turns=3), lambda _: None)
    said = [[item.get("content") for item in body["input"] if item.get("role") == "user"] for body in asked]
    assert said == [["Go."], ["Go."], ["Go.", "One more."]]
    assert asked[0]["input"][0] == {"role": "system", "content": "Be."}
    assert [tool["name"] for tool in asked[0]["tools"]] == ["echo", "slow", "finish", "broken"]


@pytest.mark.parametrize(
    ("harness", "options", "why"),
    [
        ("codex", {"max_output_token": 1}, "nearest: `max_output_tokens`"),
        ("codex", {"max_output_tokens": 0}, "greater than 0"),
        ("opencode", {"output_line": 9}, "nearest: `output_lines`"),
        ("opencode", {"output_lines": "many"}, "valid integer"),
        ("codeact", {"max_nudge": 1}, "nearest: `max_nudges`"),
    ],
)
def test_an_option_that_there_is_not_or_that_can_not_be_is_refused(harness: str, options: JsonObject, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        make_harness(harness, {"options": options})


def test_a_harness_without_a_model_of_its_options_has_those_of_its_profile(toy: type[Toy]) -> None:
    with pytest.raises(ConfigError, match=r"options\.cap: the profile has no such option"):
        toy(NativeSettings(options={"cap": 1}))
