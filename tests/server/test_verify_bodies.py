"""Claims about what `/verify` takes: a response of another shape is its caller's error, never a verdict, and the
OpenAPI page says so; whatever a policy can say is judged."""

from collections.abc import Mapping
from typing import Any, ClassVar

import httpx
import jsonschema  # type: ignore[import-untyped]
import pytest

from paddock.agents.single_step import SingleStepAgent
from paddock.agents.single_step.server import SingleStepConfig
from paddock.errors import RequestError
from paddock.http import RUN, Call, ModelReply, Peer
from paddock.resources_servers.genrm import GenrmServer
from paddock.resources_servers.genrm.config import GenrmConfig
from paddock.resources_servers.pivot import PivotServer
from paddock.resources_servers.pivot.server import PivotConfig
from paddock.server import ModelServer, Reference, ServerConfig
from paddock.server.app import build_app
from paddock.server.handles import as_response
from paddock.testing.transports import over
from paddock.types import JsonObject, Row, TurnRecord

PIVOT = PivotServer(PivotConfig(), name="pivot", peers={})
ROW: JsonObject = {
    "responses_create_params": {"input": "Run the tests.", "tools": [{"type": "function", "name": "bash"}]},
    "expected_action": {"type": "function_call", "name": "bash", "arguments": "{}"},
}
MISSHAPEN: list[tuple[JsonObject, str]] = [
    ({}, "response.output:"),
    ({"output": None}, "response.output:"),
    ({"output": "text"}, "response.output:"),
    ({"output": [None]}, "response.output.0:"),
    ({"output": [{}]}, "response.output.0:"),
    ({"output": [{"type": 5, "role": "assistant", "content": "a"}]}, "response.output.0.type:"),
    ({"output": [{"type": "reasoning"}, {"type": "message", "content": 5}]}, "response.output.1.content:"),
    ({"output": [{"type": "message", "role": "assistant"}]}, "response.output.0.content:"),
    ({"output": [{"role": "assistant", "content": [5]}]}, "response.output.0.content:"),
    ({"output": [{"type": "message", "content": [{"text": 5}]}]}, "response.output.0.content:"),
    ({"output": [{"type": "function_call", "arguments": "{}"}]}, "response.output.0.name:"),
    ({"output": [{"type": "function_call", "name": "bash", "arguments": {}}]}, "response.output.0.arguments:"),
    ({"output": [{"type": "custom_tool_call", "name": "bash", "input": []}]}, "response.output.0.input:"),
    ({"output": [{"type": "reasoning", "summary": 5}]}, "response.output.0.summary:"),
    ({"output": [], "error": {"message": "died"}}, "response.error:"),
    ({"output": [], "status": "failed"}, "response.error:"),
]
JUDGED: list[JsonObject] = [
    {"output": []},
    {"output": [], "status": "incomplete", "error": None},
    {"output": [{"role": "assistant", "content": ""}]},
    {"output": [{"type": "no_such_item"}]},
    {"output": [{"type": "function_call", "name": "", "arguments": "{no"}]},
    {"output": [{"type": "function_call", "name": "x"}]},
    {"output": [{"type": "reasoning", "summary": [], "content": None}]},
    {"output": [{"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}]},
    {"model_patch": ""},
]


@pytest.mark.parametrize(("response", "place"), MISSHAPEN)
async def test_a_response_of_another_shape_is_refused_by_its_field(response: JsonObject, place: str) -> None:
    reply = await post(PIVOT, "/verify", {**ROW, "response": response})
    error = reply.json()["error"]
    assert (reply.status_code, error["owner"], error["kind"]) == (400, "user", "verify_request_invalid")
    assert error["message"].startswith(place)
    assert "reward" not in reply.json()


@pytest.mark.parametrize("response", JUDGED)
async def test_what_a_policy_can_say_is_judged(response: JsonObject) -> None:
    reply = await post(PIVOT, "/verify", {**ROW, "response": response})
    assert (reply.status_code, reply.json()["reward"]) == (200, 0.0)


@pytest.mark.parametrize(
    ("response", "good"), [*((bad, False) for bad, _ in MISSHAPEN), *((one, True) for one in JUDGED)]
)
def test_the_openapi_page_says_the_same(response: JsonObject, good: bool) -> None:
    page = build_app(PIVOT).openapi()
    schema = page["paths"]["/verify"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    body = {**ROW, "response": response}
    assert jsonschema.Draft202012Validator(schema).is_valid(body) is good


async def test_a_comparison_refuses_them_too() -> None:
    server = GenrmServer(
        GenrmConfig.model_validate({"genrm_model_server": {"type": "models_servers", "name": "j"}}), name="g", peers={}
    )
    body = {"conversation_history": [], "response_objs": [{"output": []}, {"output": [{"type": "message"}]}]}
    reply = await post(server, "/compare", body)
    assert (reply.status_code, reply.json()["error"]["owner"]) == (400, "user")
    assert reply.json()["error"]["message"].startswith("response_objs.1.output.0.content:")


@pytest.mark.parametrize("wrap", [lambda item: {"output": [item]}, lambda item: [item], lambda item: item])
def test_an_answer_given_by_hand_is_refused_too(wrap: Any) -> None:
    answer = wrap({"type": "function_call", "name": "bash", "arguments": {}})
    with pytest.raises(RequestError, match=r"answer\.output\.0\.arguments: needs"):
        as_response(answer, Row.from_wire(ROW))


class OtherModel(ModelServer[ServerConfig]):
    """A peer whose answer is none."""

    config_type: ClassVar[type[ServerConfig]] = ServerConfig

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        return {"output": [{"type": "function_call", "name": "bash", "arguments": {}}]}

    async def turns(self, secret: str) -> TurnRecord:
        return TurnRecord(engine="text", turns=[])

    async def forget(self, secret: str) -> None:
        return


async def test_a_model_server_that_answers_with_none_is_the_machines_failure() -> None:
    peers: dict[str, Peer] = {}
    config = SingleStepConfig(
        resources_server=Reference(type="resources_servers", name="pivot"),
        model_server=Reference(type="models_servers", name="model"),
    )
    agent = SingleStepAgent(config, name="agent", peers=peers)
    async with over("direct", PIVOT, OtherModel(ServerConfig(), name="model", peers={}), agent) as running:
        rollout = await running["agent"].call(RUN, Row.from_wire(ROW), Call())
    assert rollout.failure is not None
    assert (rollout.outcome, rollout.failure.kind, rollout.reward) == ("infra", "model_unreadable", None)
    assert "response.output.0.arguments" in rollout.failure.message


async def post(server: Any, path: str, body: Mapping[str, Any]) -> httpx.Response:
    transport = httpx.ASGITransport(build_app(server))
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
        return await client.post(path, json=body)
