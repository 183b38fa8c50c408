"""A server elsewhere: its verdicts and errors come through as they are; one that can't be reached gives no reward."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from paddock.config import validate
from paddock.config.files import PACKAGE
from paddock.conformance import ServerTarget, run_behaviour, suite_for
from paddock.conformance.scripted import EnvironmentConfig, ScriptedEnvironment
from paddock.conformance.target import read_rows
from paddock.errors import BugError, ConfigError, InfraError, PaddockError, RowError, VerifierError
from paddock.http import AGGREGATE, SEED, VERIFY, AggregateRequest, Call, DirectPeer, Peer, VerifyRequest
from paddock.http.client import HttpPeer
from paddock.resources_servers.external import ExternalServer
from paddock.resources_servers.external.server import ExternalConfig
from paddock.resources_servers.pivot import PivotServer
from paddock.server.relay_server import ForwardedTask
from paddock.testing.transports import over
from paddock.types import JsonObject, Row
from paddock.types.responses import make_response, message_item

RIGHT = {"responses_create_params": {"input": "one"}, "answer": "yes"}


def row(**keys: Any) -> Row:
    return Row.from_wire({**RIGHT, **keys})


def answer(text: str = "yes") -> JsonObject:
    return make_response([message_item(text)], {}, model="m")


@asynccontextmanager
async def external(url: str, **config: Any) -> AsyncIterator[Peer]:
    server = ExternalServer(ExternalConfig(base_url=url, **config), name="elsewhere", peers={})
    async with over("direct", server) as peers:
        yield peers["elsewhere"]


@asynccontextmanager
async def ours(**config: Any) -> AsyncIterator[Peer]:
    environment = ScriptedEnvironment(EnvironmentConfig(**config), name="scripted", peers={})
    async with over("http", environment, token="geheim") as peers:
        at = peers["scripted"]
        assert isinstance(at, HttpPeer)
        async with external(at.base_url, token="geheim") as peer:
            yield peer


@asynccontextmanager
async def theirs(reply: JsonObject) -> AsyncIterator[Peer]:
    """A server of another make, which says a reward and no more."""

    async def answered(request: web.Request) -> web.Response:
        body = await request.json()
        return web.json_response({} if request.path == "/seed_session" else {**body, **reply})

    app = web.Application()
    app.add_routes([web.post("/seed_session", answered), web.post("/verify", answered)])
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        async with external(f"http://{host}:{port}/") as peer:
            yield peer
    finally:
        await runner.cleanup()


async def test_a_server_of_ours_is_asked_and_its_verdict_is_the_verdict() -> None:
    async with ours() as peer:
        session = await peer.call(SEED, row(), Call())
        assert session.visible == {"topic": "scripted"}
        right = await peer.call(VERIFY, VerifyRequest(row=row(), response=answer()), Call())
        wrong = await peer.call(VERIFY, VerifyRequest(row=row(), response=answer("no")), Call())
        assert (right.reward, right.reason, wrong.reward, wrong.reason) == (1.0, "right", 0.0, "wrong")
        replies = [{"reward": 1.0}, {"reward": 0.0}]
        metrics = await peer.call(AGGREGATE, AggregateRequest(verify_responses=replies), Call())
        assert metrics.agent_metrics["mean/reward"] == 0.5


async def test_a_server_of_another_make_says_a_reward() -> None:
    async with theirs({"reward": 0.25, "accuracy": 1}) as peer:
        await peer.call(SEED, row(), Call())
        verdict = await peer.call(VERIFY, VerifyRequest(row=row(), response=answer()), Call())
        assert (verdict.reward, verdict.reason, verdict.extras["accuracy"]) == (0.25, "unstated", 1)


@pytest.mark.parametrize(
    ("grade", "keys", "kind"),
    [("verifier", {}, VerifierError), ("ok", {"answer": 3}, RowError)],
)
async def test_errors_keep_their_owner(grade: str, keys: JsonObject, kind: type[PaddockError]) -> None:
    async with ours(grade=grade) as peer:
        with pytest.raises(kind):
            await peer.call(VERIFY, VerifyRequest(row=row(**keys), response=answer()), Call())


async def test_a_server_that_is_not_there_is_the_machines_failure() -> None:
    async with external("http://127.0.0.1:9") as peer:
        with pytest.raises(InfraError):
            await peer.call(VERIFY, VerifyRequest(row=row(), response=answer()), Call())


async def test_a_reply_without_a_reward_is_no_verdict() -> None:
    async with theirs({"score": 1}) as peer:
        with pytest.raises(VerifierError):
            await peer.call(VERIFY, VerifyRequest(row=row(), response=answer()), Call())


async def test_nothing_is_judged_here() -> None:
    server = ExternalServer(ExternalConfig(base_url="http://127.0.0.1:9"), name="elsewhere", peers={})
    with pytest.raises(BugError, match="not here"):
        await server.verify(ForwardedTask(), row(), answer())
    with pytest.raises(BugError, match="not started"):
        await DirectPeer("elsewhere", server.handlers).call(SEED, row(), Call())


def test_a_url_is_one() -> None:
    with pytest.raises(ConfigError, match="needs the URL of a running server"):
        validate(ExternalConfig, {"base_url": "127.0.0.1:5003"}, "elsewhere")


@pytest.mark.slow
async def test_it_behaves_as_the_server_elsewhere_does() -> None:
    """The suite of resources servers, held against pivot at its URL."""
    pivot = PivotServer(PivotServer.config_type(), name="pivot", peers={})
    rows = read_rows(PACKAGE / "resources_servers/pivot/data/example.jsonl")[:3]
    async with over("http", pivot) as peers:
        at = peers["pivot"]
        assert isinstance(at, HttpPeer)
        target = ServerTarget("resources_servers", "external", ExternalServer, {"base_url": at.base_url}, rows)
        results = [await run_behaviour(one, target) for one in suite_for("resources_servers")]
    assert [one for one in results if one.outcome == "failed"] == []
    assert sum(one.outcome == "passed" for one in results) > 12
