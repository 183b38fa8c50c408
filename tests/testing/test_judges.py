"""The scripted judge: its opinions, its delays and failures, over each way to reach it."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import InfraError
from paddock.http import PLAIN_RESPONSES, Call
from paddock.quote import enclose
from paddock.testing import TRANSPORTS, Transport, over
from paddock.testing.judges import ScriptedJudge, ScriptedJudgeConfig
from paddock.types import JsonObject
from paddock.types.responses import messages


def judge(**config: Any) -> ScriptedJudge:
    return ScriptedJudge(ScriptedJudgeConfig.model_validate(config), name="judge", peers={})


def comparison(first: str, second: str, **metadata: str) -> JsonObject:
    metadata |= {"response_1": first, "response_2": second}
    return {"input": [{"role": "user", "content": "which?"}], "metadata": metadata}


async def said(asked: ScriptedJudge, body: JsonObject) -> str:
    return messages(await asked.responses(body, Call()))[0]


async def compared(asked: ScriptedJudge, first: str, second: str, **metadata: str) -> JsonObject:
    found: JsonObject = json.loads(await said(asked, comparison(first, second, **metadata)))
    return found


@pytest.mark.parametrize(
    ("config", "better", "worse"),
    [
        ({"prefers": "longer"}, "a long answer", "short"),
        ({"prefers": "shorter"}, "short", "a long answer"),
        ({"prefers": "contains", "needle": "please"}, "please, please", "please, and more words"),
    ],
)
async def test_it_prefers_what_it_is_told_to(config: JsonObject, better: str, worse: str) -> None:
    found = await compared(judge(**config), better, worse)
    assert found["score_1"] >= found["score_2"]
    assert found["ranking"] <= 3
    swapped = await compared(judge(**config), worse, better)
    assert swapped == {"score_1": found["score_2"], "score_2": found["score_1"], "ranking": 7 - found["ranking"]}


@given(st.sampled_from(["hash", "longer", "shorter"]), st.text(max_size=5), st.text(max_size=5))
def test_swapped_texts_get_swapped_opinions(prefers: str, first: str, second: str) -> None:
    asked = judge(prefers=prefers, noise=1.0 if prefers == "hash" else 0.0)

    async def both() -> list[JsonObject]:
        return [await compared(asked, first, second), await compared(asked, second, first)]

    found, swapped = asyncio.run(both())
    assert (found["score_1"], found["score_2"]) == (swapped["score_2"], swapped["score_1"])
    assert first == second or found["ranking"] == 7 - swapped["ranking"]
    assert min(found.values()) >= 1
    assert max(found.values()) <= 6


async def test_every_ranking_ties_and_both_orders_appear() -> None:
    asked = judge(prefers="hash")
    found = [await compared(asked, f"a{nth}", f"b{nth}") for nth in range(200)]
    assert {each["ranking"] for each in found} == {1, 2, 3, 4, 5, 6}
    assert {each["score_1"] for each in found} == {1, 2, 3, 4, 5}
    assert {each["ranking"] for each in found if each["score_1"] == each["score_2"]} >= {3, 4}


async def test_judges_may_disagree_and_favour_the_first() -> None:
    asked = judge(prefers="hash", noise=2.0)
    found = [await compared(asked, "one text", "another", judge_idx=str(nth)) for nth in range(20)]
    assert len({each["ranking"] for each in found}) > 1
    biased = judge(prefers="longer", position_bias=2.0)
    assert (await compared(biased, "same!", "equal"))["ranking"] < 3
    assert (await compared(biased, "equal", "same!"))["ranking"] < 3


async def test_answers_that_are_hard_to_read() -> None:
    assert "```json\n" in await said(judge(fenced=True), comparison("a", "bb"))
    assert "score_1" not in await compared(judge(omit=["score_1"]), "a", "bb")
    first_unusable = judge(unusable_first=1)
    assert "{" not in await said(first_unusable, comparison("a", "bb"))
    assert "{" in await said(first_unusable, comparison("a", "bb"))
    some = judge(unusable_share=0.5)
    answers = ["{" in await said(some, comparison("a", "bb", **{"try": str(nth)})) for nth in range(40)]
    assert 5 < sum(answers) < 35


async def test_it_fails_and_comes_back() -> None:
    asked = judge(fail_first=1)
    with pytest.raises(InfraError) as failed:
        await said(asked, comparison("a", "b"))
    assert failed.value.retryable
    assert await said(asked, comparison("a", "b"))
    asked.go_down(60)
    with pytest.raises(InfraError):
        await said(asked, comparison("a", "b"))
    asked.go_down(0)
    assert await said(asked, comparison("a", "b"))
    assert (asked.requests, asked.failed) == (4, 2)


def votes_on(history: Sequence[str], step: str) -> JsonObject:
    parts = [enclose("history", text, "00") for text in history]
    return {"input": [{"role": "user", "content": "\n".join([*parts, enclose("step", step, "00")])}]}


async def test_votes_are_on_the_last_enclosed_text() -> None:
    asked = judge(needle="good", fail_needle="broken", hang_needle="stuck")
    assert "\\boxed{1}" in await said(asked, votes_on(["bad", "stuck"], "a good step"))
    assert "\\boxed{-1}" in await said(asked, votes_on(["good", "broken"], "a step"))
    assert "\\boxed{1}" in await said(asked, {"input": "a good step"})
    with pytest.raises(InfraError):
        await said(asked, votes_on([], "broken"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(said(asked, votes_on([], "stuck")), 0.05)
    assert asked.in_flight == 0


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_it_counts_what_is_asked_at_once(transport: Transport) -> None:
    asked = judge(delay_s=0.05, delay_spread_s=0.05, keep_seen=3)
    async with over(transport, asked) as peers:
        bodies = [comparison("a" * nth, "b") for nth in range(5)]
        await asyncio.gather(*(peers["judge"].call(PLAIN_RESPONSES, body, Call()) for body in bodies))
    assert (asked.requests, asked.in_flight, len(asked.seen)) == (5, 0, 3)
    assert asked.most_in_flight > 1


def test_a_needle_is_needed_where_it_counts() -> None:
    with pytest.raises(ValueError, match="needle"):
        judge(prefers="contains")
