"""What a single-step agent asks its model for."""

from typing import Any

import pytest

from paddock.agents.single_step import SingleStepAgent
from paddock.agents.single_step.server import SingleStepConfig
from paddock.conformance.scripted import EnvironmentConfig, ScriptedEnvironment
from paddock.http import RUN, Call, ModelReply, Peer
from paddock.server import ModelServer, ServerConfig
from paddock.testing.transports import over
from paddock.types import JsonObject, Row, TurnRecord
from paddock.types.responses import make_response, message_item

PLACES = {
    "resources_server": {"type": "resources_servers", "name": "scripted"},
    "model_server": {"type": "models_servers", "name": "listening"},
}


class ListeningModel(ModelServer[ServerConfig]):
    """Keeps what it was asked."""

    def __init__(self, asked: list[JsonObject], peers: dict[str, Peer]) -> None:
        super().__init__(ServerConfig(), name="listening", peers=peers)
        self.asked = asked

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        self.asked.append(body)
        return make_response([message_item("yes")], body, model="m")

    async def turns(self, secret: str) -> TurnRecord:
        return TurnRecord(engine="text", turns=[])

    async def forget(self, secret: str) -> None:
        return None


@pytest.mark.parametrize(
    ("ours", "rows", "asked"),
    [
        ({}, {}, None),
        ({}, {"a": 1}, {"a": 1}),
        ({"enable_thinking": False}, {}, {"enable_thinking": False}),
        ({"enable_thinking": False}, {"a": 1, "enable_thinking": True}, {"a": 1, "enable_thinking": False}),
    ],
)
async def test_the_template_is_told_what_the_block_says_over_the_row(ours: Any, rows: Any, asked: Any) -> None:
    heard: list[JsonObject] = []
    peers: dict[str, Peer] = {}
    agent = SingleStepAgent(
        SingleStepConfig.model_validate({**PLACES, "chat_template_kwargs": ours}), name="agent", peers=peers
    )
    environment = ScriptedEnvironment(EnvironmentConfig(), name="scripted", peers=peers)
    told = {"chat_template_kwargs": rows} if rows else {}
    row = Row.from_wire({"responses_create_params": {"input": "one", **told}, "answer": "yes"})
    async with over("direct", agent, environment, ListeningModel(heard, peers)) as at:
        rollout = await at["agent"].call(RUN, row, Call())
    assert rollout.reward == 1.0
    assert heard == [{"input": "one", **({"chat_template_kwargs": asked} if asked else {})}]
    assert rollout.row.responses_create_params == {"input": "one", **told}
