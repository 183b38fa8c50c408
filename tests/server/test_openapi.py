"""Claims about what a server tells of its routes: the page names what may be sent, a wrong address what there is."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from paddock.agents.single_step import SingleStepAgent
from paddock.agents.single_step.server import SingleStepConfig
from paddock.models_servers.replay import ReplayServer
from paddock.models_servers.replay.config import ReplayConfig
from paddock.resources_servers.pivot import PivotServer
from paddock.resources_servers.pivot.server import PivotConfig
from paddock.server import Reference, Server
from paddock.server.app import build_app
from paddock.server.openapi import schema_of
from paddock.testing.servers import CueConfig, CueServer, EchoConfig, EchoModel
from paddock.types import JsonObject, Rollout

AGENT = SingleStepConfig(
    resources_server=Reference(type="resources_servers", name="pivot"),
    model_server=Reference(type="models_servers", name="model"),
)
SERVERS: dict[str, Server[Any]] = {
    "pivot": PivotServer(PivotConfig(), name="pivot", peers={}),
    "cue": CueServer(CueConfig(), name="cue", peers={}),
    "agent": SingleStepAgent(AGENT, name="agent", peers={}),
    "model": EchoModel(EchoConfig(), name="model", peers={}),
    "replay": ReplayServer(ReplayConfig(), name="replay", peers={}),
}


@pytest.fixture(params=SERVERS)
async def client(request: pytest.FixtureRequest) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(build_app(SERVERS[request.param]))
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{request.param}") as opened:
        yield opened


def operations(page: JsonObject) -> list[tuple[str, JsonObject]]:
    return [(path, operation) for path, methods in page["paths"].items() for operation in methods.values()]


async def test_every_body_is_shown_with_its_keys(client: httpx.AsyncClient) -> None:
    page = (await client.get("/openapi.json")).json()
    bodies = [operation["requestBody"] for _, operation in operations(page) if "requestBody" in operation]
    assert bodies
    for body in bodies:
        schema = body["content"]["application/json"]["schema"]
        assert schema["properties"]
        assert set(schema.get("required", ())) <= set(schema["properties"])
    assert "$ref" not in str(page)


async def test_a_route_that_is_not_there_is_an_error_of_ours_and_tells_no_path(client: httpx.AsyncClient) -> None:
    for reply in (await client.post("/r/ro_secret/nonsense", json={}), await client.put("/v1/nonsense", json={})):
        error = reply.json()["error"]
        assert (reply.status_code, error["owner"], error["kind"]) == (404, "user", "no_route")
        assert "there are: POST /" in error["message"]
        assert "ro_secret" not in error["message"]


@pytest.mark.parametrize("client", ["pivot"], indirect=True)
async def test_a_wrong_method_is_told_and_names_the_right_one(client: httpx.AsyncClient) -> None:
    reply = await client.get("/verify")
    assert (reply.status_code, reply.headers["allow"]) == (405, "POST")
    assert "POST /verify" in reply.json()["error"]["message"]


@pytest.mark.parametrize("client", ["pivot"], indirect=True)
async def test_the_example_shown_can_be_sent_as_it_is(client: httpx.AsyncClient) -> None:
    page = (await client.get("/openapi.json")).json()
    for path, expected in (("/seed_session", 200), ("/verify", 200)):
        media = page["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        assert set(media["example"]) <= set(media["schema"]["properties"])
        reply = await client.post(path, json=media["example"])
        assert reply.status_code == expected
    assert reply.json()["reward"] == 1.0


@pytest.mark.parametrize("client", ["pivot", "cue"], indirect=True)
async def test_a_row_is_shown_with_the_keys_of_its_task(client: httpx.AsyncClient) -> None:
    page = (await client.get("/openapi.json")).json()
    schema = page["paths"]["/verify"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert {"responses_create_params", "response"} <= set(schema["required"])
    assert ("expected_action" in schema["properties"]) != ("cue" in schema["properties"])


def test_a_schema_is_in_one_piece() -> None:
    schema = schema_of(Rollout)
    assert "$ref" not in str(schema)
    assert schema["properties"]["turns"]["items"]["properties"]["sampled_ids"]
