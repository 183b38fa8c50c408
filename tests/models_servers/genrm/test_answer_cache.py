"""Claims about equal requests: asked once, kept within a bound, failures never."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from paddock.models_servers.genrm.answer_cache import AnswerCache
from paddock.testing import ErrorStatus, ScriptedUpstream, first
from paddock.types import JsonObject

Judging = Callable[..., Any]


def comparison(judge: str = "0", *, response_1: str = "a", **params: Any) -> JsonObject:
    return {"input": "which?", "metadata": {"response_1": response_1, "response_2": "b", "judge_idx": judge}, **params}


async def test_equal_comparisons_are_asked_once(judging: Judging) -> None:
    async with ScriptedUpstream(delay_s=0.05) as upstream, judging(upstream) as (client, server):
        got = await asyncio.gather(*(client.ask("responses", comparison()) for _ in range(5)))
        got.append(await client.ask("responses", comparison()))
        reordered = comparison()
        reordered["metadata"] = dict(reversed(reordered["metadata"].items()))
        await client.ask("responses", reordered)
        assert upstream.calls == 1
        assert len({str(each.body["output"]) for each in got}) == 1
        assert (server.answers.shared, server.answers.hits) == (4, 2)


async def test_whatever_is_not_equal_is_asked_for_itself(judging: Judging) -> None:
    bodies = [
        comparison(),
        comparison("1"),
        comparison(response_1="A"),
        comparison(temperature=0.5),
        comparison(instructions="x"),
    ]
    async with ScriptedUpstream() as upstream, judging(upstream) as (client, _):
        for body in bodies:
            await client.ask("responses", body)
    assert upstream.calls == 5


async def test_no_more_answers_are_kept_than_allowed(judging: Judging) -> None:
    async with ScriptedUpstream() as upstream, judging(upstream, cache_entries=2) as (client, _):
        for judge in ("0", "1", "0", "2", "0", "1"):
            await client.ask("responses", comparison(judge))
    assert upstream.calls == 4, "judge 1 was the least recently used when 2 came"


async def test_without_a_cache_each_is_asked_for_itself(judging: Judging) -> None:
    async with ScriptedUpstream(delay_s=0.02) as upstream, judging(upstream, cache_entries=0) as (client, _):
        await asyncio.gather(*(client.ask("responses", comparison()) for _ in range(3)))
    assert upstream.calls == 3


async def test_a_failure_is_not_kept(judging: Judging) -> None:
    faults = first(1, ErrorStatus(500))
    async with ScriptedUpstream(faults=faults) as upstream, judging(upstream, retry_for_s=0) as (client, _):
        got = [await client.ask("responses", comparison()) for _ in range(2)]
    assert [each.status for each in got] == [503, 200]
    assert upstream.calls == 2


async def test_one_who_goes_away_takes_nothing_from_the_others() -> None:
    answers: AnswerCache[str] = AnswerCache(4)
    gate, begun = asyncio.Event(), 0

    async def make() -> str:
        nonlocal begun
        begun += 1
        await gate.wait()
        return "answer"

    waiting = [asyncio.create_task(answers.get(b"k", make)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.gather(waiting[0], return_exceptions=True)
    gate.set()
    assert await asyncio.gather(*waiting[1:]) == ["answer", "answer"]
    assert begun == 1


async def test_work_that_nobody_waits_for_ends_and_the_next_one_asks_anew() -> None:
    answers: AnswerCache[str] = AnswerCache(4)
    ended = asyncio.Event()

    async def hang() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    async def answer() -> str:
        return "anew"

    waiting = asyncio.create_task(answers.get(b"k", hang))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await answers.get(b"k", answer) == "anew"
    await asyncio.wait_for(ended.wait(), 30)
    await answers.close()
