"""What a harness makes of the model's calls: each is answered once, in order; what is wrong with one is its answer."""

import time
from collections.abc import Callable
from typing import Any

import orjson

from paddock.conformance.behaviours import Behaviour, NotApplicable, expect
from paddock.conformance.harnesses.fixture import QUICK, HarnessRun, HarnessTarget, harness_fixture, results, text_of
from paddock.conformance.harnesses.scripted_model import ScriptedReply
from paddock.conformance.harnesses.tools import ShownTools
from paddock.harness import MalformedCall
from paddock.types import JsonObject
from paddock.types.responses import call_item, content_text, output_items

HUGE_BYTES = 3_000_000
MOST_SHOWN_CHARS = 400_000
"""Characters of one result; more is of no use to any model."""
REFUSED = "pip install requests"
SHELL_TIMEOUT = 5000
"""For a tool that takes one. OpenCode waits so many milliseconds, else two minutes, where a line has killed its shell
(github.com/anomalyco/opencode/issues/25664); who counts in seconds is told of that at once."""


async def commands_run_in_the_workspace(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        tools = await fixture.tools()
        sandbox = await fixture.sandbox()
        run = await fixture.run([tools.shell("pwd; printf 'a%sb\\n' x; echo here > made.txt")], sandbox=sandbox)
        run.expect_exit("finished")
        expect("axb" in run.texts[0], f"a command's output came back as {run.texts[0]!r:.300}")
        expect("/testbed" in run.texts[0], "a command does not start in the workdir")
        expect(await sandbox.out("cat /testbed/made.txt") == "here", "what a command made is not in the workspace")


async def failing_commands_are_text(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        tools = await fixture.tools()
        lines = ("sh -c 'echo odd >&2; exit 3'", "no-such-program-here", "kill -9 $$")
        run = await fixture.run(*([tools.shell(line, timeout=SHELL_TIMEOUT)] for line in lines))
        exit_ = run.expect_exit("finished")
        expect(len(run.results) == len(lines), f"{len(lines)} failing commands got {len(run.results)} results")
        expect("odd" in run.texts[0], f"what a failing command wrote came back as {run.texts[0]!r:.200}")
        expect(not exit_.malformed, f"failing commands are counted as {exit_.malformed}")


def _unknown(tools: ShownTools) -> JsonObject:
    return call_item("no_tool_of_this_name", '{"a": 1}')


def _no_json(tools: ShownTools) -> JsonObject:
    return call_item(str(tools.demanding()["name"]), '{"a": ')


def _nothing(tools: ShownTools) -> JsonObject:
    return call_item(str(tools.demanding()["name"]), "{}")


def _malformed(make: Callable[[ShownTools], JsonObject], kind: MalformedCall) -> Callable[[HarnessTarget], Any]:
    async def check(target: HarnessTarget) -> None:
        async with harness_fixture(target) as fixture:
            tools = await fixture.tools()
            wrong = make(tools)
            run = await fixture.run([wrong], [tools.shell("printf 'a%sb\\n' x")])
            exit_ = run.expect_exit("finished")
            texts = run.texts
            if _is_dropped(target, run):
                texts = [_last_message(run.requests[1]), *texts]
            else:
                _expect_answered_once(run, [wrong["call_id"]])
            expect(exit_.malformed == {kind: 1}, f"it is counted as {exit_.malformed}, not as {{{kind!r}: 1}}")
            expect(texts[0].strip(), "the model is told nothing about it")
            expect("Traceback" not in texts[0], "the model is told a traceback of ours")
            expect("axb" in texts[1], "the call after it did not run")

    return check


async def unknown_arguments_are_no_failure(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        tools = await fixture.tools()
        call = tools.shell("printf 'a%sb\\n' x")
        strange = {**orjson.loads(call["arguments"]), "no_argument_of_this_name": 1}
        run = await fixture.run([{**call, "arguments": orjson.dumps(strange).decode()}])
        exit_ = run.expect_exit("finished")
        allowed: tuple[JsonObject, ...] = ({}, {"bad_arguments": 1})
        expect(exit_.malformed in allowed, f"an argument that the tool does not have is counted as {exit_.malformed}")
        if not _is_dropped(target, run):
            _expect_answered_once(run, [call["call_id"]])
            expect("Traceback" not in run.texts[0], "the model is told a traceback of ours")


async def cut_calls_are_counted(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        tools = await fixture.tools()
        sandbox = await fixture.sandbox()
        whole = tools.shell("echo cut > /testbed/cut.txt")
        half = {**whole, "arguments": whole["arguments"][:-3], "status": "incomplete"}
        run = await fixture.run(ScriptedReply([half], cut=True), [tools.shell("true")], sandbox=sandbox)
        exit_ = run.expect_exit("output_limit", "finished")
        expect(exit_.malformed == {"cut": 1}, f"a call that was cut is counted as {exit_.malformed}")
        if exit_.ended == "finished" and not _is_dropped(target, run):
            _expect_answered_once(run, [half["call_id"]])
        expect(await sandbox.fails("test -e /testbed/cut.txt"), "half a call was run")


async def calls_are_answered_in_order(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        tools = await fixture.tools()
        lines = [f"sleep {wait}; printf 'n%so\\n' {number}" for number, wait in enumerate(("0.4", "0.2", "0"))]
        calls = [tools.shell(line) for line in lines]
        calls.insert(1, _unknown(tools))
        run = await fixture.run(calls)
        if _is_dropped(target, run):
            calls.pop(1)
            run = await fixture.run(calls)
        run.expect_exit("finished")
        ids = [call["call_id"] for call in calls]
        _expect_answered_once(run, ids, ordered=not target.runs_program)
        texts = {result["call_id"]: text_of(result) for result in run.results}
        for number, call in enumerate(call for call in calls if call["name"] in tools.names):
            expect(
                f"n{number}o" in texts[call["call_id"]], f"a call got another's result: {texts[call['call_id']]!r:.200}"
            )
        in_step = [result["call_id"] for result in results(run.steps[0].output)]
        expect(in_step == ids, f"the step has results of {in_step}, the calls were {ids}")


async def refusals_are_told(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        tools = await fixture.tools()
        run = await fixture.run([tools.shell(REFUSED)], [tools.shell("printf 'a%sb\\n' x")])
        exit_ = run.expect_exit("finished")
        counts = run.workspace.counts
        if target.runs_commands_itself:
            expect(sum(counts.unrefused.values()) == 1, f"`{REFUSED}`, which nobody could refuse, is not counted")
            return
        expect(sum(counts.refused.values()) == 1, f"`{REFUSED}` was refused {sum(counts.refused.values())} times")
        expect("Not run" in run.texts[0], f"of a refusal the model is told {run.texts[0]!r:.300}")
        expect(not exit_.malformed, f"a refused command is counted as {exit_.malformed}")
        expect("axb" in run.texts[1], "the command after it did not run")


async def any_bytes_become_text(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        tools = await fixture.tools()
        line = r"printf 'a\377\376\300b\000\033[31mc\n'; printf '\355\240\200end\n'"
        run = await fixture.run([tools.shell(line)])
        run.expect_exit("finished")
        expect("end" in run.texts[0], f"odd bytes came back as {run.texts[0]!r:.300}")
        expect("b" in run.texts[0] and "c" in run.texts[0], "what stood beside odd bytes is lost")


async def huge_output_is_bounded(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        tools = await fixture.tools()
        line = f"head -c {HUGE_BYTES} /dev/zero | tr '\\0' x"
        run = await fixture.run([tools.shell(line)], [tools.shell("printf 'a%sb\\n' y")])
        run.expect_exit("finished")
        shown = len(run.texts[0])
        expect(0 < shown <= MOST_SHOWN_CHARS, f"{HUGE_BYTES} bytes of output came back as {shown} characters")
        expect("ayb" in run.texts[1], "the command after it came to nothing")


async def a_command_has_its_time(target: HarnessTarget) -> None:
    if target.runs_commands_itself:
        raise NotApplicable("a program's own commands have the limits that it gives them")
    async with harness_fixture(target) as fixture:
        tools = await fixture.tools()
        sandbox = await fixture.sandbox()
        limits = QUICK.model_copy(update={"tool_s": 0.5})
        started = time.monotonic()
        turns = [tools.shell(f"echo begun; sleep {sandbox.mark}")], [tools.shell("printf 'a%sb\\n' x")]
        run = await fixture.run(*turns, sandbox=sandbox, limits=limits)
        run.expect_exit("finished")
        expect(time.monotonic() - started < 15, "a command with 0.5 s took more than 15")
        expect(run.texts[0].strip(), "the model is told nothing of a command that was stopped")
        expect("axb" in run.texts[1], f"the command after it came to {run.texts[1]!r:.200}")
        await sandbox.expect_gone("a command whose time was over")


async def empty_answers_are_no_crash(target: HarnessTarget) -> None:
    limits = QUICK.model_copy(update={"max_turns": 4})
    async with harness_fixture(target) as fixture:
        tools = await fixture.tools()
        silent = {"type": "message", "role": "assistant", "content": []}
        odd: list[JsonObject] = [{"type": "something_new", "id": "x1"}, silent]
        nameless: list[JsonObject] = [{**tools.shell("true"), "name": ""}]
        # Clients of an API may count on what it promises: that a call has a name.
        for turn in ([], odd) if target.runs_program else ([], odd, nameless):
            run = await fixture.run(turn, limits=limits)
            run.expect_exit("finished", "turn_limit")
            expect(len(run.bodies) <= 4, "an answer that says nothing made it ask more often than it may")


def _is_dropped(target: HarnessTarget, run: HarnessRun) -> bool:
    """Whether the program left an answer that it can't use out of its history, and said so in a message."""
    return target.runs_program and len(run.bodies) > 1 and not results(run.requests[1]["input"])


def _last_message(request: JsonObject) -> str:
    last = output_items(request["input"])[-1]
    return content_text(last.get("content")) if last.get("role") == "user" else ""


def _expect_answered_once(run: HarnessRun, ids: list[Any], *, ordered: bool = True) -> None:
    """Fail unless the request after the calls has one result for each. `ordered`: in the order of the calls; a program
    may report what is wrong with one before it runs another."""
    if len(run.bodies) < 2:
        raise NotApplicable("its run ends there")
    call_ids = [result.get("call_id") for result in results(run.requests[1]["input"])]
    answered = call_ids if ordered else sorted(call_ids, key=lambda call: ids.index(call) if call in ids else -1)
    expect(answered == ids, f"the calls {ids} were answered with results for {call_ids}")
    for result in results(run.requests[1]["input"]):
        text_of(result)
    orjson.dumps(run.results)


SUITE = [
    Behaviour("a command runs in the workspace, and its output comes back", commands_run_in_the_workspace),
    Behaviour("a command that fails is a text for the model", failing_commands_are_text),
    Behaviour("a call of an unknown tool is answered and counted", _malformed(_unknown, "unknown_tool")),
    Behaviour("arguments that are no JSON are answered and counted", _malformed(_no_json, "bad_json")),
    Behaviour("a missing argument is answered and counted", _malformed(_nothing, "bad_arguments")),
    Behaviour("an argument that the tool does not have is no failure", unknown_arguments_are_no_failure),
    Behaviour("a call that was cut off is counted and does not run", cut_calls_are_counted),
    Behaviour("calls of one turn are answered once each, in their order", calls_are_answered_in_order),
    Behaviour("a refused command is told to the model", refusals_are_told),
    Behaviour("any bytes that a command writes become text", any_bytes_become_text),
    Behaviour("output without end is cut", huge_output_is_bounded),
    Behaviour("a command has a time limit of its own, and the run goes on", a_command_has_its_time),
    Behaviour("an answer that says nothing, or something new, is no crash", empty_answers_are_no_crash),
]
