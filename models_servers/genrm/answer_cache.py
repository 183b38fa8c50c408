"""Equal requests share one answer: while it is being made, and afterwards while it is kept.

Law     a failure is told to all that wait for it and not kept. One who goes away takes nothing from the others; when
        nobody waits any more, the work ends.
Bounds  `entries` answers are kept, the least recently used given up first; 0: nothing is kept or shared.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class _SharedTask(Generic[T]):
    task: asyncio.Task[T]
    waiting: int = 0


class AnswerCache(Generic[T]):
    """To be closed: it owns what is running."""

    def __init__(self, entries: int) -> None:
        self.kept = 0
        """Requests that were answered with what was there."""
        self.joined = 0
        """Requests that waited for what another had asked."""
        self._entries = entries
        self._answers: OrderedDict[bytes, T] = OrderedDict()
        self._running: dict[bytes, _SharedTask[T]] = {}
        self._tasks: set[asyncio.Task[T]] = set()

    async def get(self, key: bytes, make: Callable[[], Awaitable[T]]) -> T:
        if not self._entries:
            return await make()
        if key in self._answers:
            self.kept += 1
            self._answers.move_to_end(key)
            return self._answers[key]
        running = self._running.get(key)
        if running is None:
            running = self._running[key] = self._begin(key, make)
        else:
            self.joined += 1
        running.waiting += 1
        try:
            return await asyncio.shield(running.task)
        finally:
            running.waiting -= 1
            if not running.waiting:
                running.task.cancel()
                self._forget(key, running.task)

    async def close(self) -> None:
        """What runs ends."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, key: bytes, make: Callable[[], Awaitable[T]]) -> _SharedTask[T]:
        async def work() -> T:
            return await make()

        task = asyncio.create_task(work())
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._ended(key, done))
        return _SharedTask(task)

    def _ended(self, key: bytes, task: asyncio.Task[T]) -> None:
        self._tasks.discard(task)
        self._forget(key, task)
        if not task.cancelled() and task.exception() is None:
            self._answers[key] = task.result()
            if len(self._answers) > self._entries:
                self._answers.popitem(last=False)

    def _forget(self, key: bytes, task: asyncio.Task[T]) -> None:
        """Nobody joins it any more."""
        running = self._running.get(key)
        if running is not None and running.task is task:
            del self._running[key]
