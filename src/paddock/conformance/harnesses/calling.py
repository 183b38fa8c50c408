"""What a harness makes of the model's calls: each is answered once, in order; what is wrong with one is its answer."""

import time
from collections.abc import Callable
from typing import Any

import orjson

from paddock.conformance.behaviours import Behaviour, NotApplicable, expect
from paddock.conformance.harnesses.face import Face
from paddock.conformance.harnesses.played import Reply
from paddock.conformance.harnesses.stage import QUICK, HarnessSubject, Played, results, staged, text_of
from paddock.harness import MalformedCall
from paddock.types import JsonObject
from paddock.types.responses import call_item, content_text, output_items

HUGE_BYTES = 3_000_000
MOST_SHOWN_CHARS = 400_000
"""Of one result: what is beyond it is no use to any model."""
REFUSED = "pip install requests"
SHELL_TIMEOUT = 5000
"""For a tool that takes one. OpenCode waits so many milliseconds, else two minutes, where a line has killed its shell
(github.com/anomalyco/opencode/issues/25664); who counts in seconds is told of that at once."""


async def commands_run_in_the_workspace(subject: HarnessSubject) -> None:
    async with staged(subject) as stage:
        face = await stage.face()
        room = await stage.room()
        played = await stage.play([face.shell("pwd; printf 'a%sb\\n' x; echo here > made.txt")], room=room)
        played.ended("finished")
        expect("axb" in played.texts[0], f"a command's output came back as {played.texts[0]!r:.300}")
        expect("/testbed" in played.texts[0], "a command does not start in the workdir")
        expect(await room.out("cat /testbed/made.txt") == "here", "what a command made is not in the workspace")


async def failing_commands_are_text(subject: HarnessSubject) -> None:
    async with staged(subject) as stage:
        face = await stage.face()
        lines = ("sh -c 'echo odd >&2; exit 3'", "no-such-program-here", "kill -9 $$")
        played = await stage.play(*([face.shell(line, timeout=SHELL_TIMEOUT)] for line in lines))
        left = played.ended("finished")
        expect(len(played.results) == len(lines), f"{len(lines)} failing commands got {len(played.results)} results")
        expect("odd" in played.texts[0], f"what a failing command wrote came back as {played.texts[0]!r:.200}")
        expect(not left.malformed, f"failing commands are counted as {left.malformed}")


def _unknown(face: Face) -> JsonObject:
    return call_item("no_tool_of_this_name", '{"a": 1}')


def _no_json(face: Face) -> JsonObject:
    return call_item(str(face.demanding()["name"]), '{"a": ')


def _nothing(face: Face) -> JsonObject:
    return call_item(str(face.demanding()["name"]), "{}")


def _malformed(make: Callable[[Face], JsonObject], kind: MalformedCall) -> Callable[[HarnessSubject], Any]:
    async def check(subject: HarnessSubject) -> None:
        async with staged(subject) as stage:
            face = await stage.face()
            wrong = make(face)
            played = await stage.play([wrong], [face.shell("printf 'a%sb\\n' x")])
            left = played.ended("finished")
            texts = played.texts
            if _is_dropped(subject, played):
                texts = [_last_message(played.requests[1]), *texts]
            else:
                _answered_once(played, [wrong["call_id"]])
            expect(left.malformed == {kind: 1}, f"it is counted as {left.malformed}, not as {{{kind!r}: 1}}")
            expect(texts[0].strip(), "the model is told nothing about it")
            expect("Traceback" not in texts[0], "the model is told a traceback of ours")
            expect("axb" in texts[1], "the call after it did not run")

    return check


async def cut_calls_are_counted(subject: HarnessSubject) -> None:
    async with staged(subject) as stage:
        face = await stage.face()
        room = await stage.room()
        whole = face.shell("echo cut > /testbed/cut.txt")
        half = {**whole, "arguments": whole["arguments"][:-3], "status": "incomplete"}
        played = await stage.play(Reply([half], cut=True), [face.shell("true")], room=room)
        left = played.ended("output_limit", "finished")
        expect(left.malformed == {"cut": 1}, f"a call that was cut is counted as {left.malformed}")
        if left.ended == "finished" and not _is_dropped(subject, played):
            _answered_once(played, [half["call_id"]])
        expect(await room.fails("test -e /testbed/cut.txt"), "half a call was run")


async def calls_are_answered_in_order(subject: HarnessSubject) -> None:
    async with staged(subject) as stage:
        face = await stage.face()
        lines = [f"sleep {wait}; printf 'n%so\\n' {number}" for number, wait in enumerate(("0.4", "0.2", "0"))]
        calls = [face.shell(line) for line in lines]
        calls.insert(1, _unknown(face))
        played = await stage.play(calls)
        if _is_dropped(subject, played):
            calls.pop(1)
            played = await stage.play(calls)
        played.ended("finished")
        ids = [call["call_id"] for call in calls]
        _answered_once(played, ids, ordered=not subject.runs_program)
        texts = {result["call_id"]: text_of(result) for result in played.results}
        for number, call in enumerate(call for call in calls if call["name"] in face.names):
            expect(
                f"n{number}o" in texts[call["call_id"]], f"a call got another's result: {texts[call['call_id']]!r:.200}"
            )
        told = [result["call_id"] for result in results(played.steps[0].output)]
        expect(told == ids, f"the step has results of {told}, the calls were {ids}")


