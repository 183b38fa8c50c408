"""Claims about clients that leave, streams that break, rollouts that end early and disks that are full."""

import asyncio
import json
import resource
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from tests.support.models import asking
from tests.support.streams import read_responses_stream

from paddock.http import Call, HttpPeer
from paddock.server.exact.parsers import PlainParser
from paddock.testing.engines import (
    CutAnswer,
    EngineAnswer,
    ScriptedEngine,
    ScriptedExactServer,
    scripted_server,
)
from paddock.testing.transports import over
from paddock.testing.vocabularies import small_vocabulary
from paddock.types import JsonObject

GO: JsonObject = {"input": [{"role": "user", "content": "go"}]}
STREAMED = {**GO, "stream": True}
WORDS = "some words that take several chunks of ids, and ünïcode"


class FaultListener(NamedTuple):
    server: ScriptedExactServer
    url: str
    client: httpx.AsyncClient

    async def post(self, body: JsonObject) -> httpx.Response:
        return await self.client.post(self.url, json=body)


@asynccontextmanager
async def listening(server: ScriptedExactServer) -> AsyncIterator[FaultListener]:
    """Over real connections."""
    async with over("http", server) as peers, httpx.AsyncClient(timeout=60) as client:
        peer = peers["policy"]
        assert isinstance(peer, HttpPeer)
        yield FaultListener(server, f"{peer.base_url}/r/ro_1/v1/responses", client)


def talking(folder: Path, said: EngineAnswer = WORDS, **config: Any) -> ScriptedExactServer:
    """Its engine gives the first ids, and the rest when the gate is opened."""
    server = scripted_server(folder, lambda prompt: said, parser=PlainParser, **config)
    server.engine.gate = asyncio.Event()
    return server


def opened(server: ScriptedExactServer) -> None:
    assert server.engine.gate is not None
    server.engine.gate.set()


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.002)


def text(response: JsonObject) -> str:
    found: str = response["output"][0]["content"][0]["text"]
    return found


@pytest.mark.parametrize("after", [0, 6])
async def test_a_stream_that_breaks_ends_with_the_dialects_error_and_the_retry_is_sampled_anew(
    tmp_path: Path, after: int
) -> None:
    answers: list[EngineAnswer] = [CutAnswer(WORDS, after), WORDS]
    server = scripted_server(tmp_path, lambda prompt: answers.pop(0), parser=PlainParser)
    async with listening(server) as at:
        broken = await at.post(STREAMED)
        if after:
            failed = read_responses_stream(broken.content)
            assert (failed["status"], failed["error"]["code"]) == ("failed", "upstream_connection")
        else:
            assert (broken.status_code, broken.json()["error"]["kind"]) == (503, "upstream_connection")
        assert list(server.store.turns("ro_1")) == []
        assert text(read_responses_stream((await at.post(STREAMED)).content)) == WORDS
        record = await server.turns("ro_1")
    assert (server.engine.n_started, len(record.turns), len(server.engine.calls)) == (2, 1, 1)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_goes_in_mid_answer_and_comes_back_gets_the_same_answer(
    tmp_path: Path, stream: bool
) -> None:
    server = talking(tmp_path)
    async with listening(server) as at:
        async with at.client.stream("POST", at.url, json=STREAMED) as reply:
            assert reply.status_code == 200
            await anext(reply.aiter_bytes())
        await asyncio.sleep(0.05)
        again = asyncio.ensure_future(at.post(STREAMED if stream else GO))
        await asyncio.sleep(0.02)
        opened(server)
        got = await again
        assert text(read_responses_stream(got.content) if stream else got.json()) == WORDS
        record = await server.turns("ro_1")
    assert (server.engine.n_started, server.engine.n_cancelled, len(record.turns)) == (1, 0, 1)


