"""How a run ends: by a limit, with its work kept; cancelled, with nothing left; failed, which no model sees."""

import asyncio
import time
from functools import partial
from typing import Any

from paddock.conformance.behaviours import Behaviour, expect
from paddock.conformance.harnesses.fixture import QUICK, HarnessRun, HarnessTarget, harness_fixture
from paddock.conformance.harnesses.scripted_model import ScriptedConversation, ScriptedReply
from paddock.conformance.sandboxes.fixture import GONE_WITHIN_S, eventually
from paddock.errors import InfraError, RequestError
from paddock.harness import RunLimits
from paddock.sandbox import SandboxError

PROMPT_S = 8.0
"""Seconds within which a run that is stopped has to be over."""
STILL_S = 1.0
"""Seconds in which a program that is over does nothing."""
CONTEXT = RequestError("scripted: this is too long", kind="context_length_exceeded")
BROKEN = "scripted-upstream-broke"
PATIENT = QUICK.model_copy(update={"time_s": 150.0})
"""Programs ask a model that fails again and again, with waits that grow: OpenCode 1.18.33 for 65 s."""


async def turns_end_it(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        tools = await fixture.tools()
        sandbox = await fixture.sandbox()
        turns = [[tools.shell(f"echo {number} >> done.txt")] for number in range(1, 6)]
        run = await fixture.run(*turns, sandbox=sandbox, limits=QUICK.model_copy(update={"max_turns": 3}))
        exit_ = run.expect_exit("turn_limit")
        expect(
            (exit_.turns, len(run.bodies)) == (3, 3),
            f"with 3 turns it made {len(run.bodies)} calls ({exit_.turns})",
        )
        expect(len(run.steps) == 3, f"{len(run.steps)} steps of 3 turns are reported")
        expect(
            await sandbox.out("cat done.txt", workdir="/testbed") == "1\n2\n3",
            "what its last turn asked for is not done",
        )


async def tokens_end_it(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        tools = await fixture.tools()
        sandbox = await fixture.sandbox()
        turns = [ScriptedReply([tools.shell(f"echo {number} >> done.txt")], output_tokens=60) for number in range(1, 6)]
        run = await fixture.run(*turns, sandbox=sandbox, limits=QUICK.model_copy(update={"max_tokens": 100}))
        exit_ = run.expect_exit("token_limit")
        expect(
            (exit_.turns, len(run.bodies)) == (2, 2),
            f"100 tokens of 60 each were {len(run.bodies)} calls",
        )
        expect(
            await sandbox.out("cat done.txt", workdir="/testbed") == "1\n2", "what its last turn asked for is not done"
        )


async def time_ends_a_command(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        tools = await fixture.tools()
        sandbox = await fixture.sandbox()
        limit_s = 1.0 + target.start_s
        started = time.monotonic()
        turn = [tools.shell(f"echo half > done.txt; sleep {sandbox.mark}")]
        run = await fixture.run(turn, sandbox=sandbox, limits=RunLimits(time_s=limit_s))
        exit_ = run.expect_exit("time_limit")
        took_s = time.monotonic() - started
        expect(took_s < limit_s + PROMPT_S, f"{limit_s:g} s was {took_s:.1f} s")
        expect(exit_.turns == 1, f"it says {exit_.turns} turns of 1 model call")
        expect(await sandbox.out("cat done.txt", workdir="/testbed") == "half", "what was done is not there")
        await sandbox.expect_gone("a command of a run whose time is over")


async def time_ends_a_model_call(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        tools = await fixture.tools()
        conversation = ScriptedConversation([])
        turns = ScriptedReply([tools.shell("true")]), ScriptedReply([tools.shell("true")], delay_s=60)
        run = await fixture.run(*turns, conversation=conversation, limits=RunLimits(time_s=1.0 + target.start_s))
        exit_ = run.expect_exit("time_limit")
        expect(exit_.turns == 1, f"it says {exit_.turns} turns where one answer came")
        await eventually(lambda: conversation.abandoned == 1, "its request goes on at the model server")
        expect(len(run.steps) == 1, f"{len(run.steps)} steps are reported where one ended")


async def a_full_context_ends_it(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        tools = await fixture.tools()
        sandbox = await fixture.sandbox()
        run = await fixture.run([tools.shell("echo 1 > done.txt")], ScriptedReply(error=CONTEXT), sandbox=sandbox)
        exit_ = run.expect_exit("context_limit")
        expect(exit_.turns == 1, f"it says {exit_.turns} turns where one answer came")
        expect(len(run.steps) == 1, f"{len(run.steps)} steps are reported where one ended")
        expect(await sandbox.out("cat done.txt", workdir="/testbed") == "1", "what was done is not there")


async def cancelled_in_a_command(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        tools = await fixture.tools()
        sandbox = await fixture.sandbox()
        calls = [tools.shell(f"sleep {sandbox.mark}"), tools.shell(f"sleep {sandbox.mark}")]
        running = asyncio.create_task(fixture.run([tools.shell("true")], calls, sandbox=sandbox))
        await sandbox.wait_for_process(within_s=GONE_WITHIN_S + target.start_s)
        await _expect_cancelled(running)
        await sandbox.expect_gone("a command of a cancelled run")


async def cancelled_in_a_model_call(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        tools = await fixture.tools()
        conversation = ScriptedConversation([])
        running = asyncio.create_task(
            fixture.run([tools.shell("true")], ScriptedReply(delay_s=60), conversation=conversation)
        )
        await eventually(
            lambda: len(conversation.bodies) == 2,
            "it did not ask a second time",
            within_s=GONE_WITHIN_S + target.start_s,
        )
        await _expect_cancelled(running)
        await eventually(lambda: conversation.abandoned == 1, "its request goes on at the model server")


async def cancelled_between_turns(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        tools = await fixture.tools()
        sandbox = await fixture.sandbox()
        conversation = ScriptedConversation([])
        turns = [[tools.shell(f"echo {number} >> done.txt")] for number in range(4)]

        async def run() -> HarnessRun:
            task = asyncio.current_task()
            assert task is not None
            return await fixture.run(
                *turns, sandbox=sandbox, conversation=conversation, report=lambda _step: _cancel(task)
            )

        await _expect_over(asyncio.create_task(run()))
        requests, done = len(conversation.bodies), await sandbox.out("cat done.txt", workdir="/testbed")
        if target.runs_program:
            # It acts on while its step is told; once the run is over, so is the program.
            expect(requests <= len(turns), "a run that was cancelled after its first step went on to its end")
            await asyncio.sleep(STILL_S)
            still = (len(conversation.bodies), await sandbox.out("cat done.txt", workdir="/testbed"))
            expect(still == (requests, done), "the program of a cancelled run went on to act")
            return
        expect(requests <= 2, "a run that was cancelled after its first step went on")
        expect(done == "0", "a cancelled run went on to act")


async def a_dead_sandbox_is_raised(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        tools = await fixture.tools()
        sandbox = await fixture.sandbox()
        turn = [tools.shell(f"sleep {sandbox.mark}"), tools.shell("sleep 1")]
        running = asyncio.create_task(fixture.run([tools.shell("true")], turn, sandbox=sandbox))
        await sandbox.wait_for_process(within_s=GONE_WITHIN_S + target.start_s)
        await sandbox.provider.destroy(sandbox.id)
        _expect_raised_unseen(await asyncio.wait_for(running, PROMPT_S), SandboxError, calls=2)


async def a_sandbox_that_is_gone_is_raised(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        tools = await fixture.tools()
        for first in ([], [[tools.shell("true")]]):
            sandbox = await fixture.sandbox()
            reply = ScriptedReply([tools.shell("true")], before=partial(sandbox.provider.destroy, sandbox.id))
            _expect_raised_unseen(await fixture.run(*first, reply, sandbox=sandbox), SandboxError, calls=len(first) + 1)


async def a_failing_model_is_raised(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        tools = await fixture.tools()
        for error in (InfraError(BROKEN, kind="upstream_status"), RequestError(BROKEN, kind="upstream_refused")):
            conversation = ScriptedConversation([], closing=ScriptedReply(error=error))
            run = await fixture.run([tools.shell("true")], conversation=conversation, closing=None, limits=PATIENT)
            # A program ends by itself: that its model failed is known at the tunnel.
            kind = InfraError if target.runs_program else type(error)
            expect(type(run.error) is kind, f"a model that fails came out as {run.exit_or_none or run.error!r}")
            expect(len(run.steps) == 1, f"{len(run.steps)} steps are reported where one ended")
            expect(BROKEN not in b"".join(run.bodies).decode(), "the model is told of its own failure")


def _expect_raised_unseen(run: HarnessRun, kind: type[Exception], *, calls: int) -> None:
    """Fail unless the run raised a `kind` after `calls` model calls, and no request or step holds a word of it."""
    outcome = run.exit_or_none or run.error
    expect(isinstance(run.error, kind), f"a sandbox that died came out as {outcome!r}")
    expect(
        len(run.bodies) == calls,
        f"it asked the model {len(run.bodies) - calls} times after its sandbox had died",
    )
    outputs: list[Any] = [step.output for step in run.steps]
    expect(len(outputs) < calls, "a step whose sandbox died is reported as one that ended")
    for words in ("SandboxGone", str(run.error)):
        expect(words not in b"".join(run.bodies).decode() + repr(outputs), f"{words!r} is told to the model")


async def _expect_cancelled(running: "asyncio.Task[HarnessRun]") -> None:
    running.cancel()
    await _expect_over(running)


async def _expect_over(running: "asyncio.Task[HarnessRun]") -> None:
    done, _ = await asyncio.wait({running}, timeout=PROMPT_S)
    if not done:
        running.cancel()
    expect(done and running.cancelled(), "a cancelled run went on, or hid the cancellation")


def _cancel(task: "asyncio.Task[Any]") -> None:
    task.cancel()


SUITE = [
    Behaviour("a turn limit ends it, and what was done stays", turns_end_it),
    Behaviour("a token limit ends it, and what was done stays", tokens_end_it),
    Behaviour("a time limit ends it in a command, and what was done stays", time_ends_a_command),
    Behaviour("a time limit ends it in a model call", time_ends_a_model_call),
    Behaviour("a context that is full ends it, and what was done stays", a_full_context_ends_it),
    Behaviour("cancelled in a command, it leaves nothing", cancelled_in_a_command),
    Behaviour("cancelled in a model call, it leaves nothing", cancelled_in_a_model_call),
    Behaviour("cancelled between turns, it does nothing more", cancelled_between_turns),
    Behaviour("a sandbox that dies in a command is raised, and no model is told", a_dead_sandbox_is_raised),
    Behaviour("a sandbox that is gone is raised, and no model is told", a_sandbox_that_is_gone_is_raised),
    Behaviour("a model that fails is raised", a_failing_model_is_raised),
]
