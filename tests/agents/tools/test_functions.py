"""Python functions as tools of the agent: schema, results, mistakes, time limits, names."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.agents.tools import tool_functions
from tests.agents.tools.test_tools_agent import PLACES, ROW, ended, results, run

from paddock.agents.tools import ToolsAgent
from paddock.agents.tools.config import ToolsAgentConfig
from paddock.errors import ConfigError, RowError
from paddock.examples.inventory import InventoryServer
from paddock.server import ToolsServerConfig
from paddock.types import Row
from paddock.types.responses import call_item, message_item

MODULE = tool_functions.__name__
END = [message_item("ready")]


@pytest.fixture(autouse=True)
def released() -> Iterator[None]:
    tool_functions.RELEASED.clear()
    yield
    tool_functions.RELEASED.set()


def named(*names: str) -> Any:
    return [f"{MODULE}:{name}" for name in names]


async def test_functions_are_shown_and_run_beside_the_environments_tools() -> None:
    calls = [
        call_item("add", '{"left": 2, "right": 3}'),
        call_item("repeat", '{"text": "ab", "times": 2}'),
        call_item("halve", '{"number": 3}'),
        call_item("halve", '{"number": "four"}'),
        call_item("move", '{"item": "apple", "change": -2}'),
        call_item("move", '{"item": "pear", "change": -2}'),
    ]
    rollout, model = await run([calls, END], functions=named("add", "repeat", "halve"))
    assert (rollout.outcome, rollout.reward) == ("completed", 1.0)
    texts = results(rollout)
    assert texts[:3] == ["5", "abab", "3 is odd"]
    assert "number" in texts[3]
    assert texts[4:] == ["3", "0"]
    assert ended(rollout)["malformed"] == {"bad_arguments": 1}
    (add,) = [tool for tool in model.requests[0]["tools"] if tool["name"] == "add"]
    assert add == {
        "type": "function",
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {
            "type": "object",
            "additionalProperties": False,
            "required": ["left"],
            "properties": {
                "left": {"type": "integer"},
                "right": {"type": "integer", "default": 1, "description": "Added to it."},
            },
        },
    }


async def test_a_name_that_both_have_is_the_environments() -> None:
    calls = [call_item("functions__move", '{"item": "fig"}'), call_item("move", '{"item": "apple", "change": 0}')]
    rollout, _ = await run([calls, END], functions=named("move"))
    assert results(rollout) == ["not fig", "5"]


async def test_what_a_function_raises_is_no_reward_and_no_text() -> None:
    rollout, model = await run([[call_item("fail", "{}")], END], functions=named("fail"))
    assert (rollout.outcome, rollout.reward, len(model.requests)) == ("infra", None, 1)
    assert rollout.failure is not None
    assert (rollout.failure.owner, rollout.failure.stage) == ("us", "tools")
    assert "of its own" in rollout.failure.message


@pytest.mark.parametrize("name", ["hang", "wait"])
async def test_a_function_that_never_returns_is_ended_at_its_limit(name: str) -> None:
    calls = [call_item(name, "{}")]
    rollout, _ = await run([calls, END], functions=named(name), tool_timeout_s=0.2)
    assert (rollout.outcome, rollout.reward) == ("infra", None)
    assert rollout.failure is not None
    assert (rollout.failure.kind, rollout.failure.stage) == ("timeout", "tools")


@pytest.mark.parametrize(
    ("specs", "why"),
    [
        (named("ad"), "is no function.*`add`"),
        (named("RELEASED"), "is no function"),
        (["no_such_module_here:f"], "no module `no_such_module_here`"),
        (["add"], "package.module:function"),
        (named("untyped"), "argument `x` has no type"),
        (named("add", "add"), "have one name"),
    ],
)
def test_a_function_that_can_be_no_tool_is_refused_with_the_config(specs: list[str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        ToolsAgent(ToolsAgentConfig.model_validate({**PLACES, "functions": specs}), name="agent", peers={})


def test_a_row_may_show_functions() -> None:
    config = ToolsAgentConfig.model_validate({**PLACES, "functions": named("add", "move")})
    agent = ToolsAgent(config, name="agent", peers={})
    shelf = InventoryServer(ToolsServerConfig(), name="inventory", peers={})

    def check(*names: str) -> None:
        tools = [{"type": "function", "name": name} for name in names]
        agent.check_row(Row.from_wire({**ROW, "responses_create_params": {"input": "x", "tools": tools}}), shelf)

    check("add", "move", "functions__move")
    with pytest.raises(RowError, match="nobody serves 'functions__add'"):
        check("functions__add")
