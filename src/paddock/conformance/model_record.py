"""What every model server's record does: nothing is sampled twice, and a rollout ends at its limits."""

import asyncio
import time
from collections.abc import Sequence

from paddock.conformance.behaviours import Behaviour, expect
from paddock.conformance.model_fixture import ModelFixture, model_fixture, question
from paddock.conformance.target import ServerTarget
from paddock.errors import RequestError
from paddock.http import SETTINGS, TRANSCRIPT, Call
from paddock.types import JsonObject, RolloutSettings, TurnSummary, TurnSummaryQuery

OVERFLOW = "context_length_exceeded"


async def the_same_again_is_the_same_turn(target: ServerTarget) -> None:
    async with model_fixture(target) as fixture:
        secret = await fixture.open_rollout()
        first, again = await fixture.ask(secret), await fixture.ask(secret)
        expect(first["output"] == again["output"], "the same request again got another answer")
        turns = (await fixture.record(secret)).turns
        expect(len(turns) == 1, f"the same request twice made {len(turns)} turns")


async def the_same_at_once_is_one_turn(target: ServerTarget) -> None:
    async with model_fixture(target) as fixture:
        secret = await fixture.open_rollout()
        replies = await asyncio.gather(*(fixture.ask(secret) for _ in range(4)))
        expect(all(reply["output"] == replies[0]["output"] for reply in replies), "four askers got different answers")
        turns = (await fixture.record(secret)).turns
        expect(len(turns) == 1, f"the same request four times at once made {len(turns)} turns")


async def what_was_continued_is_sampled_anew(target: ServerTarget) -> None:
    async with model_fixture(target) as fixture:
        secret = await fixture.open_rollout()
        first = await fixture.ask(secret)
        await fixture.ask(secret, _next(first))
        again = await fixture.ask(secret)
        ids = [item.get("id") for item in first["output"]]
        expect(all(item.get("id") not in ids for item in again["output"]), "a continued answer was given again")
        turns = (await fixture.record(secret)).turns
        expect(len(turns) == 3, f"two answers to one request and one to another made {len(turns)} turns")


async def calls_end_at_the_last_turn(target: ServerTarget) -> None:
    async with model_fixture(target) as fixture:
        secret = await fixture.open_rollout()
        await _set(fixture, secret, RolloutSettings(max_turns=1))
        first = await fixture.ask(secret)
        expect((await fixture.ask(secret))["output"] == first["output"], "the last turn was not given again")
        await _overflows(fixture, secret, _next(first), "a second call of a rollout that has one")
        expect(len((await fixture.record(secret)).turns) == 1, "a refused call was recorded")


async def calls_end_with_the_rollouts_time(target: ServerTarget) -> None:
    async with model_fixture(target) as fixture:
        secret = await fixture.open_rollout()
        await _set(fixture, secret, RolloutSettings(ends_at=time.time() + 3600))
        first = await fixture.ask(secret)
        await _set(fixture, secret, RolloutSettings(ends_at=time.time() - 1))
        await _overflows(fixture, secret, _next(first), "a call after the rollout's time")


async def turns_can_be_read_meanwhile(target: ServerTarget) -> None:
    async with model_fixture(target) as fixture:
        secret = await fixture.open_rollout()
        expect(not await _transcript(fixture, secret), "a rollout that has not begun has turns")
        first = await fixture.ask(secret)
        second = await fixture.ask(secret, _next(first))
        transcript = await _transcript(fixture, secret)
        outputs = [[item.get("id") for item in reply["output"]] for reply in (first, second)]
        expect(
            [[item.get("id") for item in entry.output] for entry in transcript] == outputs,
            "other items than were answered",
        )
        expect(
            [entry.id for entry in await _transcript(fixture, secret, skip=1)] == [transcript[1].id],
            "a turn that was to be skipped came again",
        )
        await fixture.ask(secret, _next(second))
        turns = (await fixture.record(secret)).turns
        expect([turn.id for turn in turns[:2]] == [entry.id for entry in transcript], "the record has other turns")
        expect(len(turns) == 3, "a rollout whose turns were looked at could not go on")


async def _transcript(fixture: ModelFixture, secret: str, skip: int = 0) -> Sequence[TurnSummary]:
    return (await fixture.peer.call(TRANSCRIPT, TurnSummaryQuery(skip=skip), Call(), secret=secret)).turns


def _next(reply: JsonObject) -> JsonObject:
    history = [*question()["input"], *reply["output"], {"role": "user", "content": "And then?"}]
    return {**question(), "input": history}


async def _set(fixture: ModelFixture, secret: str, settings: RolloutSettings) -> None:
    await fixture.peer.call(SETTINGS, settings, Call(), secret=secret)


async def _overflows(fixture: ModelFixture, secret: str, body: JsonObject, what: str) -> None:
    try:
        await fixture.ask(secret, body)
    except RequestError as error:
        expect(error.kind == OVERFLOW, f"{what}: refused as {error.kind!r}, and not as {OVERFLOW!r}")
        return
    raise AssertionError(f"{what} was answered")


SUITE = [
    Behaviour("the same request again is answered from the record", the_same_again_is_the_same_turn),
    Behaviour("the same request at the same time is one turn", the_same_at_once_is_one_turn),
    Behaviour("a request whose answer was continued is answered anew", what_was_continued_is_sampled_anew),
    Behaviour("a rollout makes as many calls as its settings say", calls_end_at_the_last_turn),
    Behaviour("a rollout makes no call after its time", calls_end_with_the_rollouts_time),
    Behaviour("what was said so far is told, and the rollout goes on", turns_can_be_read_meanwhile),
]