async def test_a_client_that_closes_its_socket_before_the_first_byte_does_not_end_the_sampling(tmp_path: Path) -> None:
    server = talking(tmp_path)
    async with listening(server) as at:
        url = httpx.URL(at.url)
        body = json.dumps(GO).encode()
        raw = socket.create_connection((url.host, url.port))
        raw.sendall(
            f"POST {url.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        await until(lambda: server.engine.n_started == 1)
        raw.close()
        await asyncio.sleep(0.05)
        opened(server)
        await until(lambda: server.engine.calls)
        assert text((await at.post(GO)).json()) == WORDS
        record = await server.turns("ro_1")
    assert (server.engine.n_started, len(record.turns)) == (1, 1)


@pytest.mark.parametrize("whole", [False, True])
async def test_where_nobody_comes_back_in_time_nothing_is_recorded(tmp_path: Path, whole: bool) -> None:
    server = talking(tmp_path, orphan_grace_s=0.5)
    async with listening(server) as at:
        async with at.client.stream("POST", at.url, json=STREAMED) as reply:
            await anext(reply.aiter_bytes())
        if whole:
            await asyncio.sleep(0.03)
            opened(server)
        await until(lambda: server.given_up and (whole or server.engine.n_cancelled))
        assert list(server.store.turns("ro_1")) == []
        assert (server.engine.n_cancelled, len(server.engine.calls)) == (int(not whole), int(whole))
        opened(server)
        await at.post(GO)
        assert (server.engine.n_started, len(server.store.turns("ro_1")), server.given_up) == (2, 1, 1)


async def test_a_call_of_no_rollout_ends_with_its_client(tmp_path: Path) -> None:
    server = talking(tmp_path)
    async with listening(server) as at:
        plain = at.url.replace("/r/ro_1", "")
        async with at.client.stream("POST", plain, json=STREAMED) as reply:
            await anext(reply.aiter_bytes())
        await until(lambda: server.engine.n_cancelled == 1)
    assert server.given_up == 0


@pytest.mark.parametrize("end", ["turns", "forget"])
@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_being_sampled_when_its_rollout_ends_is_not_recorded(
    tmp_path: Path, end: str, stream: bool
) -> None:
    server = talking(tmp_path)
    async with asking("direct", server) as client:
        asked = asyncio.ensure_future(client.ask("responses", {**GO, "stream": stream}, "ro_1"))
        await until(lambda: server.engine.n_started)
        await asyncio.sleep(0.01)
        await (server.turns("ro_1") if end == "turns" else server.forget("ro_1"))
        got = await asyncio.wait_for(asked, 60)
        assert got.status >= 400 or read_responses_stream(got.stream)["status"] == "failed"
        opened(server)
        assert server.engine.n_cancelled == 1
        assert (await server.turns("ro_1")).turns == []


async def test_an_answer_that_a_slow_reader_reads_after_the_rollouts_end_is_not_recorded(tmp_path: Path) -> None:
    server = talking(tmp_path)
    async with asking("direct", server):
        reply: Any = await server.responses(STREAMED, Call(path={"secret": "ro_1"}))
        events = reply.events
        seen = [await anext(events)]
        opened(server)
        await until(lambda: server.engine.calls)
        await server.forget("ro_1")
        seen += [event async for event in events]
        assert read_responses_stream(b"".join(seen))["status"] == "failed"
        assert list(server.store.turns("ro_1")) == []
    assert not tmp_path.exists()  # noqa: ASYNC240 - nothing runs beside it; an empty folder went with the server


async def test_a_rollout_that_ends_as_a_call_begins_leaves_no_client_waiting(tmp_path: Path) -> None:
    server = talking(tmp_path)
    async with asking("direct", server) as client:
        asked = asyncio.ensure_future(client.ask("responses", GO, "ro_1"))
        await asyncio.sleep(0)
        await server.turns("ro_1")
        assert (await asyncio.wait_for(asked, 60)).status >= 400


async def test_the_first_reader_to_the_end_records_for_a_slow_one(tmp_path: Path) -> None:
    server = talking(tmp_path)
    async with asking("direct", server) as client:
        slow: Any = await server.responses(STREAMED, Call(path={"secret": "ro_1"}))
        events = slow.events
        seen = [await anext(events)]
        quick = asyncio.ensure_future(client.ask("responses", GO, "ro_1"))
        await asyncio.sleep(0.01)
        opened(server)
        whole = (await quick).body
        assert len(server.store.turns("ro_1")) == 1
        seen += [event async for event in events]
        assert read_responses_stream(b"".join(seen))["output"] == whole["output"]
        assert len(server.store.turns("ro_1")) == 1
    assert server.engine.n_started == 1


async def test_a_client_hears_that_its_stream_lives(tmp_path: Path) -> None:
    server = talking(tmp_path, keepalive_interval_s=0.02)
    async with listening(server) as at, at.client.stream("POST", at.url, json=STREAMED) as reply:
        got = b""
        async for chunk in reply.aiter_bytes():
            got += chunk
            if got.count(b"event: response.in_progress") >= 3:
                opened(server)
    assert text(read_responses_stream(got)) == WORDS


async def test_an_engine_that_is_slow_to_begin_holds_up_the_first_events_for_one_beat(tmp_path: Path) -> None:
    engine = ScriptedEngine(small_vocabulary(), lambda prompt: WORDS, delay_s=60.0)
    server = scripted_server(tmp_path, lambda prompt: WORDS, engine=engine, keepalive_interval_s=1.0)
    async with asking("direct", server):
        reply: Any = await server.responses(STREAMED, Call(path={"secret": "ro_1"}))
        async with asyncio.timeout(0.5):
            assert b"response.created" in await anext(reply.events)
        await reply.events.aclose()


async def test_after_its_deadline_a_call_is_answered_with_an_error_and_its_retry_with_the_answer(
    tmp_path: Path,
) -> None:
    server = talking(tmp_path)
    async with listening(server) as at:
        late = await at.client.post(at.url, json=GO, headers={"x-paddock-timeout-s": "0.1"})
        assert late.status_code >= 400
        opened(server)
        assert text((await at.post(GO)).json()) == WORDS
    assert server.engine.n_started == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_on_a_full_disk_the_client_gets_an_error_and_later_the_same_answer(tmp_path: Path, stream: bool) -> None:
    folder = tmp_path / "turns"
    answers = iter(range(9))
    server = scripted_server(folder, lambda prompt: f"answer {next(answers)}", parser=PlainParser)
    body = {**GO, "stream": stream}
    async with asking("asgi", server) as client:
        folder.rmdir()
        folder.write_text("in the way")
        got = await client.ask("responses", body, "ro_1")
        assert got.status == 503 or read_responses_stream(got.stream)["error"]["code"] == "turn_store"
        folder.unlink()
        got = await client.ask("responses", body, "ro_1")
        assert text(got.body or read_responses_stream(got.stream)) == "answer 0"
        record = await server.turns("ro_1")
    assert (server.engine.n_started, len(record.turns)) == (1, 1)


_SMALL_DISK = """
import asyncio, json, resource, sys
from pathlib import Path
from paddock.testing.engines import scripted_server
from tests.support.models import asking

async def main(folder):
    server = scripted_server(folder, lambda prompt: "word " * 400)
    found = []
    async with asking("asgi", server) as client:
        for limit in (700, resource.RLIM_INFINITY):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            got = await client.ask("responses", {"input": "go"}, "ro_1")
            found.append([got.status, sum(file.stat().st_size for file in folder.iterdir()) > 0])
        found.append([server.engine.n_started, len((await server.turns("ro_1")).turns)])
    print(json.dumps(found))

asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.mark.slow
def test_a_line_that_does_not_fit_is_taken_back_whole_and_written_once_there_is_space(tmp_path: Path) -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    ran = subprocess.run(
        [sys.executable, "-c", _SMALL_DISK, str(tmp_path)], capture_output=True, timeout=60, check=True
    )
    assert json.loads(ran.stdout) == [[503, False], [200, True], [1, 1]]
