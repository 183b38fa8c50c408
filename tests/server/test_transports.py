"""Claims that hold however a server is reached: the same records, the same errors, the same owner."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from paddock.agents.single_step import SingleStepAgent
from paddock.agents.single_step.server import SingleStepConfig
from paddock.errors import InfraError, PaddockError, RequestError, RowError, VerifierError
from paddock.http import RUN, SEED, VERIFY, Call, Peer, VerifyRequest
from paddock.server import Reference
from paddock.server.app import build_app
from paddock.testing import TRANSPORTS, Transport, over
from paddock.testing.servers import CueConfig, CueServer, EchoConfig, EchoModel
from paddock.types import JsonObject, Row, Session

RESPONSE: JsonObject = {"output": []}


def row(**task: str) -> Row:
    return Row(responses_create_params={"input": "hi"}, task=dict(task))


@pytest.fixture(params=TRANSPORTS)
async def peers(request: pytest.FixtureRequest) -> AsyncIterator[dict[str, Peer]]:
    transport: Transport = request.param
    known: dict[str, Peer] = {}
    agent = SingleStepConfig(
        resources_server=Reference(type="resources_servers", name="cue"),
        model_server=Reference(type="models_servers", name="model"),
    )
    servers = (
        CueServer(CueConfig(), name="cue", peers=known),
        EchoModel(EchoConfig(), name="model", peers=known),
        SingleStepAgent(agent, name="agent", peers=known),
    )
    async with over(transport, *servers, token="t") as opened:
        yield opened


async def test_a_session_and_a_verdict_are_the_same_record(peers: dict[str, Peer]) -> None:
    assert await peers["cue"].call(SEED, row(), Call()) == Session()
    verdict = await peers["cue"].call(VERIFY, VerifyRequest(row=row(cue="answer"), response=RESPONSE), Call())
    assert (verdict.reward, verdict.reason, verdict.extras) == (1.0, "match", {"heard": True})


@pytest.mark.parametrize(
    ("task", "error"),
    [({"cue": "fail"}, VerifierError), ({"cue": "sing"}, RowError), ({"queue": "answer"}, RowError)],
)
async def test_an_error_keeps_its_owner_kind_and_stage(
    peers: dict[str, Peer], task: dict[str, str], error: type[PaddockError]
) -> None:
    with pytest.raises(error) as caught:
        await peers["cue"].call(VERIFY, VerifyRequest(row=row(**task), response=RESPONSE), Call().within(5))
    assert type(caught.value) is error
    assert caught.value.kind == ("ValueError" if error is VerifierError else "task_invalid")
    assert caught.value.stage == ("verify" if error is VerifierError else None)


async def test_a_call_that_hangs_ends_at_its_deadline(peers: dict[str, Peer]) -> None:
    started = asyncio.get_running_loop().time()
    with pytest.raises(InfraError) as caught:
        await peers["cue"].call(VERIFY, VerifyRequest(row=row(cue="hang"), response=RESPONSE), Call().within(0.2))
    assert caught.value.kind == "timeout"
    assert asyncio.get_running_loop().time() - started < 20


async def test_servers_reach_each_other_for_a_whole_rollout(peers: dict[str, Peer]) -> None:
    rollout = await peers["agent"].call(RUN, row(cue="answer"), Call())
    assert (rollout.outcome, rollout.reward) == ("completed", 1.0)
    failed = await peers["agent"].call(RUN, row(cue="fail"), Call())
    assert (failed.outcome, failed.reward) == ("verifier", None)


async def test_the_wire_echoes_the_request_and_a_direct_call_gives_the_verdict_alone() -> None:
    server = CueServer(CueConfig(), name="cue", peers={})
    client = httpx.AsyncClient(transport=httpx.ASGITransport(build_app(server)), base_url="http://cue")
    body = {**row(cue="answer").to_wire(), "response": RESPONSE}
    async with client:
        reply = (await client.post("/verify", json=body)).json()
    assert body.items() <= reply.items()
    assert reply["reward"] == 1.0


@pytest.mark.parametrize("transport", ["asgi", "http"])
async def test_without_the_token_a_call_is_the_callers_mistake(transport: Transport) -> None:
    server = CueServer(CueConfig(), name="cue", peers={})
    async with over(transport, server, token="t") as peers:
        # The peer's headers hold the token: one with none is made by hand.
        peer = peers["cue"]
        del peer._headers["authorization"]  # type: ignore[attr-defined]
        with pytest.raises(RequestError) as caught:
            await peer.call(SEED, row(), Call())
    assert caught.value.kind == "unauthorized"
