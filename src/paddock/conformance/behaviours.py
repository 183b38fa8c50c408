"""What a suite is made of: named behaviours, each a check that real servers pass or fail.

Law     a check passes by returning, fails by raising anything, and is skipped by raising `NotApplicable`, which says
        what the plugin lacks. Every check has a deadline, and leaves no task of the plugin's behind.
Shapes  `suite_for(kind)` lists a kind's behaviours; `run_suite` gives one BehaviourResult for each.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, Literal, NamedTuple, TypeVar

S = TypeVar("S")
"""The type of what is under test."""
CHECK_TIMEOUT_S = 60.0
STARTS = 10
"""How often a slow target is started in one check, at most."""
SETTLE_S = 3.0
"""Seconds that tasks have to end after a check."""


class NotApplicable(Exception):  # noqa: N818 - no error: it says why a check says nothing about this plugin
    """The plugin is not of the sort that the behaviour is about."""


class Behaviour(NamedTuple, Generic[S]):
    """One claim about a plugin kind."""

    name: str
    """A sentence that is true of a conforming plugin."""
    check: Callable[[S], Awaitable[None]]


class BehaviourResult(NamedTuple):
    """What came of one check."""

    behaviour: str
    outcome: Literal["passed", "failed", "skipped"]
    detail: str
    """What was expected and what happened instead; or why the check was skipped."""
    seconds: float


def expect(holds: object, message: str) -> None:
    """Fail the check with `message` unless it holds."""
    if not holds:
        raise AssertionError(message)


async def run_suite(
    behaviours: Iterable[Behaviour[S]], target: S, *, timeout_s: float = CHECK_TIMEOUT_S
) -> list[BehaviourResult]:
    """Check each behaviour, one after the other."""
    return [await run_behaviour(behaviour, target, timeout_s=timeout_s) for behaviour in behaviours]


async def run_behaviour(behaviour: Behaviour[S], target: S, *, timeout_s: float = CHECK_TIMEOUT_S) -> BehaviourResult:
    started = time.monotonic()

    def result(outcome: Literal["passed", "failed", "skipped"], detail: str = "") -> BehaviourResult:
        return BehaviourResult(behaviour.name, outcome, detail, time.monotonic() - started)

    before = asyncio.all_tasks()
    try:
        async with asyncio.timeout(timeout_s + STARTS * getattr(target, "start_s", 0.0)):
            await behaviour.check(target)
        left = await _left_behind(before)
        if left:
            return result("failed", f"{len(left)} tasks were left running: {', '.join(sorted(left))[:300]}")
        return result("passed")
    except NotApplicable as reason:
        return result("skipped", str(reason))
    except Exception as error:  # noqa: BLE001 - whatever a plugin raises is what its result says
        name = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
        return result("failed", f"{name}{error}")


async def _left_behind(before: set["asyncio.Task[Any]"]) -> list[str]:
    deadline = time.monotonic() + SETTLE_S
    while left := [task for task in asyncio.all_tasks() - before if not task.done()]:
        if time.monotonic() > deadline:
            return [str(task.get_coro()) for task in left]
        await asyncio.sleep(0.01)
    return []
