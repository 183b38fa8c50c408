"""Claims about a rollout's model behind a tunnel: the same for a client inside, whichever way the peer is reached."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from paddock.http import TURNS, Call, new_secret
from paddock.http.transport import make_client
from paddock.models_servers.openai import OpenAIServer
from paddock.models_servers.openai.config import OpenAIConfig
from paddock.sandbox.socket_listener import SocketListener
from paddock.sandbox.tunnel import Tunnel
from paddock.server.upstream import PeerUpstream
from paddock.testing import Transport, over
from paddock.testing.upstream import ErrorStatus, ScriptedAnswer, ScriptedUpstream, first
from paddock.types import TurnRecord

WORDS = "One small step, and then another one."
QUICK = {"attempts": 1, "first_retry_s": 0.0, "max_retry_s": 0.0, "timeout_s": 5.0}


class Inside:
    """A client inside, and what is recorded outside."""

    def __init__(self, client: httpx.AsyncClient, tunnel: Tunnel, peer: Any, secret: str, engine_url: str) -> None:
        self.client = client
        self.engine_port = str(httpx.URL(engine_url).port)
        self.tunnel = tunnel
        self.secret = secret
        self._peer = peer

    async def post(self, path: str, **body: Any) -> httpx.Response:
        return await self.client.post(self.tunnel.base_url + path, content=orjson.dumps(body))

    async def turns(self) -> TurnRecord:
        record: TurnRecord = await self._peer.call(TURNS, {}, Call(), secret=self.secret)
        return record


@asynccontextmanager
async def inside(
    transport: Transport, folder: Path, *, faults: Any = None, event_delay_s: float = 0.0
) -> AsyncIterator[Inside]:
    async with (
        ScriptedUpstream(ScriptedAnswer(WORDS), faults=faults, event_delay_s=event_delay_s) as engine,
        make_client() as client,
    ):
        config = {"base_url": engine.url, "model": "policy", "turn_store": {"folder": str(folder)}, **QUICK}
        server = OpenAIServer(OpenAIConfig.model_validate(config), name="m", peers={})
        async with over(transport, server, token="t" if transport == "http" else None) as peers:
            secret = new_secret()
            listening = socket.create_server(("127.0.0.1", 0))
            listening.setblocking(False)
            upstream = PeerUpstream(peers["m"], Call().within(30), secret=secret, model="policy")
            async with Tunnel(SocketListener(listening), upstream, hidden=[secret]) as tunnel:
                yield Inside(client, tunnel, peers["m"], secret, engine.url)


@pytest.fixture(params=["direct", "http"])
def transport(request: pytest.FixtureRequest) -> Any:
    return request.param


async def test_a_whole_answer_is_a_turn_of_the_rollout(transport: Transport, tmp_path: Path) -> None:
    async with inside(transport, tmp_path) as here:
        reply = await here.post("/responses", model="any", input="What next?")
        assert reply.status_code == 200
        assert WORDS in reply.text
        chat = await here.post("/chat/completions", model="any", messages=[{"role": "user", "content": "q"}])
        assert chat.json()["choices"][0]["message"]["content"] == WORDS
        assert len((await here.turns()).turns) == 2


async def test_a_stream_comes_event_by_event(transport: Transport, tmp_path: Path) -> None:
    async with inside(transport, tmp_path, event_delay_s=0.02) as here:
        body = orjson.dumps({"model": "any", "input": "What next?", "stream": True})
        async with here.client.stream("POST", here.tunnel.base_url + "/responses", content=body) as reply:
            assert reply.headers["content-type"].startswith("text/event-stream")
            parts = [part async for part in reply.aiter_raw()]
        assert len(parts) > 3
        assert b"response.completed" in b"".join(parts)
        assert len((await here.turns()).turns) == 1


async def test_the_one_model_is_listed(transport: Transport, tmp_path: Path) -> None:
    async with inside(transport, tmp_path) as here:
        reply = await here.client.get(here.tunnel.base_url + "/models")
        assert [one["id"] for one in reply.json()["data"]] == ["policy"]


@pytest.mark.parametrize(("fault", "status", "ours"), [(ErrorStatus(500), 503, True), (ErrorStatus(400), 400, False)])
async def test_a_failing_engine_is_told_and_noted(
    transport: Transport, tmp_path: Path, fault: ErrorStatus, status: int, ours: bool
) -> None:
    async with inside(transport, tmp_path, faults=first(1, fault)) as here:
        reply = await here.post("/responses", model="any", input="What next?")
        assert reply.status_code == status
        assert reply.json()["error"]["message"]
        for hidden in (here.secret, here.engine_port, "127.0.0.1"):
            assert hidden not in reply.text
        assert (here.tunnel.failure is not None) == ours


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/responses", {"input": "q"}),
        ("/chat/completions", {"messages": [{"role": "user", "content": "q"}]}),
        ("/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": "q"}]}),
    ],
)
async def test_an_engine_that_fails_within_a_stream_is_named_by_its_failure_alone(
    transport: Transport, tmp_path: Path, path: str, asked: Any
) -> None:
    async with inside(transport, tmp_path, faults=first(1, "half_body"), event_delay_s=0.01) as here:
        reply = await here.post(path, model="any", stream=True, **asked)
        assert "the model gave no answer: " in reply.text
        for hidden in (here.secret, here.engine_port, "127.0.0.1"):
            assert hidden not in reply.text


async def test_what_is_no_request_is_the_clients_fault(transport: Transport, tmp_path: Path) -> None:
    async with inside(transport, tmp_path) as here:
        for content in (b"not json", b"[1]"):
            reply = await here.client.post(here.tunnel.base_url + "/responses", content=content)
            assert reply.status_code == 400
        assert (await here.post("/messages", model="any")).status_code in (400, 404)
        assert here.tunnel.failure is None


async def test_a_client_of_the_messages_dialect_is_understood_and_refused_in_its_own_form(
    transport: Transport, tmp_path: Path
) -> None:
    asked: Any = {"model": "any", "max_tokens": 9, "messages": [{"role": "user", "content": "q"}]}
    too_long = ErrorStatus(
        400, "maximum context length is 8 tokens. However, you requested 9 tokens", "context_length_exceeded"
    )
    async with inside(transport, tmp_path, faults=lambda number: too_long if number == 1 else None) as here:
        reply = await here.post("/messages?beta=true", **asked)
        assert reply.json()["content"] == [{"type": "text", "text": WORDS}]
        refused = await here.post("/messages", **{**asked, "max_tokens": 10})
        assert refused.status_code == 400
        assert refused.json()["error"]["message"] == "prompt is too long: 9 tokens > 8 maximum"
        assert len((await here.turns()).turns) == 1
