"""Claims about the real OpenCode in a sandbox: it plays known fixes, and whatever happens to it or its model has an end
that says so. Each run asks for what the task needs, and for nothing else."""

from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest

from paddock.conformance.harnesses.fixture import FIX, FIXED, HarnessFixture, HarnessRun
from paddock.conformance.harnesses.scripted_model import ScriptedConversation, ScriptedReply
from paddock.errors import InfraError, RequestError
from paddock.harness import RunLimits
from paddock.harnesses.opencode_cli.program_config import Dialect
from paddock.server.dialects import CONTEXT_KIND
from paddock.testing.sandboxes import WORKDIR
from paddock.types import JsonObject
from paddock.types.responses import call_item, message_item

pytestmark = [pytest.mark.long, pytest.mark.sandbox]
OpenFixture = Callable[..., Awaitable[HarnessFixture]]
PATIENT = RunLimits(max_turns=30, time_s=300.0)
"""Only what hangs meets them."""
DIALECTS: list[Dialect] = ["chat", "responses", "messages"]


class OpenCodeRateLimitError(InfraError):
    status = 429


def bash(line: str, **more: Any) -> JsonObject:
    return call_item("bash", orjson.dumps({"command": line, **more}).decode())


async def play(fixture: HarnessFixture, *turns: Any, limits: RunLimits = PATIENT, **more: Any) -> HarnessRun:
    """A message comes after the last turn."""
    return await fixture.run(*turns, limits=limits, closing=None, **more)


def asked_for_nothing_else(run: HarnessRun) -> bool:
    tunnel = run.tunnel
    return tunnel is not None and tunnel.refusals == 0 and tunnel.calls == len(run.bodies) == run.exit.turns


@pytest.mark.parametrize(
    "block", [*({"dialect": one} for one in DIALECTS), {"dialect": "responses", "toolset": "apply_patch"}], ids=str
)
async def test_a_known_fix_is_made_with_its_own_tools(block: Any, open_fixture: OpenFixture) -> None:
    fixture = await open_fixture(**block)
    harness: Any = fixture.target.make()
    turns = harness.oracle(FIX)
    run = await play(fixture, *turns)
    assert (run.exit.ended, run.exit.malformed) == ("finished", {})
    assert {path: (await run.workspace.read(f"{WORKDIR}/{path}")).decode() for path in FIXED} == FIXED
    assert len(run.steps) == run.exit.turns
    assert asked_for_nothing_else(run)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_each_call_of_an_answer_has_a_result_and_what_was_wrong_is_counted(
    dialect: Dialect, open_fixture: OpenFixture
) -> None:
    calls = [bash("echo left"), bash("echo right"), call_item("nosuch", "{}"), call_item("bash", '{"command": "x')]
    run = await play(await open_fixture(dialect=dialect), calls)
    assert run.exit.ended == "finished"
    assert run.exit.malformed == {"unknown_tool": 1, "bad_json": 1}
    answered = run.steps[0].output[len(calls) :]
    assert [item["call_id"] for item in answered] == [item["call_id"] for item in run.steps[0].output[: len(calls)]]
    assert [item["output"].strip() for item in answered[:2]] == ["left", "right"]
    assert run.workspace.counts.commands == 2
    assert asked_for_nothing_else(run)


async def test_it_searches_with_the_ripgrep_that_comes_with_it(open_fixture: OpenFixture) -> None:
    calls = [call_item("grep", '{"pattern": "a - b"}'), call_item("glob", '{"pattern": "**/*.txt"}')]
    run = await play(await open_fixture(), calls)
    found, listed = (item["output"] for item in run.steps[0].output[2:])
    assert "calc.py" in found
    assert "docs/notes.txt" in listed


async def test_a_turn_limit_ends_it(open_fixture: OpenFixture) -> None:
    run = await play(await open_fixture(), *[[bash("true")]] * 5, limits=PATIENT.model_copy(update={"max_turns": 2}))
    assert (run.exit.ended, run.exit.turns, len(run.bodies)) == ("turn_limit", 2, 2)


async def test_its_time_ends_it(open_fixture: OpenFixture) -> None:
    run = await play(await open_fixture(), ScriptedReply(delay_s=600.0), limits=RunLimits(time_s=15.0))
    assert run.exit.ended == "time_limit"


async def test_a_history_that_is_too_long_ends_it(open_fixture: OpenFixture) -> None:
    long = ScriptedReply(error=RequestError("longer than the model takes", kind=CONTEXT_KIND))
    run = await play(await open_fixture(), [bash("true")], long)
    assert (run.exit.ended, run.exit.turns) == ("context_limit", 1)


async def test_errors_of_the_model_are_asked_again_and_leave_no_trace(open_fixture: OpenFixture) -> None:
    failed, limited = (
        ScriptedReply(error=error("not now", kind="upstream_busy")) for error in (InfraError, OpenCodeRateLimitError)
    )
    run = await play(await open_fixture(), [bash("true")], failed, limited, [bash("true")])
    assert (run.exit.ended, run.exit.turns) == ("finished", 3)
    assert run.bodies[1] == run.bodies[2] == run.bodies[3]


async def test_an_answer_that_was_cut_is_an_answer(open_fixture: OpenFixture) -> None:
    run = await play(await open_fixture(), ScriptedReply([message_item("I am")], cut=True))
    assert run.exit.final == "I am"
    assert run.exit.ended in ("finished", "output_limit")


async def test_a_program_that_is_killed_has_failed(open_fixture: OpenFixture) -> None:
    fixture = await open_fixture()
    sandbox = await fixture.sandbox()
    kill = "for one in /proc/[0-9]*; do case $(cat $one/comm) in opencode*) kill -9 ${one#/proc/};; esac; done"

    async def killed() -> None:
        await sandbox.sh(f"{kill} 2>/dev/null; true")

    run = await play(fixture, [bash("true")], ScriptedReply([bash("true")], before=killed), sandbox=sandbox)
    assert isinstance(run.error, InfraError)
    assert run.error.kind == "program_failed"
    assert run.steps


async def test_its_first_prompt_is_the_same_wherever_the_clock_stands(open_fixture: OpenFixture) -> None:
    first = []
    for zone in ("Etc/GMT+12", "Etc/GMT-14"):
        run = await play(await open_fixture(env={"TZ": zone}))
        first.append(run.bodies[0])
    assert first[0] == first[1]
    assert b"Thu Jan 01 2026" in first[0]


async def test_history_is_summed_up_where_it_is_told_to(open_fixture: OpenFixture) -> None:
    filled = ScriptedReply([bash("true")], output_tokens=5000)
    run = await play(await open_fixture(compact_at_tokens=1000), filled, [message_item("Much was done.")])
    assert (run.exit.ended, run.exit.turns) == ("finished", 3)
    assert [bool(request.get("tools")) for request in run.requests] == [True, False, True]
    assert b"Much was done." in run.bodies[2]


async def test_work_that_is_given_to_another_agent_is_part_of_the_run(open_fixture: OpenFixture) -> None:
    given = call_item("task", '{"description": "d", "prompt": "Look about.", "subagent_type": "general"}')
    conversation = ScriptedConversation([])
    run = await play(await open_fixture(subagents=True), [given], [bash("true")], conversation=conversation)
    assert (run.exit.ended, run.exit.turns) == ("finished", 4)
    assert b"Look about." in run.bodies[1]
    assert asked_for_nothing_else(run)
