"""What is made once per key for all that ask, and remembered.

Law     one who goes away takes nothing from the others: the work goes on, until `close`. A failure is told to all that
        wait for it and not remembered; where nobody waits any more, it is nobody's news.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """To be closed: it owns what is running."""

    def __init__(self, at_most: int) -> None:
        """`at_most` keys are remembered, the oldest given up first."""
        self._at_most = at_most
        self._known: OrderedDict[str, asyncio.Task[T]] = OrderedDict()
        self._running: set[asyncio.Task[T]] = set()

    def task(self, key: str, make: Callable[[], Coroutine[Any, Any, T]]) -> "asyncio.Task[T]":
        """To be awaited within `asyncio.shield`."""
        known = self._known.get(key)
        if known is None or (known.done() and (known.cancelled() or known.exception() is not None)):
            known = self._known[key] = asyncio.create_task(make())
            self._running.add(known)
            known.add_done_callback(self._ended)
            while len(self._known) > self._at_most:
                self._known.popitem(last=False)
        return known

    def drop(self, key: str, task: "asyncio.Task[T]") -> None:
        """Forget that result of the key."""
        if self._known.get(key) is task:
            del self._known[key]

    def drop_result(self, key: str, is_it: Callable[[T], bool]) -> None:
        """Forget what was made of the key, where that is it."""
        task = self._known.get(key)
        if task is not None and task.done() and not task.cancelled() and not task.exception() and is_it(task.result()):
            del self._known[key]

    async def close(self) -> None:
        """What runs ends."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _ended(self, task: "asyncio.Task[T]") -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # looked at, so that asyncio logs no trace of one that nobody waits for
