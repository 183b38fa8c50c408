"""What a harness reports: to the model its own history, to its caller each step as it ends, and how the run ended."""

import asyncio

from paddock.conformance.behaviours import Behaviour, expect
from paddock.conformance.harnesses.fixture import (
    HarnessFixture,
    HarnessTarget,
    calls_in,
    harness_fixture,
    require_native,
    results,
    text_of,
)
from paddock.conformance.harnesses.scripted_model import LAST_WORDS, ScriptedConversation
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


async def _four_turns(fixture: HarnessFixture, **more: object) -> list[list[JsonObject]]:
    tools = await fixture.tools()
    first = {**tools.shell("echo one"), "phase": "commentary"}
    return [
        [ODD, message_item(SAYS), first],
        [tools.shell("echo two"), tools.shell("echo three")],
        [tools.shell("false")],
    ]


async def history_only_grows(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        run = await fixture.run(*await _four_turns(fixture))
        run.expect_exit("finished")
        for number, (before, after) in enumerate(zip(run.requests, run.requests[1:], strict=False), 1):
            shown, grown = output_items(before["input"]), output_items(after["input"])
            expect(grown[: len(shown)] == shown, f"request {number + 1} does not start with request {number}'s input")
            if target.runs_program:
                continue
            rest = {key: value for key, value in before.items() if key != "input"}
            expect(
                rest == {key: value for key, value in after.items() if key != "input"}, "requests differ beside input"
            )


async def the_models_items_come_back_untouched(target: HarnessTarget) -> None:
    require_native(target, "a program tells its history in its own way, which the record knows")
    async with harness_fixture(target) as fixture:
        run = await fixture.run(*await _four_turns(fixture))
        run.expect_exit("finished")
        for number in range(len(run.bodies) - 1):
            start = len(output_items(run.requests[number]["input"]))
            answer = run.answers[number]
            back = output_items(run.requests[number + 1]["input"])[start:]
            expect(back[: len(answer)] == answer, f"turn {number + 1} came back as {back[: len(answer)]!r:.300}")
            ids = [call["call_id"] for call in calls_in(answer)]
            answered = [item.get("call_id") for item in back[len(answer) :] if item_type(item).endswith("_call_output")]
            expect(answered == ids, f"turn {number + 1} is followed by results for {answered}, not for {ids}")


async def steps_are_reported_as_they_end(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        turns = await _four_turns(fixture)
        conversation = ScriptedConversation([])
        reported: list[int] = []
        at_request: list[int] = []
        conversation.on_request = lambda: at_request.append(len(reported))
        run = await fixture.run(*turns, conversation=conversation, report=lambda step: reported.append(step.turn))
        run.expect_exit("finished")
        expect(
            reported == list(range(1, len(run.answers) + 1)), f"{len(run.answers)} model calls, the steps {reported}"
        )
        expect(at_request == list(range(len(at_request))), f"steps reported before each request: {at_request}")
        for step, answer in zip(run.steps, run.answers, strict=True):
            expect(
                step.output[: len(answer)] == answer,
                f"step {step.turn} does not begin with the model's items as they are",
            )
            rest = step.output[len(answer) :]
            expect(rest == results(rest), f"step {step.turn} has more than results after the model's items")
        in_steps = [result for step in run.steps for result in results(step.output)]
        seen = results(run.requests[-1]["input"])
        if target.runs_program:
            in_steps, seen = (
                [{"id": it["call_id"], "text": text_of(it)} for it in items] for items in (in_steps, seen)
            )
        expect(in_steps[: len(seen)] == seen, "the results of its steps are not those that the model got")


async def exit_counts_its_calls(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        run = await fixture.run(*await _four_turns(fixture))
        exit_ = run.expect_exit("finished")
        expect(exit_.turns == len(run.answers), f"it says {exit_.turns} turns of {len(run.answers)} model calls")
        expect(exit_.malformed == {}, f"calls without a fault are counted as {exit_.malformed}")


async def last_words_are_told(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        tools = await fixture.tools()
        run = await fixture.run([message_item(SAYS), tools.shell("true")])
        exit_ = run.expect_exit("finished")
        expect(exit_.final is not None and exit_.final.strip() == LAST_WORDS, f"its last words are {exit_.final!r}")


async def runs_do_not_mix(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        harness = target.make()
        await fixture.tools()
        names = ("okapi", "tapir", "zorilla")
        run = await asyncio.gather(*(_marked(fixture, harness, name) for name in names))
        for name, raw in zip(names, run, strict=True):
            for other in names:
                expect(
                    (other in raw) == (other == name),
                    f"the {name} run's model {'' if other == name else 'saw '}{other}",
                )


async def _marked(fixture: HarnessFixture, harness: Harness, name: str) -> str:
    tools = await fixture.tools()
    made, seen = f"sleep 0.1; echo {name}-run > mark.txt", "sleep 0.1; cat mark.txt"
    run = await fixture.run([tools.shell(made)], [tools.shell("no-such-program")], [tools.shell(seen)], harness=harness)
    exit_ = run.expect_exit("finished")
    expect(exit_.turns == 4, f"beside others a run of 4 turns says {exit_.turns}")
    expect(f"{name}-run" in run.texts[2], f"beside others the {name} run's file holds {run.texts[2]!r:.200}")
    return b"".join(run.bodies).decode()


SUITE = [
    Behaviour("each request starts with the one before it", history_only_grows),
    Behaviour("the model's own items come back untouched, each with its results", the_models_items_come_back_untouched),
    Behaviour("each step is reported as it ends, from 1", steps_are_reported_as_they_end),
    Behaviour("the turns of its exit are its model calls", exit_counts_its_calls),
    Behaviour("its last words are told", last_words_are_told),
    Behaviour("runs of one instance at the same time do not mix", runs_do_not_mix),
]
