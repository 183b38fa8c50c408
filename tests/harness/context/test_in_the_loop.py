"""Claims about a loop whose context is small, over real model servers: the turn tree, and the samples that it gives."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from paddock.harness import Exit, RunLimits, Task, Workspace
from paddock.harness.context import ContextSettings
from paddock.harness.native import NativeHarness, NativeSettings, Toolbox
from paddock.http import SCRIPT, TURNS, Call, Peer, ReplayScript, new_secret
from paddock.models_servers.openai import OpenAIServer
from paddock.models_servers.openai.config import OpenAIConfig
from paddock.models_servers.replay import ReplayServer
from paddock.models_servers.replay.config import ReplayConfig
from paddock.server.rollout_model import RolloutModel
from paddock.testing import ScriptedAnswer, ScriptedUpstream, over
from paddock.testing.upstream.answer import prompt_ids
from paddock.tokens import full_prompt, samples, skipped
from paddock.types import JsonObject, TurnRecord
from paddock.types.responses import call_item, calls, item_type

STEPS = 24
BUDGET = 2000
PARAMETERS: JsonObject = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}
NOTICE = "[{steps} steps]"


class LookToolbox(Toolbox):
    async def t_look(self, size: int) -> str:
        return "x" * size


class Looker(NativeHarness):
    TOOLBOX = LookToolbox


class ContextLoopModel(RolloutModel):
    """Keeps what was asked."""

    inputs: list[list[JsonObject]]

    async def respond(self, body: JsonObject) -> JsonObject:
        self.inputs.append(body["input"])
        return await super().respond(body)


class ContextLoopRun(NamedTuple):
    left: Exit
    inputs: list[list[JsonObject]]
    record: TurnRecord


@pytest.fixture
def looker(tmp_path: Path) -> type[Looker]:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "prompts").mkdir()
    tools = [{"type": "function", "name": "look", "description": "", "parameters": PARAMETERS}]
    profile = {"source": "toy", "tools": tools, "system": None, "user": "user.jinja"}
    (tmp_path / "profiles" / "default.json").write_text(json.dumps(profile))
    (tmp_path / "prompts" / "user.jinja").write_text("{{ problem_statement }}")
    return type("Here", (Looker,), {"folder": classmethod(lambda _: tmp_path)})


def look(number: int) -> str:
    return json.dumps({"size": 150 + 25 * (number % 3)})


@asynccontextmanager
async def replay(tmp_path: Path) -> AsyncIterator[tuple[Peer, str]]:
    """Plays calls; gives no ids and counts nothing."""
    config = ReplayConfig.model_validate({"turn_store": {"folder": str(tmp_path / "turns")}})
    secret = new_secret()
    async with over("direct", ReplayServer(config, name="model", peers={})) as peers:
        turns = [[call_item("look", look(number))] for number in range(STEPS)]
        await peers["model"].call(SCRIPT, ReplayScript(turns=turns), Call(), secret=secret)
        yield peers["model"], secret


@asynccontextmanager
async def upstream(tmp_path: Path, **settings: Any) -> AsyncIterator[tuple[Peer, str, ScriptedUpstream]]:
    """Counts what it renders; with `request_token_ids` gives it."""

    def said(body: JsonObject, nth: int) -> ScriptedAnswer:
        answer = ScriptedAnswer(f"Step {nth}.", (("look", look(nth)),), weight_version=f"w{nth}")
        asked, sampled = len(prompt_ids(body["messages"])), len(answer.sampled_ids())
        return replace(answer, input_tokens=asked, output_tokens=sampled)

    async with ScriptedUpstream(said, keep_bodies=True) as engine:
        found: JsonObject = {"base_url": engine.url, "model": "policy", **settings}
        config = OpenAIConfig.model_validate({**found, "turn_store": {"folder": str(tmp_path / "turns")}})
        async with over("direct", OpenAIServer(config, name="model", peers={})) as peers:
            yield peers["model"], new_secret(), engine


async def play(harness: NativeHarness, peer: Peer, secret: str) -> ContextLoopRun:
    workspace: Workspace = None  # type: ignore[assignment]  # the tool touches none
    model = ContextLoopModel(peer, Call(), secret=secret, name="model")
    model.inputs = []
    left = await harness.run(Task(prompt="Go."), workspace, model, RunLimits(max_turns=STEPS), lambda _: None)
    return ContextLoopRun(left, model.inputs, await peer.call(TURNS, {}, Call(), secret=secret))


def settings(**context: Any) -> NativeSettings:
    return NativeSettings(context=ContextSettings(omission_notice=NOTICE, **context), last_turn_notice="One more.")


def parents(ran: ContextLoopRun) -> list[int | None]:
    """Of each turn, the number of the turn that it continues."""
    ids = [turn.id for turn in ran.record.turns]
    return [None if turn.parent is None else ids.index(turn.parent) for turn in ran.record.turns]


def continued(ran: ContextLoopRun) -> list[int | None]:
    """The same, told by the requests: the latest turn whose request and answer a request begins with."""
    ends = []
    for asked, turn in zip(ran.inputs, ran.record.turns, strict=True):
        ends.append([*asked, *turn.output])
    found = []
    for number, asked in enumerate(ran.inputs):
        fitting = [nth for nth in range(number) if asked[: len(ends[nth])] == ends[nth]]
        found.append(max(fitting, key=lambda nth: len(ends[nth]), default=None))
    return found


def branches(ran: ContextLoopRun) -> list[int]:
    """Turns that do not continue the one before."""
    return [number for number, parent in enumerate(parents(ran)) if number and parent != number - 1]


async def test_each_context_that_leaves_out_a_new_range_starts_a_branch_at_its_head(
    looker: type[Looker], tmp_path: Path
) -> None:
    async with replay(tmp_path) as (peer, secret):
        ran = await play(looker(settings(max_tokens=1200)), peer, secret)
    assert ran.left.ended == "turn_limit"
    assert parents(ran) == continued(ran)
    told = [[item["content"] for item in asked if item.get("role") == "user"][1:2] for asked in ran.inputs]
    assert branches(ran) == [number for number in range(1, STEPS - 1) if told[number] != told[number - 1]]
    assert 2 <= len(branches(ran)) <= STEPS // 3
    head = [calls(turn.output)[0] for turn in ran.record.turns[:4]]
    assert [calls(asked)[:4] for asked in ran.inputs[4:]] == [head] * (STEPS - 4)
    assert {parents(ran)[number] for number in branches(ran)} == {3}


@pytest.mark.parametrize("ids", [True, False])
async def test_no_request_is_over_the_budget_by_the_engines_own_count_and_parents_are_the_same_with_and_without_ids(
    looker: type[Looker], tmp_path: Path, ids: bool
) -> None:
    engine = "spliced" if ids else "text"
    async with upstream(tmp_path, request_token_ids=ids, engine=engine) as (peer, secret, scripted):
        ran = await play(looker(settings(max_tokens=BUDGET)), peer, secret)
    lengths = [len(prompt_ids(body["messages"])) for body in scripted.bodies]
    assert max(lengths) <= BUDGET
    assert max(lengths) > 0.8 * BUDGET
    assert parents(ran) == continued(ran)
    assert 2 <= len(branches(ran)) <= STEPS // 3


async def test_a_dynamic_history_is_a_sample_per_step_on_what_the_model_saw(
    looker: type[Looker], tmp_path: Path
) -> None:
    async with upstream(tmp_path, request_token_ids=True, engine="spliced") as (peer, secret, scripted):
        ran = await play(looker(settings(max_tokens=BUDGET)), peer, secret)
    assert skipped(ran.record, "dynamic_history") == []
    found = list(samples(ran.record, "dynamic_history"))
    assert len(found) == STEPS == len(scripted.bodies)
    for number, (sample, body, turn) in enumerate(zip(found, scripted.bodies, ran.record.turns, strict=True)):
        saw = prompt_ids(body["messages"])
        assert full_prompt(ran.record.turns, turn.id) == saw
        assert sample.ids == saw + scripted.answer_to(body, number).sampled_ids()
        assert sample.prompt_length == len(saw)
        assert sample.spans[-1].weight_version == f"w{number}"


async def test_there_is_a_sample_per_branch_and_its_head_is_trained_on_once(
    looker: type[Looker], tmp_path: Path
) -> None:
    async with upstream(tmp_path, request_token_ids=True, engine="spliced") as (peer, secret, _):
        ran = await play(looker(settings(max_tokens=BUDGET)), peer, secret)
    found = list(samples(ran.record, "branch"))
    assert len(found) == 1 + len(branches(ran))
    trained = [span.turn for sample in found for span in sample.spans if span.trained]
    assert trained == [turn.id for turn in ran.record.turns]
    assert max(len(sample.ids) for sample in found) <= BUDGET + 50


async def test_a_prompt_over_the_budget_ends_the_run_at_the_context_limit(looker: type[Looker], tmp_path: Path) -> None:
    async with replay(tmp_path) as (peer, secret):
        ran = await play(looker(settings(max_tokens=10)), peer, secret)
    assert (ran.left.ended, ran.left.turns) == ("context_limit", 0)
    assert ran.left.detail is not None
    assert "over the budget of 10" in ran.left.detail
    assert ran.record.turns == []


async def test_results_stay_beside_their_calls(looker: type[Looker], tmp_path: Path) -> None:
    async with replay(tmp_path) as (peer, secret):
        ran = await play(looker(settings(max_tokens=1200)), peer, secret)
    for asked in ran.inputs:
        results = [item["call_id"] for item in asked if item_type(item) == "function_call_output"]
        assert [call.call_id for call in calls(asked)] == results
