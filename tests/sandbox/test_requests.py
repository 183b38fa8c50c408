"""A request is served once, however often it is asked; nobody waits for one that nobody wants."""

import asyncio

import pytest

from paddock.sandbox.requests import MAX_ANSWERS, RequestLog


class CountingAction:
    """Answers how often it was asked; fails or hangs on cue."""

    def __init__(self) -> None:
        self.asked = 0
        self.cancelled = 0
        self.go = asyncio.Event()
        self.go.set()
        self.error: Exception | None = None

    async def __call__(self) -> int:
        self.asked += 1
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error:
            raise self.error
        return self.asked


async def test_a_repeated_request_gets_the_first_answer() -> None:
    requests, act = RequestLog(), CountingAction()
    assert [await requests.once(("a", "1"), act) for _ in range(3)] == [1, 1, 1]
    assert await requests.once(("a", "2"), act) == 2


async def test_a_request_that_runs_is_joined() -> None:
    requests, act = RequestLog(), CountingAction()
    act.go.clear()
    both = [asyncio.ensure_future(requests.once(("a", "1"), act)) for _ in range(2)]
    await asyncio.sleep(0)
    act.go.set()
    assert await asyncio.gather(*both) == [1, 1]


async def test_a_failed_request_fails_for_all_who_wait_and_may_be_tried_again() -> None:
    requests, act = RequestLog(), CountingAction()
    act.error = OSError("cue")
    answers = await asyncio.gather(*(requests.once(("a", "1"), act) for _ in range(2)), return_exceptions=True)
    assert [str(answer) for answer in answers] == ["cue", "cue"]
    act.error = None
    assert await requests.once(("a", "1"), act) == 2


async def test_a_request_goes_on_while_one_still_waits() -> None:
    requests, act = RequestLog(), CountingAction()
    act.go.clear()
    first, second = (asyncio.ensure_future(requests.once(("a", "1"), act)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    assert act.cancelled == 0
    act.go.set()
    assert await second == 1


async def test_a_request_that_nobody_waits_for_is_cancelled_and_asked_anew() -> None:
    requests, act = RequestLog(), CountingAction()
    act.go.clear()
    only = asyncio.ensure_future(requests.once(("a", "1"), act))
    await asyncio.sleep(0)
    only.cancel()
    with pytest.raises(asyncio.CancelledError):
        await only
    assert act.cancelled == 1
    act.go.set()
    assert await requests.once(("a", "1"), act) == 2


async def test_answers_are_forgotten_by_sandbox_and_by_age() -> None:
    requests, act = RequestLog(), CountingAction()
    await requests.once(("a", "1"), act)
    await requests.once(("b", "1"), act)
    requests.forget("a")
    assert await requests.once(("b", "1"), act) == 2
    assert await requests.once(("a", "1"), act) == 3
    for number in range(MAX_ANSWERS):
        await requests.once(("c", str(number)), act)
    assert await requests.once(("b", "1"), act) == MAX_ANSWERS + 4


async def test_an_answer_that_came_too_late_for_the_only_one_who_waited_is_taken_back() -> None:
    requests, undone = RequestLog(), list[int]()

    async def deaf() -> int:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return 7
        return 0

    async def undo(answer: int) -> None:
        undone.append(answer)

    waiting = asyncio.ensure_future(requests.once(("a", "1"), deaf, undo))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert undone == [7]


async def test_an_answer_that_somebody_has_is_never_taken_back() -> None:
    requests, act, undone = RequestLog(), CountingAction(), list[int]()
    act.go.clear()

    async def undo(answer: int) -> None:
        undone.append(answer)

    first, second = (asyncio.ensure_future(requests.once(("a", "1"), act, undo)) for _ in range(2))
    await asyncio.sleep(0)
    first.add_done_callback(lambda _: second.cancel())
    act.go.set()
    assert await first == 1
    await asyncio.gather(second, return_exceptions=True)
    assert undone == []
