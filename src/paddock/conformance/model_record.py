"""What every model server's record does: nothing is sampled twice, and a rollout ends where it was told to."""

import asyncio
import time
from collections.abc import Sequence

from paddock.conformance.behaviours import Behaviour, expect
from paddock.conformance.stand import Stand, question, standing
from paddock.conformance.subjects import Subject
from paddock.errors import RequestError
from paddock.http import SAID, SETTINGS, Call
from paddock.types import JsonObject, RolloutSettings, TurnSummary, TurnSummaryQuery

OVERFLOW = "context_length_exceeded"


async def the_same_again_is_the_same_turn(subject: Subject) -> None:
    async with standing(subject) as stand:
        secret = await stand.open()
        first, again = await stand.ask(secret), await stand.ask(secret)
        expect(first["output"] == again["output"], "the same request again got another answer")
        turns = (await stand.record(secret)).turns
        expect(len(turns) == 1, f"the same request twice made {len(turns)} turns")


async def the_same_at_once_is_one_turn(subject: Subject) -> None:
    async with standing(subject) as stand:
        secret = await stand.open()
        replies = await asyncio.gather(*(stand.ask(secret) for _ in range(4)))
        expect(all(reply["output"] == replies[0]["output"] for reply in replies), "four askers got different answers")
        turns = (await stand.record(secret)).turns
        expect(len(turns) == 1, f"the same request four times at once made {len(turns)} turns")


async def what_was_continued_is_sampled_anew(subject: Subject) -> None:
    async with standing(subject) as stand:
        secret = await stand.open()
        first = await stand.ask(secret)
        await stand.ask(secret, _next(first))
        again = await stand.ask(secret)
        ids = [item.get("id") for item in first["output"]]
        expect(all(item.get("id") not in ids for item in again["output"]), "a continued answer was given again")
        turns = (await stand.record(secret)).turns
        expect(len(turns) == 3, f"two answers to one request and one to another made {len(turns)} turns")


async def calls_end_at_the_last_turn(subject: Subject) -> None:
    async with standing(subject) as stand:
        secret = await stand.open()
        await _set(stand, secret, RolloutSettings(max_turns=1))
        first = await stand.ask(secret)
        expect((await stand.ask(secret))["output"] == first["output"], "the last turn was not given again")
        await _overflows(stand, secret, _next(first), "a second call of a rollout that has one")
        expect(len((await stand.record(secret)).turns) == 1, "a refused call was recorded")


async def calls_end_with_the_rollouts_time(subject: Subject) -> None:
    async with standing(subject) as stand:
        secret = await stand.open()
        await _set(stand, secret, RolloutSettings(ends_at=time.time() + 3600))
        first = await stand.ask(secret)
        await _set(stand, secret, RolloutSettings(ends_at=time.time() - 1))
        await _overflows(stand, secret, _next(first), "a call after the rollout's time")


async def what_was_said_is_told_meanwhile(subject: Subject) -> None:
    async with standing(subject) as stand:
        secret = await stand.open()
        expect(not await _said(stand, secret), "a rollout that has not begun has turns")
        first = await stand.ask(secret)
        second = await stand.ask(secret, _next(first))
        told = await _said(stand, secret)
        outputs = [[item.get("id") for item in reply["output"]] for reply in (first, second)]
        expect([[item.get("id") for item in one.output] for one in told] == outputs, "other items than were answered")
        expect([one.id for one in await _said(stand, secret, known=1)] == [told[1].id], "a known turn was told again")
        await stand.ask(secret, _next(second))
        turns = (await stand.record(secret)).turns
        expect([turn.id for turn in turns[:2]] == [one.id for one in told], "the record has other turns")
        expect(len(turns) == 3, "a rollout whose turns were looked at could not go on")


async def _said(stand: Stand, secret: str, known: int = 0) -> Sequence[TurnSummary]:
    return (await stand.peer.call(SAID, TurnSummaryQuery(known=known), Call(), secret=secret)).turns


def _next(reply: JsonObject) -> JsonObject:
    history = [*question()["input"], *reply["output"], {"role": "user", "content": "And then?"}]
    return {**question(), "input": history}


async def _set(stand: Stand, secret: str, settings: RolloutSettings) -> None:
    await stand.peer.call(SETTINGS, settings, Call(), secret=secret)


async def _overflows(stand: Stand, secret: str, body: JsonObject, what: str) -> None:
    try:
        await stand.ask(secret, body)
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
    Behaviour("what was said so far is told, and the rollout goes on", what_was_said_is_told_meanwhile),
]
