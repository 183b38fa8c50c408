"""Claims about calls that an endpoint answers, over real connections: each is asked for once and recorded once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from tests.support.streams import read_chat_stream

from paddock.http import SETTINGS, Call, HttpPeer
from paddock.models_servers.openai import OpenAIServer
from paddock.models_servers.openai.config import OpenAIConfig
from paddock.testing import ScriptedAnswer, ScriptedUpstream, first
from paddock.testing.transports import over
from paddock.types import JsonObject, RolloutSettings

GO: JsonObject = {"messages": [{"role": "user", "content": "go"}]}
STREAMED = {**GO, "stream": True}
WORDS = "a long enough text to be cut into several parts"


class StreamListener(NamedTuple):
    server: OpenAIServer
    url: str
    client: httpx.AsyncClient

    async def post(self, body: JsonObject) -> httpx.Response:
        return await self.client.post(self.url, json=body)

    async def answer_text(self, body: JsonObject) -> str:
        got = await self.post(body)
        assert got.status_code == 200, got.text
        message = read_chat_stream(got.content) if body.get("stream") else got.json()["choices"][0]["message"]
        text: str = message["content"]
        return text


@asynccontextmanager
async def listening(folder: Path, upstream: ScriptedUpstream, **config: Any) -> AsyncIterator[StreamListener]:
    settings: JsonObject = {"base_url": upstream.url, "model": "policy", "first_retry_s": 0.001, "max_retry_s": 0.01}
    settings |= {"turn_store": {"folder": str(folder)}, "attempts": 1, **config}
    server = OpenAIServer(OpenAIConfig.model_validate(settings), name="policy", peers={})
    async with over("http", server) as peers, httpx.AsyncClient(timeout=60) as client:
        peer = peers["policy"]
        assert isinstance(peer, HttpPeer)
        yield StreamListener(server, f"{peer.base_url}/r/ro_1/v1/chat/completions", client)


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.002)


def numbered(_body: JsonObject, nth: int) -> ScriptedAnswer:
    return ScriptedAnswer(f"{nth}: {WORDS}")


@pytest.mark.parametrize("streams", [(False, False), (True, True), (True, False)])
async def test_two_that_ask_the_same_at_once_share_one_answer(tmp_path: Path, streams: tuple[bool, bool]) -> None:
    async with ScriptedUpstream(numbered, delay_s=0.1) as upstream, listening(tmp_path, upstream) as at:
        texts = await asyncio.gather(*(at.answer_text({**GO, "stream": stream}) for stream in streams))
        assert [*texts, await at.answer_text(GO)] == [f"0: {WORDS}"] * 3
        record = await at.server.turns("ro_1")
    assert (upstream.calls, len(record.turns)) == (1, 1)


@pytest.mark.parametrize("fault", ["drop", "half_body"])
@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_that_breaks_off_is_not_recorded_and_asked_for_again(
    tmp_path: Path, fault: Any, stream: bool
) -> None:
    body = {**GO, "stream": stream}
    async with (
        ScriptedUpstream(numbered, faults=first(1, fault)) as upstream,
        listening(tmp_path, upstream) as at,
    ):
        broken = await at.post(body)
        assert broken.status_code == 503 or b'"error"' in broken.content
        assert list(at.server.store.turns("ro_1")) == []
        assert await at.answer_text(body) == f"1: {WORDS}"
        record = await at.server.turns("ro_1")
    assert (upstream.calls, len(record.turns)) == (2, 1)


async def test_an_endpoint_that_restarts_in_mid_answer_costs_one_error(tmp_path: Path) -> None:
    async with ScriptedUpstream(numbered, event_delay_s=0.05) as upstream:
        port = upstream.port
        async with listening(tmp_path, upstream) as at:
            asked = asyncio.ensure_future(at.post(STREAMED))
            await until(lambda: upstream.in_flight)
            await asyncio.sleep(0.1)
            await upstream.__aexit__(None, None, None)
            broken = await asked
            assert broken.status_code >= 500 or b'"error"' in broken.content
            async with ScriptedUpstream(numbered, port=port):
                assert await at.answer_text(STREAMED) == f"0: {WORDS}"
            record = await at.server.turns("ro_1")
    assert len(record.turns) == 1


async def test_a_client_that_goes_in_mid_answer_and_comes_back_gets_the_same_answer(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(numbered, event_delay_s=0.03) as upstream,
        listening(tmp_path, upstream) as at,
    ):
        async with at.client.stream("POST", at.url, json=STREAMED) as reply:
            await anext(reply.aiter_bytes())
        assert await at.answer_text(STREAMED) == f"0: {WORDS}"
        record = await at.server.turns("ro_1")
    assert (upstream.calls, upstream.n_cancelled, len(record.turns)) == (1, 0, 1)


async def test_where_nobody_comes_back_in_time_the_endpoint_is_left_and_nothing_recorded(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(numbered, event_delay_s=0.2) as upstream,
        listening(tmp_path, upstream, orphan_grace_s=0.1) as at,
    ):
        async with at.client.stream("POST", at.url, json=STREAMED) as reply:
            await anext(reply.aiter_bytes())
        await until(lambda: upstream.n_cancelled)
        assert at.server.given_up == 1
        assert (await at.server.turns("ro_1")).turns == []


async def test_what_is_set_for_a_rollout_reaches_the_endpoint_and_the_record(tmp_path: Path) -> None:
    async with ScriptedUpstream(numbered, keep_bodies=True) as upstream, listening(tmp_path, upstream) as at:
        settings = RolloutSettings(sampling={"temperature": 0.7}, max_turns=1)
        await at.server.handlers()[SETTINGS](settings, Call(path={"secret": "ro_1"}))
        await at.answer_text({**GO, "temperature": 0.1})
        refused = await at.post(STREAMED)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "context_length_exceeded")
        (turn,) = (await at.server.turns("ro_1")).turns
    assert upstream.bodies[0]["temperature"] == 0.7
    assert (turn.sampling["temperature"], turn.overridden) == (0.7, ["temperature"])


async def test_a_rollout_that_has_sampled_its_tokens_makes_no_further_call(tmp_path: Path) -> None:
    async with ScriptedUpstream(numbered) as upstream, listening(tmp_path, upstream) as at:
        await at.server.handlers()[SETTINGS](RolloutSettings(max_tokens=1), Call(path={"secret": "ro_1"}))
        await at.answer_text({**GO, "temperature": 0.1})
        refused = await at.post(STREAMED)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "context_length_exceeded")
        (turn,) = (await at.server.turns("ro_1")).turns
    assert turn.usage is not None
    assert turn.usage.output_tokens >= 1


async def test_after_the_deadline_of_its_call_an_endpoint_is_not_waited_for(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(numbered, faults=first(1, "hang")) as upstream,
        listening(tmp_path, upstream, orphan_grace_s=0.0) as at,
    ):
        late = await at.client.post(at.url, json=GO, headers={"x-paddock-timeout-s": "0.5"})
        assert late.status_code >= 400
        await until(lambda: upstream.n_cancelled)
        assert await at.answer_text(GO) == f"1: {WORDS}"
        assert len((await at.server.turns("ro_1")).turns) == 1
