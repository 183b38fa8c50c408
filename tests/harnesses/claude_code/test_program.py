"""Claims about the real Claude Code in a sandbox: it plays known fixes, and whatever happens to it or its model has an
end that says so. Each run asks for what the task needs, and for nothing else."""

from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest

from paddock.conformance.harnesses.played import Conversation, Reply
from paddock.conformance.harnesses.stage import FIX, FIXED, Played, Stage
from paddock.errors import InfraError, RequestError
from paddock.harness import RunLimits
from paddock.server.dialects import CONTEXT_KIND
from paddock.testing.sandboxes import WORKDIR
from paddock.types import JsonObject
from paddock.types.responses import call_item, message_item

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]
OpenStage = Callable[..., Awaitable[Stage]]
PATIENT = RunLimits(max_turns=30, time_s=300.0)
"""Only what hangs meets them."""


class RateLimitedError(InfraError):
    status = 429


def bash(line: str, **more: Any) -> JsonObject:
    return call_item("Bash", orjson.dumps({"command": line, **more}).decode())


async def play(stage: Stage, *turns: Any, limits: RunLimits = PATIENT, **more: Any) -> Played:
    """A message comes after the last turn."""
    return await stage.play(*turns, limits=limits, closing=None, **more)


def asked_for_nothing_else(played: Played) -> bool:
    tunnel = played.tunnel
    return tunnel is not None and tunnel.turned == 0 and tunnel.calls == len(played.raw) == played.exit.turns


async def test_a_known_fix_is_made_with_its_own_tools(open_stage: OpenStage) -> None:
    stage = await open_stage()
    harness: Any = stage.subject.make()
    turns = harness.oracle(FIX)
    played = await play(stage, *turns)
    assert (played.exit.ended, played.exit.malformed) == ("finished", {})
    assert {path: (await played.workspace.read(f"{WORKDIR}/{path}")).decode() for path in FIXED} == FIXED
    assert len(played.steps) == played.exit.turns
    assert asked_for_nothing_else(played)


async def test_each_call_of_an_answer_has_a_result_and_what_was_wrong_is_counted(open_stage: OpenStage) -> None:
    calls = [bash("echo left"), bash("echo right"), call_item("Nosuch", "{}"), call_item("Bash", '{"command": "x')]
    played = await play(await open_stage(), calls)
    assert played.exit.ended == "finished"
    assert played.exit.malformed == {"unknown_tool": 1, "bad_json": 1}
    answered = played.steps[0].output[len(calls) :]
    assert [item["call_id"] for item in answered] == [item["call_id"] for item in played.steps[0].output[: len(calls)]]
    assert [item["output"].strip() for item in answered[:2]] == ["left", "right"]
    assert played.workspace.counts.commands == 2
    assert asked_for_nothing_else(played)


async def test_it_searches_with_what_it_brings(open_stage: OpenStage) -> None:
    calls = [call_item("Grep", '{"pattern": "a - b"}'), call_item("Glob", '{"pattern": "**/*.txt"}')]
    played = await play(await open_stage(), calls)
    found, listed = (item["output"] for item in played.steps[0].output[2:])
    assert "calc.py" in found
    assert "docs/notes.txt" in listed


async def test_a_turn_limit_ends_it(open_stage: OpenStage) -> None:
    played = await play(await open_stage(), *[[bash("true")]] * 5, limits=PATIENT.model_copy(update={"max_turns": 2}))
    assert (played.exit.ended, played.exit.turns, len(played.raw)) == ("turn_limit", 2, 2)


async def test_its_time_ends_it(open_stage: OpenStage) -> None:
    played = await play(await open_stage(), Reply(delay_s=600.0), limits=RunLimits(time_s=15.0))
    assert played.exit.ended == "time_limit"


async def test_a_history_that_is_too_long_ends_it(open_stage: OpenStage) -> None:
    long = Reply(error=RequestError("longer than the model takes", kind=CONTEXT_KIND))
    played = await play(await open_stage(), [bash("true")], long)
    assert (played.exit.ended, played.exit.turns) == ("context_limit", 1)


async def test_errors_of_the_model_are_asked_again_and_leave_no_trace(open_stage: OpenStage) -> None:
    failed, limited = (Reply(error=error("not now", kind="upstream_busy")) for error in (InfraError, RateLimitedError))
    played = await play(await open_stage(), [bash("true")], failed, limited, [bash("true")])
    assert (played.exit.ended, played.exit.turns) == ("finished", 3)
    assert played.raw[1] == played.raw[2] == played.raw[3]


async def test_an_answer_that_met_its_limit_is_gone_on_with(open_stage: OpenStage) -> None:
    played = await play(await open_stage(), Reply([message_item("I am")], cut=True))
    assert (played.exit.ended, played.exit.turns, played.exit.final) == ("finished", 2, "Done.")


async def test_a_program_that_is_killed_has_failed(open_stage: OpenStage) -> None:
    stage = await open_stage()
    room = await stage.room()
    kill = "for one in /proc/[0-9]*; do case $(cat $one/comm) in claude*) kill -9 ${one#/proc/};; esac; done"

    async def killed() -> None:
        await room.sh(f"{kill} 2>/dev/null; true")

    played = await play(stage, [bash("true")], Reply([bash("true")], before=killed), room=room)
    assert isinstance(played.error, InfraError)
    assert played.error.kind == "program_failed"
    assert played.steps


async def test_its_first_prompt_is_the_same_wherever_the_clock_stands(open_stage: OpenStage) -> None:
    first = []
    for zone in ("Etc/GMT+12", "Etc/GMT-14"):
        played = await play(await open_stage(env={"TZ": zone}))
        first.append(played.raw[0])
    assert first[0] == first[1]
    assert b"2026-01-01" in first[0]


async def test_history_is_summed_up_where_it_is_told_to(open_stage: OpenStage) -> None:
    filled = Reply([bash("true")], output_tokens=5000)
    summary = [message_item("<summary>Much was done.</summary>")]
    played = await play(await open_stage(compact_at_tokens=1000), [bash("true")], filled, summary)
    assert (played.exit.ended, played.exit.turns, played.exit.final) == ("finished", 4, "Done.")
    assert b"Much was done." in played.raw[3]
    assert asked_for_nothing_else(played)


async def test_work_that_is_given_to_another_agent_is_part_of_the_run(open_stage: OpenStage) -> None:
    given = call_item("Agent", '{"description": "d", "prompt": "Look about.", "subagent_type": "general-purpose"}')
    talk = Conversation([])
    played = await play(await open_stage(subagents=True), [given], [bash("true")], talk=talk)
    assert (played.exit.ended, played.exit.turns) == ("finished", 4)
    assert b"Look about." in played.raw[1]
    assert asked_for_nothing_else(played)
