"""Claims about the scripted upstream: turns are answered in order in each dialect, streamed or whole; each fault is
what a model server would send; what was answered whole is the record."""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson
import pytest
from tests.support.streams import read_responses_stream

from paddock.http import TRANSCRIPT, Call
from paddock.lab.wirelab.scenarios import ScriptedTurn
from paddock.lab.wirelab.script import MAX_CLOSINGS, WireScript
from paddock.sandbox.tunnel import ModelRequest
from paddock.types import JsonObject, TurnSummaryQuery
from paddock.types.responses import call_item, message_item

PATHS = ["/v1/responses", "/v1/chat/completions", "/v1/messages"]
ITEMS: list[JsonObject] = [message_item("lab-half"), call_item("run", '{"cmd": "echo lab-out"}')]


def script_of(turns: Sequence[ScriptedTurn]) -> WireScript:
    return WireScript(turns, lambda _number: ScriptedTurn([message_item("lab-end")]))


class HttpAnswer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes
    cut: bool


async def ask(script: WireScript, path: str, *, stream: bool = False) -> HttpAnswer:
    body = orjson.dumps({"model": "policy", "stream": stream, "input": "x", "messages": []})
    async with script(ModelRequest("POST", path, {}, body)) as answer:
        taken = b""
        try:
            async for data in answer.body:
                taken += data
        except ConnectionError:
            return HttpAnswer(answer.status, answer.headers, taken, cut=True)
        return HttpAnswer(answer.status, answer.headers, taken, cut=False)


async def summaries_of(script: WireScript) -> Sequence[Any]:
    return (await script.peer.call(TRANSCRIPT, TurnSummaryQuery(skip=0), Call(), secret="s")).turns


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [False, True])
async def test_turns_are_answered_in_order_then_the_last_words(path: str, stream: bool) -> None:
    script = script_of([ScriptedTurn(ITEMS), ScriptedTurn([message_item("lab-then")])])
    texts = [(await ask(script, path, stream=stream)).body for _ in range(3)]
    for words, text in zip((b"lab-half", b"lab-then", b"lab-end"), texts, strict=True):
        assert words in text
    assert [turn.output[0]["content"][0]["text"] for turn in await summaries_of(script)][:2] == ["lab-half", "lab-then"]
    assert [turn.finish_reason for turn in await summaries_of(script)] == ["tool_calls", "stop", "stop"]


async def test_a_stream_is_one_that_a_careful_client_takes() -> None:
    final = read_responses_stream((await ask(script_of([ScriptedTurn(ITEMS)]), PATHS[0], stream=True)).body)
    assert [item["type"] for item in final["output"]] == ["message", "function_call"]
    assert final["usage"]["total_tokens"] == 100


@pytest.mark.parametrize("path", PATHS)
async def test_a_fault_is_answered_as_a_model_server_would_and_is_no_turn(path: str) -> None:
    script = script_of(
        [
            ScriptedTurn(ITEMS, "rate"),
            ScriptedTurn(ITEMS, "server"),
            ScriptedTurn(ITEMS, "overflow"),
            ScriptedTurn(ITEMS),
        ]
    )
    limited, broken, long, fine = [await ask(script, path) for _ in range(4)]
    assert (limited.status, limited.headers["retry-after"]) == (429, "1")
    assert broken.status == 500
    assert "x-should-retry" not in {**limited.headers, **broken.headers}
    assert long.status == 400
    assert (b"prompt is too long" if path.endswith("messages") else b"context_length_exceeded") in long.body
    assert fine.status == 200
    assert len(await summaries_of(script)) == 1


@pytest.mark.parametrize("path", PATHS)
async def test_a_stream_that_is_cut_or_fails_has_told_what_came_before(path: str) -> None:
    script = script_of([ScriptedTurn(ITEMS, "cut"), ScriptedTurn(ITEMS, "failed")])
    cut, failed = [await ask(script, path, stream=True) for _ in range(2)]
    assert b"lab-half" in cut.body
    assert b"lab-half" in failed.body
    assert (cut.cut, failed.cut) == (True, False)
    assert b"lab: it failed" in failed.body
    assert await summaries_of(script) == []


async def test_an_answer_at_its_limit_says_so_and_is_a_turn() -> None:
    script = script_of([ScriptedTurn(ITEMS, "limit")])
    assert b'"incomplete"' in (await ask(script, PATHS[0])).body
    assert [turn.finish_reason for turn in await summaries_of(script)] == ["length"]


async def test_a_call_that_hangs_says_so_and_gets_no_answer() -> None:
    script = script_of([ScriptedTurn(ITEMS, "hang")])
    asking = asyncio.ensure_future(ask(script, PATHS[0]))
    await asyncio.wait_for(script.hangs.wait(), 60)
    assert not asking.done()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)


async def test_who_asks_on_is_refused() -> None:
    script = script_of([])
    statuses = [(await ask(script, PATHS[0])).status for _ in range(MAX_CLOSINGS + 1)]
    assert statuses == [200] * MAX_CLOSINGS + [400]
