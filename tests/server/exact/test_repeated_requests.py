"""Claims about equal requests: one that is being answered is joined, one that was answered is told the same again."""

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest
from tests.sampling import few
from tests.support.models import DialectReply, ModelClient, asking
from tests.support.streams import read_responses_stream

from paddock.server.exact.parsers import PlainParser
from paddock.server.exchange import Exchange
from paddock.testing.engines import CutAnswer, EngineAnswer, ScriptedExactServer, scripted_server
from paddock.types import JsonObject

GO: JsonObject = {"input": [{"role": "user", "content": "go"}]}
CALL = '<tool_call>\n{"name": "sh", "arguments": {}}\n</tool_call>'
WORDS = "some words that take several chunks of ids, and ünïcode"


class Numbered:
    """Another answer for each call of the engine."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self, prompt: list[int]) -> EngineAnswer:
        self.number += 1
        return f"answer {self.number} {CALL}"


def output(got: DialectReply) -> list[JsonObject]:
    assert got.status == 200, got
    body = got.body or read_responses_stream(got.stream)
    found: list[JsonObject] = body["output"]
    return found


def going_on(before: JsonObject, said: list[JsonObject]) -> JsonObject:
    call = next(item for item in said if item["type"] == "function_call")
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "done"}
    return {**before, "input": [*before["input"], *said, result]}


async def ask(client: ModelClient, body: JsonObject, *, stream: bool = False) -> list[JsonObject]:
    return output(await client.ask("responses", {**body, "stream": stream}, "ro_1"))


def hold_engine(server: ScriptedExactServer) -> asyncio.Event:
    """Opens the engine's gate."""
    server.engine.gate = asyncio.Event()
    return server.engine.gate


async def until_started(server: ScriptedExactServer, count: int = 1) -> None:
    while server.engine.n_started < count:
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.005)


@pytest.mark.parametrize("transport", ["direct", "http"])
@pytest.mark.parametrize("streams", [(False, False), (True, True), (True, False), (False, True)])
async def test_two_that_ask_the_same_at_once_share_one_answer(
    tmp_path: Path, streams: tuple[bool, bool], transport: Any
) -> None:
    server = scripted_server(tmp_path, Numbered())
    async with asking(transport, server) as client:
        go = hold_engine(server)
        asked = [asyncio.ensure_future(ask(client, GO, stream=stream)) for stream in streams]
        await until_started(server)
        go.set()
        first, second = await asyncio.gather(*asked)
        record = await server.turns("ro_1")
    assert first == second
    assert (server.engine.n_started, len(record.turns)) == (1, 1)
    assert record.turns[0].output == first


async def test_what_was_answered_is_answered_from_the_record_until_something_goes_on_from_it(tmp_path: Path) -> None:
    server = scripted_server(tmp_path, Numbered())
    async with asking("direct", server) as client:
        first = await ask(client, GO)
        for stream in (False, True):
            assert await ask(client, GO, stream=stream) == first
        assert server.engine.n_started == 1
        await ask(client, going_on(GO, first))
        again = await ask(client, GO)
        assert again != first
        assert await ask(client, GO) == again
        record = await server.turns("ro_1")
    assert server.engine.n_started == 3
    assert [turn.parent for turn in record.turns] == [None, record.turns[0].id, None]
    assert record.turns[2].prompt_ids == record.turns[0].prompt_ids


async def test_a_sibling_is_gone_on_from_where_its_own_call_is_told(tmp_path: Path) -> None:
    server = scripted_server(tmp_path, Numbered())
    async with asking("direct", server) as client:
        first = await ask(client, GO)
        await ask(client, going_on(GO, first))
        second = await ask(client, GO)
        for said in (first, second):
            body = going_on(GO, said)
            body["input"].append({"role": "user", "content": "now"})
            await ask(client, body)
        record = await server.turns("ro_1")
    assert [turn.parent for turn in record.turns[-2:]] == [record.turns[0].id, record.turns[2].id]


async def test_a_server_that_restarts_answers_a_retry_from_its_record_and_goes_on_from_it(tmp_path: Path) -> None:
    first_server = scripted_server(tmp_path, Numbered())
    async with asking("direct", first_server) as client:
        first = await ask(client, GO)
    server = scripted_server(tmp_path, Numbered())
    async with asking("direct", server) as client:
        assert await ask(client, GO) == first
        assert server.engine.n_started == 0
        await ask(client, going_on(GO, first))
        record = await server.turns("ro_1")
    assert [turn.parent for turn in record.turns] == [None, record.turns[0].id]


async def test_a_failed_call_is_not_recorded_and_asked_again(tmp_path: Path) -> None:
    answers: list[EngineAnswer] = [RuntimeError("out of luck"), CutAnswer("a long answer that breaks off", 6), "fine"]
    server = scripted_server(tmp_path, lambda prompt: answers.pop(0))
    async with asking("asgi", server) as client:
        assert [(await client.ask("responses", GO, "ro_1")).status for _ in range(2)] == [500, 503]
        assert (await ask(client, GO))[0]["content"][0]["text"] == "fine"
        record = await server.turns("ro_1")
    assert (server.engine.n_started, len(record.turns), server.given_up) == (3, 1, 0)


async def test_a_failure_reaches_all_that_joined(tmp_path: Path) -> None:
    server = scripted_server(tmp_path, lambda prompt: CutAnswer(WORDS, 6), parser=PlainParser)
    async with asking("direct", server) as client:
        go = hold_engine(server)
        bodies = [GO, {**GO, "stream": True}]
        asked = [asyncio.ensure_future(client.ask("responses", body, "ro_1")) for body in bodies]
        await until_started(server)
        go.set()
        whole, streamed = await asyncio.gather(*asked)
        assert whole.status == 503
        assert streamed.status == 503 or read_responses_stream(streamed.stream)["status"] == "failed"
        assert server.store.turns("ro_1") == []
    assert server.engine.n_started == 1


async def test_calls_of_no_rollout_and_of_two_rollouts_share_nothing(tmp_path: Path) -> None:
    server = scripted_server(tmp_path, Numbered())
    async with asking("direct", server) as client:
        secrets = [None, None, "ro_1", "ro_2"]
        got = await asyncio.gather(*(client.ask("responses", GO, secret) for secret in secrets))
        assert [len(server.store.turns(secret)) for secret in ("ro_1", "ro_2")] == [1, 1]
    assert server.engine.n_started == 4
    assert len({str(output(each)) for each in got}) == 4


@pytest.mark.parametrize("stream", few([False, True], [True]))
async def test_nothing_of_an_answered_call_is_kept_but_its_turn(tmp_path: Path, stream: bool) -> None:
    server = scripted_server(tmp_path, Numbered())
    others = exchanges()  # of other tests, whose errors may still be held
    async with asking("direct", server) as client:
        for secret in ("ro_1", None):
            await client.ask("responses", {**GO, "stream": stream}, secret)
            await asyncio.sleep(0)
            gc.collect()
            assert all(any(each is other for other in others) for each in exchanges())


def exchanges() -> list[Exchange]:
    return [each for each in gc.get_objects() if isinstance(each, Exchange)]
