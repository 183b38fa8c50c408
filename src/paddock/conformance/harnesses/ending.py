"""How a run ends: by a limit, with what was done until then; cancelled, with nothing left; failed, and nobody told."""

import asyncio
import time
from functools import partial
from typing import Any

from paddock.conformance.behaviours import Behaviour, expect
from paddock.conformance.harnesses.played import Conversation, Reply
from paddock.conformance.harnesses.stage import QUICK, HarnessSubject, Played, staged
from paddock.conformance.sandboxes.stage import GONE_WITHIN_S, eventually
from paddock.errors import InfraError, RequestError
from paddock.harness import RunLimits
from paddock.sandbox import SandboxError

PROMPT_S = 8.0
"""Seconds within which a run that is stopped has to be over."""
STILL_S = 1.0
"""Seconds in which a program that is over does nothing."""
CONTEXT = RequestError("scripted: this is too long", kind="context_length_exceeded")
BROKEN = "scripted-upstream-broke"


async def turns_end_it(subject: HarnessSubject) -> None:
    async with staged(subject) as stage:
        face = await stage.face()
        room = await stage.room()
        turns = [[face.shell(f"echo {number} >> done.txt")] for number in range(1, 6)]
        played = await stage.play(*turns, room=room, limits=QUICK.model_copy(update={"max_turns": 3}))
        left = played.ended("turn_limit")
        expect((left.turns, len(played.raw)) == (3, 3), f"with 3 turns it made {len(played.raw)} calls ({left.turns})")
        expect(len(played.steps) == 3, f"{len(played.steps)} steps of 3 turns are reported")
        expect(
            await room.out("cat done.txt", workdir="/testbed") == "1\n2\n3", "what its last turn asked for is not done"
        )


async def tokens_end_it(subject: HarnessSubject) -> None:
    async with staged(subject) as stage:
        face = await stage.face()
        room = await stage.room()
        turns = [Reply([face.shell(f"echo {number} >> done.txt")], output_tokens=60) for number in range(1, 6)]
        played = await stage.play(*turns, room=room, limits=QUICK.model_copy(update={"max_tokens": 100}))
        left = played.ended("token_limit")
        expect((left.turns, len(played.raw)) == (2, 2), f"100 tokens of 60 each were {len(played.raw)} calls")
        expect(await room.out("cat done.txt", workdir="/testbed") == "1\n2", "what its last turn asked for is not done")


async def time_ends_a_command(subject: HarnessSubject) -> None:
    async with staged(subject) as stage:
        face = await stage.face()
        room = await stage.room()
        limit_s = 1.0 + subject.start_s
        started = time.monotonic()
        turn = [face.shell(f"echo half > done.txt; sleep {room.mark}")]
        played = await stage.play(turn, room=room, limits=RunLimits(time_s=limit_s))
        left = played.ended("time_limit")
        took_s = time.monotonic() - started
        expect(took_s < limit_s + PROMPT_S, f"{limit_s:g} s was {took_s:.1f} s")
        expect(left.turns == 1, f"it says {left.turns} turns of 1 model call")
        expect(await room.out("cat done.txt", workdir="/testbed") == "half", "what was done is not there")
        await room.gone("a command of a run whose time is over")


async def time_ends_a_model_call(subject: HarnessSubject) -> None:
    async with staged(subject) as stage:
        face = await stage.face()
        talk = Conversation([])
        turns = Reply([face.shell("true")]), Reply([face.shell("true")], delay_s=60)
        played = await stage.play(*turns, talk=talk, limits=RunLimits(time_s=1.0 + subject.start_s))
        left = played.ended("time_limit")
        expect(left.turns == 1, f"it says {left.turns} turns where one answer came")
        await eventually(lambda: talk.left == 1, "its request goes on at the model server")
        expect(len(played.steps) == 1, f"{len(played.steps)} steps are reported where one ended")


async def a_full_context_ends_it(subject: HarnessSubject) -> None:
    async with staged(subject) as stage:
        face = await stage.face()
        room = await stage.room()
        played = await stage.play([face.shell("echo 1 > done.txt")], Reply(error=CONTEXT), room=room)
        left = played.ended("context_limit")
        expect(left.turns == 1, f"it says {left.turns} turns where one answer came")
        expect(len(played.steps) == 1, f"{len(played.steps)} steps are reported where one ended")
        expect(await room.out("cat done.txt", workdir="/testbed") == "1", "what was done is not there")