async def refusals_are_told(subject: HarnessSubject) -> None:
    async with staged(subject) as stage:
        face = await stage.face()
        played = await stage.play([face.shell(REFUSED)], [face.shell("printf 'a%sb\\n' x")])
        left = played.ended("finished")
        counts = played.workspace.counts
        if subject.runs_commands_itself:
            expect(sum(counts.unrefused.values()) == 1, f"`{REFUSED}`, which nobody could refuse, is not counted")
            return
        expect(sum(counts.refused.values()) == 1, f"`{REFUSED}` was refused {sum(counts.refused.values())} times")
        expect("Not run" in played.texts[0], f"of a refusal the model is told {played.texts[0]!r:.300}")
        expect(not left.malformed, f"a refused command is counted as {left.malformed}")
        expect("axb" in played.texts[1], "the command after it did not run")


async def any_bytes_become_text(subject: HarnessSubject) -> None:
    async with staged(subject) as stage:
        face = await stage.face()
        line = r"printf 'a\377\376\300b\000\033[31mc\n'; printf '\355\240\200end\n'"
        played = await stage.play([face.shell(line)])
        played.ended("finished")
        expect("end" in played.texts[0], f"odd bytes came back as {played.texts[0]!r:.300}")
        expect("b" in played.texts[0] and "c" in played.texts[0], "what stood beside odd bytes is lost")


async def huge_output_is_bounded(subject: HarnessSubject) -> None:
    async with staged(subject) as stage:
        face = await stage.face()
        line = f"head -c {HUGE_BYTES} /dev/zero | tr '\\0' x"
        played = await stage.play([face.shell(line)], [face.shell("printf 'a%sb\\n' y")])
        played.ended("finished")
        shown = len(played.texts[0])
        expect(0 < shown <= MOST_SHOWN_CHARS, f"{HUGE_BYTES} bytes of output came back as {shown} characters")
        expect("ayb" in played.texts[1], "the command after it came to nothing")


async def a_command_has_its_time(subject: HarnessSubject) -> None:
    if subject.runs_commands_itself:
        raise NotApplicable("a program's own commands have the limits that it gives them")
    async with staged(subject) as stage:
        face = await stage.face()
        room = await stage.room()
        limits = QUICK.model_copy(update={"tool_s": 0.5})
        started = time.monotonic()
        turns = [face.shell(f"echo begun; sleep {room.mark}")], [face.shell("printf 'a%sb\\n' x")]
        played = await stage.play(*turns, room=room, limits=limits)
        played.ended("finished")
        expect(time.monotonic() - started < 15, "a command with 0.5 s took more than 15")
        expect(played.texts[0].strip(), "the model is told nothing of a command that was stopped")
        expect("axb" in played.texts[1], f"the command after it came to {played.texts[1]!r:.200}")
        await room.gone("a command whose time was over")


async def empty_answers_are_no_crash(subject: HarnessSubject) -> None:
    limits = QUICK.model_copy(update={"max_turns": 4})
    async with staged(subject) as stage:
        face = await stage.face()
        silent = {"type": "message", "role": "assistant", "content": []}
        odd: list[JsonObject] = [{"type": "something_new", "id": "x1"}, silent]
        nameless: list[JsonObject] = [{**face.shell("true"), "name": ""}]
        # Clients of an API may count on what it promises: that a call has a name.
        for turn in ([], odd) if subject.runs_program else ([], odd, nameless):
            played = await stage.play(turn, limits=limits)
            played.ended("finished", "turn_limit")
            expect(len(played.raw) <= 4, "an answer that says nothing made it ask more often than it may")


def _is_dropped(subject: HarnessSubject, played: Played) -> bool:
    """A program may leave an answer that it can't use out of its history, and say so in a message."""
    return subject.runs_program and len(played.raw) > 1 and not results(played.requests[1]["input"])


def _last_message(request: JsonObject) -> str:
    last = output_items(request["input"])[-1]
    return content_text(last.get("content")) if last.get("role") == "user" else ""


def _answered_once(played: Played, ids: list[Any], *, ordered: bool = True) -> None:
    """In the request after the calls. A program may tell what is wrong with one before it runs another."""
    if len(played.raw) < 2:
        raise NotApplicable("its run ends there")
    found = [result.get("call_id") for result in results(played.requests[1]["input"])]
    told = found if ordered else sorted(found, key=lambda one: ids.index(one) if one in ids else -1)
    expect(told == ids, f"the calls {ids} were answered with results for {found}")
    for result in results(played.requests[1]["input"]):
        text_of(result)
    orjson.dumps(played.results)


SUITE = [
    Behaviour("a command runs in the workspace, and its output comes back", commands_run_in_the_workspace),
    Behaviour("a command that fails is a text for the model", failing_commands_are_text),
    Behaviour("a call of an unknown tool is answered and counted", _malformed(_unknown, "unknown_tool")),
    Behaviour("arguments that are no JSON are answered and counted", _malformed(_no_json, "bad_json")),
    Behaviour("a missing argument is answered and counted", _malformed(_nothing, "bad_arguments")),
    Behaviour("a call that was cut off is counted and does not run", cut_calls_are_counted),
    Behaviour("calls of one turn are answered once each, in their order", calls_are_answered_in_order),
    Behaviour("a refused command is told to the model", refusals_are_told),
    Behaviour("any bytes that a command writes become text", any_bytes_become_text),
    Behaviour("output without end is cut", huge_output_is_bounded),
    Behaviour("a command has a time limit of its own, and the run goes on", a_command_has_its_time),
    Behaviour("an answer that says nothing, or something new, is no crash", empty_answers_are_no_crash),
]
