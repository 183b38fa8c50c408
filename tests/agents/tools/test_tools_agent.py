"""Rollouts of the agent of tools: what is asked, run, judged and ended, over each transport."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from paddock.agents.tools import ToolsAgent
from paddock.agents.tools.config import ToolsAgentConfig
from paddock.errors import RowError
from paddock.examples.inventory import InventoryServer, InventoryTask
from paddock.http import RUN, Call, ModelReply, Peer
from paddock.resources_servers.external import ExternalServer
from paddock.resources_servers.pivot import PivotServer
from paddock.server import ModelServer, ServerConfig, ToolsServerConfig, tool
from paddock.testing.transports import TRANSPORTS, over
from paddock.types import JsonObject, Rollout, Row, TurnRecord
from paddock.types.responses import call_item, make_response, message_item

PLACES = {
    "resources_server": {"type": "resources_servers", "name": "inventory"},
    "model_server": {"type": "models_servers", "name": "scripted_model"},
}
ROW = {
    "responses_create_params": {"input": "Make it three apples and no pears."},
    "stock": {"apple": 5, "pear": 2},
    "wanted": {"apple": 3},
}
Turn = Sequence[JsonObject]
TAKE_APPLES = call_item("move", '{"item": "apple", "change": -2}')
TAKE_PEARS = call_item("move", '{"item": "pear", "change": -2}')
RIGHT: list[Turn] = [
    [call_item("move", '{"item": "apple", "change": 0}')],
    [TAKE_APPLES, TAKE_PEARS],
    [message_item("ready")],
]


class ScriptedTurnsModel(ModelServer[ServerConfig]):
    """Answers with one turn after the other."""

    def __init__(self, turns: Sequence[Turn], peers: dict[str, Peer], cut: int | None = None) -> None:
        super().__init__(ServerConfig(), name="scripted_model", peers=peers)
        self.requests: list[JsonObject] = []
        self._answers = turns
        self._cut = cut

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        number = len(self.requests)
        self.requests.append(body)
        reason: Any = "max_output_tokens" if number == self._cut else None
        return make_response(self._answers[number], body, model="m", incomplete_reason=reason)

    async def turns(self, secret: str) -> TurnRecord:
        return TurnRecord(engine="text", turns=[])

    async def forget(self, secret: str) -> None:
        return None


class FaultyInventory(InventoryServer):
    """Has a tool that ends the rollout, one that fails, one that hangs; counts the states that are open."""

    opened = 0
    closed = 0

    async def open_state(self, task: InventoryTask, row: Row) -> dict[str, int]:
        self.opened += 1
        return await super().open_state(task, row)

    async def close_state(self, state: dict[str, int]) -> None:
        self.closed += 1

    @tool(ends=True)
    async def hand_in(self, stock: dict[str, int]) -> None:
        """End the work."""

    @tool
    async def burn(self, stock: dict[str, int]) -> None:
        """Fail."""
        raise OSError("the shelf is on fire")

    @tool
    def recite(self, stock: dict[str, int], length: int) -> str:
        """Say letters."""
        return ("abcdefghij" * length)[:length]

    @tool
    async def wait(self, stock: dict[str, int]) -> None:
        """Never answer."""
        await asyncio.Event().wait()


@asynccontextmanager
async def servers(
    turns: Sequence[Turn], transport: Any = "direct", cut: int | None = None, **settings: Any
) -> AsyncIterator[tuple[Peer, ScriptedTurnsModel, FaultyInventory]]:
    peers: dict[str, Peer] = {}
    agent = ToolsAgent(ToolsAgentConfig.model_validate({**PLACES, **settings}), name="agent", peers=peers)
    environment = FaultyInventory(ToolsServerConfig(), name="inventory", peers=peers)
    model = ScriptedTurnsModel(turns, peers, cut)
    async with over(transport, agent, environment, model) as at:
        yield at["agent"], model, environment


async def run(turns: Sequence[Turn], row: JsonObject = ROW, **settings: Any) -> tuple[Rollout, ScriptedTurnsModel]:
    async with servers(turns, **settings) as (agent, model, environment):
        rollout = await agent.call(RUN, Row.from_wire(row), Call())
        assert (environment.opened, environment.closed) in ((1, 1), (0, 0))
        return rollout, model


def results(rollout: Rollout) -> list[str]:
    assert rollout.response is not None
    return [item["output"] for item in rollout.response["output"] if item["type"] == "function_call_output"]


def ended(rollout: Rollout) -> JsonObject:
    assert rollout.response is not None
    report: JsonObject = rollout.response["harness"]
    return report


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_calls_change_the_state_that_is_judged(transport: Any) -> None:
    rollout, model = await run(RIGHT, transport=transport)
    assert (rollout.outcome, rollout.reward, ended(rollout)["ended"]) == ("completed", 1.0, "finished")
    assert results(rollout) == ["5", "3", "0"]
    assert [tool["name"] for tool in model.requests[0]["tools"]] == ["move", "hand_in", "burn", "recite", "wait"]
    # Each request continues the one before with the model's own items, untouched.
    for before, after in zip(model.requests, model.requests[1:], strict=False):
        assert after["input"][: len(before["input"])] == before["input"]
    assert TAKE_APPLES in model.requests[2]["input"]


@pytest.mark.parametrize("cut", [None, 2])
async def test_a_model_may_give_all_calls_one_id(cut: int | None) -> None:
    """Each is run, and only those that were run are when the rollout is judged anew."""
    one, other = ({**item, "call_id": "call_0"} for item in (TAKE_APPLES, TAKE_PEARS))
    turns: list[Turn] = [[one], [other], [one] if cut else [message_item("ready")]]
    async with servers(turns, cut=cut) as (agent, _, environment):
        rollout = await agent.call(RUN, Row.from_wire(ROW), Call())
        assert (rollout.reward, results(rollout)) == (1.0, ["3", "0"])
        assert rollout.response is not None
        assert rollout.verdict is not None
        task = environment.read_task(rollout.row)
        assert await environment.reverify(task, rollout.row, rollout.response, rollout.verdict) == rollout.verdict


async def test_calls_side_by_side_keep_their_order() -> None:
    rollout, _ = await run(RIGHT, concurrent_calls=True)
    assert (rollout.reward, results(rollout)) == (1.0, ["5", "3", "0"])


async def test_what_the_model_did_wrong_is_for_it_to_read() -> None:
    wrong = [
        call_item("steal", "{}"),
        call_item("move", "{"),
        call_item("move", '{"item": "apple"}'),
        call_item("move", '{"item": "apple", "change": "x", "why": 1}'),
        call_item("move", '{"item": "apple", "change": -9}'),
    ]
    rollout, _ = await run([wrong, [message_item("sorry")]])
    assert (rollout.outcome, rollout.reward) == ("completed", 0.0)
    texts = results(rollout)
    assert "no tool 'steal'; there are: move, hand_in" in texts[0]
    assert texts[1].startswith("move: ")
    assert "change: Field required" in texts[2]
    assert "change" in texts[3]
    assert "why" in texts[3]
    assert texts[4] == "there are only 5 of apple"
    assert ended(rollout)["malformed"] == {"unknown_tool": 1, "bad_json": 1, "bad_arguments": 2}


async def test_a_tool_may_end_the_rollout() -> None:
    rollout, model = await run([[TAKE_APPLES, TAKE_PEARS, call_item("hand_in", "{}")]])
    assert (rollout.outcome, rollout.reward, len(model.requests)) == ("completed", 1.0, 1)


@pytest.mark.parametrize(
    ("settings", "why"), [({"max_turns": 2}, "turn_limit"), ({"cut": 1}, "output_limit"), ({}, "finished")]
)
async def test_what_a_limit_ends_is_judged(settings: Any, why: str) -> None:
    rollout, _ = await run(RIGHT, **settings)
    assert ended(rollout)["ended"] == why
    assert rollout.outcome == ("completed" if why == "finished" else "truncated")
    assert rollout.reward == (0.0 if why == "output_limit" else 1.0)


async def test_reasoning_alone_ends_the_run_or_goes_on_to_the_next_answer() -> None:
    thought: JsonObject = {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "Apples."}]}
    turns: list[Turn] = [[thought], *RIGHT]
    rollout, model = await run(turns)
    assert (rollout.outcome, len(model.requests)) == ("completed", 1)
    rollout, model = await run(turns, reasoning_alone="continues")
    assert (rollout.reward, len(model.requests)) == (1.0, 4)
    assert model.requests[1]["input"][-1]["type"] == "reasoning"
    rollout, model = await run([[thought]] * 3, reasoning_alone="continues", max_turns=3)
    assert (rollout.outcome, len(model.requests)) == ("truncated", 3)
    rollout, model = await run([[]], reasoning_alone="continues")
    assert (rollout.outcome, len(model.requests)) == ("completed", 1)


async def test_a_failing_tool_is_no_reward_and_no_text() -> None:
    rollout, model = await run([[call_item("burn", "{}")], [message_item("what now?")]])
    assert (rollout.outcome, rollout.reward, len(model.requests)) == ("infra", None, 1)
    assert rollout.failure is not None
    assert (rollout.failure.owner, rollout.failure.stage) == ("us", "tools")


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_hanging_tool_is_no_reward_and_is_ended(transport: Any) -> None:
    rollout, _ = await run([[call_item("wait", "{}")]], transport=transport, tool_timeout_s=0.2)
    assert (rollout.outcome, rollout.reward) == ("infra", None)
    assert rollout.failure is not None
    assert (rollout.failure.kind, rollout.failure.stage) == ("timeout", "tools")


async def test_a_row_shows_some_tools_as_it_describes_them() -> None:
    wait = {"type": "function", "name": "wait", "parameters": {"type": "object", "properties": {}}}
    row = {**ROW, "responses_create_params": {"input": "x", "tools": [wait]}}
    rollout, model = await run([[TAKE_APPLES], [message_item("no")]], row)
    assert model.requests[0]["tools"] == [wait]
    assert results(rollout) == ["There is no tool 'move'; there are: wait."]


async def test_a_row_with_tools_that_nobody_serves_is_refused() -> None:
    row = {**ROW, "responses_create_params": {"input": "x", "tools": [{"type": "function", "name": "sing"}]}}
    rollout, _ = await run(RIGHT, row)
    assert rollout.outcome == "row"
    assert rollout.failure is not None
    assert "nobody serves 'sing'; served are: burn, hand_in, move" in rollout.failure.message


async def test_such_a_row_is_found_before_anything_starts() -> None:
    agent = ToolsAgent(ToolsAgentConfig.model_validate(PLACES), name="agent", peers={})
    tools = [{"type": "function", "name": "move"}, {"type": "function", "name": "sing"}]
    row = Row.from_wire({**ROW, "responses_create_params": {"input": "x", "tools": tools}})
    shelf = FaultyInventory(ToolsServerConfig(), name="inventory", peers={})
    with pytest.raises(RowError, match="nobody serves 'sing'"):
        agent.check_row(row, shelf)
    agent.check_row(Row.from_wire({**ROW, "responses_create_params": {"input": "x", "tools": tools[:1]}}), shelf)
    with pytest.raises(RowError, match="nobody serves 'move'; served are: none"):
        agent.check_row(row, PivotServer(PivotServer.config_type(), name="pivot", peers={}))
    # What a server elsewhere serves is known when it runs.
    external = ExternalServer.config_type.model_validate({"base_url": "http://127.0.0.1:9"})
    agent.check_row(row, ExternalServer(external, name="external", peers={}))


@pytest.mark.parametrize(
    ("max_chars", "shown"),
    [
        (None, "abcdefghijabc"),
        (13, "abcdefghijabc"),
        (7, "abcd\n[... 6 characters left out ...]\nabc"),
        (1, "a\n[... 12 characters left out ...]\n"),
    ],
)
async def test_a_long_result_is_cut_in_its_middle(max_chars: int | None, shown: str) -> None:
    turns = [[call_item("recite", '{"length": 13}')], [message_item("ready")]]
    rollout, model = await run(turns, max_result_chars=max_chars)
    assert results(rollout) == [shown]
    assert model.requests[1]["input"][-1]["output"] == shown


async def test_a_cancelled_rollout_ends_its_session() -> None:
    async with servers([[call_item("wait", "{}")]]) as (agent, model, environment):
        running = asyncio.create_task(agent.call(RUN, Row.from_wire(ROW), Call()))
        while not model.requests:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await asyncio.sleep(0.05)
        assert (environment.opened, environment.closed) == (1, 1)


HIDING = {"type": "function", "name": "wait", "parameters": {"type": "object", "properties": {}}}


@pytest.mark.parametrize(
    ("turns", "settings", "tools"),
    [
        (RIGHT, {}, None),
        (RIGHT, {"max_turns": 2}, None),
        (RIGHT, {"cut": 0}, None),
        (RIGHT, {"cut": 1}, None),
        ([[TAKE_APPLES, call_item("hand_in", "{}")], []], {}, None),
        ([[TAKE_APPLES, TAKE_PEARS], [message_item("ready")]], {}, [HIDING]),
        ([[message_item("no")]], {}, None),
    ],
)
async def test_a_stored_rollout_is_judged_as_it_was(turns: Any, settings: Any, tools: Any) -> None:
    """Calls that the agent did not run (of a cut answer, of a tool that the row hides) are not run again either."""
    row = {**ROW, "responses_create_params": {"input": "x", **({"tools": tools} if tools else {})}}
    async with servers(turns, **settings) as (agent, _, environment):
        rollout = await agent.call(RUN, Row.from_wire(row), Call())
        assert rollout.response is not None
        assert rollout.verdict is not None
        task = environment.read_task(rollout.row)
        again = await environment.reverify(task, rollout.row, rollout.response, rollout.verdict)
    assert again == rollout.verdict
