"""What a harness tells: the model its own history, its caller each step as it ends, and how the run ended."""

import asyncio

from paddock.conformance.behaviours import Behaviour, expect
from paddock.conformance.harnesses.played import LAST_WORDS, Conversation
from paddock.conformance.harnesses.stage import HarnessSubject, Stage, calls_in, native, results, staged, text_of
from paddock.harness import Harness
from paddock.types import JsonObject
from paddock.types.responses import item_type, message_item, output_items

ODD: JsonObject = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "encrypted_content": "b3BhcXVl",
    "odd": [1.5, None],
}
"""An item that no harness reads, with a key that nobody knows."""
SAYS = "I will look first."


async def _four_turns(stage: Stage, **more: object) -> list[list[JsonObject]]:
    face = await stage.face()
    first = {**face.shell("echo one"), "phase": "commentary"}
    return [[ODD, message_item(SAYS), first], [face.shell("echo two"), face.shell("echo three")], [face.shell("false")]]


async def history_only_grows(subject: HarnessSubject) -> None:
    async with staged(subject) as stage:
        played = await stage.play(*await _four_turns(stage))
        played.ended("finished")
        for number, (before, after) in enumerate(zip(played.requests, played.requests[1:], strict=False), 1):
            shown, grown = output_items(before["input"]), output_items(after["input"])
            expect(grown[: len(shown)] == shown, f"request {number + 1} does not start with request {number}'s input")
            if subject.runs_program:
                continue
            rest = {key: value for key, value in before.items() if key != "input"}
            expect(
                rest == {key: value for key, value in after.items() if key != "input"}, "requests differ beside input"
            )


async def the_models_items_come_back_untouched(subject: HarnessSubject) -> None:
    native(subject, "a program tells its history in its own way, which the record knows")
    async with staged(subject) as stage:
        played = await stage.play(*await _four_turns(stage))
        played.ended("finished")
        for number in range(len(played.raw) - 1):
            start = len(output_items(played.requests[number]["input"]))
            said = played.said[number]
            back = output_items(played.requests[number + 1]["input"])[start:]
            expect(back[: len(said)] == said, f"the items of turn {number + 1} came back as {back[: len(said)]!r:.300}")
            ids = [call["call_id"] for call in calls_in(said)]
            told = [item.get("call_id") for item in back[len(said) :] if item_type(item).endswith("_call_output")]
            expect(told == ids, f"after the items of turn {number + 1} stand results for {told}, not for {ids}")


async def steps_are_reported_as_they_end(subject: HarnessSubject) -> None:
    async with staged(subject) as stage:
        turns = await _four_turns(stage)
        talk = Conversation([])
        reported: list[int] = []
        at_request: list[int] = []
        talk.arrived = lambda: at_request.append(len(reported))
        played = await stage.play(*turns, talk=talk, report=lambda step: reported.append(step.turn))
        played.ended("finished")
        expect(
            reported == list(range(1, len(played.said) + 1)), f"{len(played.said)} model calls, the steps {reported}"
        )
        expect(at_request == list(range(len(at_request))), f"steps reported before each request: {at_request}")
        for step, said in zip(played.steps, played.said, strict=True):
            expect(
                step.output[: len(said)] == said, f"step {step.turn} does not begin with the model's items as they are"
            )
            rest = step.output[len(said) :]
            expect(rest == results(rest), f"step {step.turn} has more than results after the model's items")
        told = [result for step in played.steps for result in results(step.output)]
        seen = results(played.requests[-1]["input"])
        if subject.runs_program:
            told, seen = ([{"id": one["call_id"], "text": text_of(one)} for one in some] for some in (told, seen))
        expect(told[: len(seen)] == seen, "the results of its steps are not those that the model got")


async def exit_counts_its_calls(subject: HarnessSubject) -> None:
    async with staged(subject) as stage:
        played = await stage.play(*await _four_turns(stage))
        left = played.ended("finished")
        expect(left.turns == len(played.said), f"it says {left.turns} turns of {len(played.said)} model calls")
        expect(left.malformed == {}, f"calls without a fault are counted as {left.malformed}")


async def last_words_are_told(subject: HarnessSubject) -> None:
    async with staged(subject) as stage:
        face = await stage.face()
        played = await stage.play([message_item(SAYS), face.shell("true")])
        left = played.ended("finished")
        expect(left.final is not None and left.final.strip() == LAST_WORDS, f"its last words are {left.final!r}")


async def runs_do_not_mix(subject: HarnessSubject) -> None:
    async with staged(subject) as stage:
        harness = subject.make()
        await stage.face()
        names = ("okapi", "tapir", "zorilla")
        played = await asyncio.gather(*(_marked(stage, harness, name) for name in names))
        for name, raw in zip(names, played, strict=True):
            for other in names:
                expect(
                    (other in raw) == (other == name),
                    f"the {name} run's model {'' if other == name else 'saw '}{other}",
                )


async def _marked(stage: Stage, harness: Harness, name: str) -> str:
    face = await stage.face()
    made, seen = f"sleep 0.1; echo {name}-run > mark.txt", "sleep 0.1; cat mark.txt"
    played = await stage.play([face.shell(made)], [face.shell("no-such-program")], [face.shell(seen)], harness=harness)
    left = played.ended("finished")
    expect(left.turns == 4, f"beside others a run of 4 turns says {left.turns}")
    expect(f"{name}-run" in played.texts[2], f"beside others the {name} run's file holds {played.texts[2]!r:.200}")
    return b"".join(played.raw).decode()


SUITE = [
    Behaviour("each request starts with the one before it", history_only_grows),
    Behaviour("the model's own items come back untouched, each with its results", the_models_items_come_back_untouched),
    Behaviour("each step is reported as it ends, from 1", steps_are_reported_as_they_end),
    Behaviour("the turns of its exit are its model calls", exit_counts_its_calls),
    Behaviour("its last words are told", last_words_are_told),
    Behaviour("runs of one instance at the same time do not mix", runs_do_not_mix),
]