async def cancelled_in_a_command(subject: HarnessSubject) -> None:
    async with staged(subject) as stage:
        face = await stage.face()
        room = await stage.room()
        calls = [face.shell(f"sleep {room.mark}"), face.shell(f"sleep {room.mark}")]
        running = asyncio.create_task(stage.play([face.shell("true")], calls, room=room))
        await room.up(within_s=GONE_WITHIN_S + subject.start_s)
        await _cancelled(running)
        await room.gone("a command of a cancelled run")


async def cancelled_in_a_model_call(subject: HarnessSubject) -> None:
    async with staged(subject) as stage:
        face = await stage.face()
        talk = Conversation([])
        running = asyncio.create_task(stage.play([face.shell("true")], Reply(delay_s=60), talk=talk))
        await eventually(
            lambda: len(talk.asked) == 2, "it did not ask a second time", within_s=GONE_WITHIN_S + subject.start_s
        )
        await _cancelled(running)
        await eventually(lambda: talk.left == 1, "its request goes on at the model server")


async def cancelled_between_turns(subject: HarnessSubject) -> None:
    async with staged(subject) as stage:
        face = await stage.face()
        room = await stage.room()
        talk = Conversation([])
        turns = [[face.shell(f"echo {number} >> done.txt")] for number in range(4)]

        async def run() -> Played:
            task = asyncio.current_task()
            assert task is not None
            return await stage.play(*turns, room=room, talk=talk, report=lambda _step: _cancel(task))

        await _over(asyncio.create_task(run()))
        asked, done = len(talk.asked), await room.out("cat done.txt", workdir="/testbed")
        if subject.runs_program:
            # It acts on while its step is told; once the run is over, so is the program.
            expect(asked <= len(turns), "a run that was cancelled after its first step went on to its end")
            await asyncio.sleep(STILL_S)
            still = (len(talk.asked), await room.out("cat done.txt", workdir="/testbed"))
            expect(still == (asked, done), "the program of a cancelled run went on to act")
            return
        expect(asked <= 2, "a run that was cancelled after its first step went on")
        expect(done == "0", "a cancelled run went on to act")


async def a_dead_sandbox_is_raised(subject: HarnessSubject) -> None:
    async with staged(subject) as stage:
        face = await stage.face()
        room = await stage.room()
        turn = [face.shell(f"sleep {room.mark}"), face.shell("sleep 1")]
        running = asyncio.create_task(stage.play([face.shell("true")], turn, room=room))
        await room.up(within_s=GONE_WITHIN_S + subject.start_s)
        await room.provider.destroy(room.id)
        _raised_and_untold(await asyncio.wait_for(running, PROMPT_S), SandboxError, calls=2)


async def a_sandbox_that_is_gone_is_raised(subject: HarnessSubject) -> None:
    async with staged(subject) as stage:
        face = await stage.face()
        for first in ([], [[face.shell("true")]]):
            room = await stage.room()
            reply = Reply([face.shell("true")], before=partial(room.provider.destroy, room.id))
            _raised_and_untold(await stage.play(*first, reply, room=room), SandboxError, calls=len(first) + 1)


async def a_failing_model_is_raised(subject: HarnessSubject) -> None:
    async with staged(subject) as stage:
        face = await stage.face()
        for error in (InfraError(BROKEN, kind="upstream_status"), RequestError(BROKEN, kind="upstream_refused")):
            talk = Conversation([], closing=Reply(error=error))
            played = await stage.play([face.shell("true")], talk=talk, closing=None)
            # A program ends by itself: that its model failed is known at the tunnel.
            kind = InfraError if subject.runs_program else type(error)
            expect(type(played.error) is kind, f"a model that fails came out as {played.left or played.error!r}")
            expect(len(played.steps) == 1, f"{len(played.steps)} steps are reported where one ended")
            expect(BROKEN not in b"".join(played.raw).decode(), "the model is told of its own failure")


def _raised_and_untold(played: Played, kind: type[Exception], *, calls: int) -> None:
    """The failure came out, and no request or step holds a word of it."""
    came = played.left or played.error
    expect(isinstance(played.error, kind), f"a sandbox that died came out as {came!r}")
    expect(len(played.raw) == calls, f"it asked the model {len(played.raw) - calls} times after its sandbox had died")
    told: list[Any] = [step.output for step in played.steps]
    expect(len(told) < calls, "a step whose sandbox died is reported as one that ended")
    for words in ("SandboxGone", str(played.error)):
        expect(words not in b"".join(played.raw).decode() + repr(told), f"{words!r} is told to the model")


async def _cancelled(running: "asyncio.Task[Played]") -> None:
    running.cancel()
    await _over(running)


async def _over(running: "asyncio.Task[Played]") -> None:
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
