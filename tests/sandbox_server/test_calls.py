"""Calls of a lease: acted on once, kept until their client has the answer, taken back where it does not want it."""

import asyncio

import pytest

from paddock.errors import RequestError
from paddock.sandbox_server.calls import NodeCalls


class CuedAction:
    """Waits for its cue; counts what is asked, and what is taken back."""

    def __init__(self) -> None:
        self.started = 0
        self.undone: list[bytes] = []
        self.cue = asyncio.Event()
        self.deaf = False
        """It makes its answer although it is cancelled."""

    async def act(self) -> bytes:
        self.started += 1
        try:
            await self.cue.wait()
        except asyncio.CancelledError:
            if not self.deaf:
                raise
        return b"answer"

    async def undo(self, answer: bytes) -> None:
        self.undone.append(answer)


async def test_a_call_that_is_sent_again_is_the_same_one() -> None:
    calls, action = NodeCalls(), CuedAction()
    first = calls.start("a", action.act)
    assert calls.start("a", action.act) is first is calls.find("a")
    action.cue.set()
    assert await first.task == b"answer"
    assert calls.start("a", action.act) is first
    assert action.started == 1
    calls.forget(["a", "never was"])
    assert calls.find("a") is None


async def test_an_error_is_an_answer_too() -> None:
    calls = NodeCalls()

    async def fail() -> bytes:
        raise OSError("cue")

    call = calls.start("a", fail)
    await asyncio.wait([call.task])
    assert str(call.task.exception()) == "cue"
    assert calls.start("a", fail) is call


async def test_a_cancelled_call_ends_and_can_not_come_later() -> None:
    calls, action = NodeCalls(), CuedAction()
    call = calls.start("a", action.act, action.undo)
    await asyncio.sleep(0)
    await calls.cancel("a")
    assert call.task.cancelled()
    assert action.undone == []
    await calls.cancel("b")
    with pytest.raises(RequestError, match="before it came"):
        calls.start("b", action.act)
    assert action.started == 1


@pytest.mark.parametrize("deaf", [False, True])
async def test_an_answer_that_nobody_waited_for_is_taken_back(*, deaf: bool) -> None:
    calls, action = NodeCalls(), CuedAction()
    action.deaf = deaf
    call = calls.start("a", action.act, action.undo)
    await asyncio.sleep(0)
    if not deaf:
        action.cue.set()
        await call.task
    await calls.cancel("a")
    assert action.undone == [b"answer"]


async def test_an_answer_that_has_arrived_is_never_taken_back() -> None:
    calls, action = NodeCalls(), CuedAction()
    action.cue.set()
    await calls.start("a", action.act, action.undo).task
    calls.forget(["a"])
    await calls.cancel("a")
    await calls.close()
    assert action.undone == []


async def test_closing_ends_what_runs() -> None:
    calls, action = NodeCalls(), CuedAction()
    running = [calls.start(str(number), action.act).task for number in range(3)]
    await asyncio.sleep(0)
    await calls.close()
    assert all(task.cancelled() for task in running)
