"""A cache of answers by request key: equal requests share one, while it is made and afterwards.

Law     a failure is raised to all that wait for it, and is not cached. One who goes away takes nothing from the others;
        when nobody waits any more, the work ends.
Bounds  it holds `entries` answers and evicts the least recently used first; 0: nothing is cached or shared.
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
    """Answers by request key. To be closed: it owns the tasks that make them."""

    def __init__(self, entries: int) -> None:
        self.hits = 0
        """Requests that were answered from the cache."""
        self.shared = 0
        """Requests that waited for an equal one's answer."""
        self._entries = entries
        self._answers: OrderedDict[bytes, T] = OrderedDict()
        self._shared_tasks: dict[bytes, _SharedTask[T]] = {}
        self._tasks: set[asyncio.Task[T]] = set()

    async def get(self, key: bytes, make: Callable[[], Awaitable[T]]) -> T:
        if not self._entries:
            return await make()
        if key in self._answers:
            self.hits += 1
            self._answers.move_to_end(key)
            return self._answers[key]
        shared_task = self._shared_tasks.get(key)
        if shared_task is None:
            shared_task = self._shared_tasks[key] = self._start(key, make)
        else:
            self.shared += 1
        shared_task.waiting += 1
        try:
            return await asyncio.shield(shared_task.task)
        finally:
            shared_task.waiting -= 1
            if not shared_task.waiting:
                shared_task.task.cancel()
                self._forget(key, shared_task.task)

    async def close(self) -> None:
        """Cancel what still runs, and wait for its end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, key: bytes, make: Callable[[], Awaitable[T]]) -> _SharedTask[T]:
        async def work() -> T:
            return await make()

        task = asyncio.create_task(work())
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._finish(key, done))
        return _SharedTask(task)

    def _finish(self, key: bytes, task: asyncio.Task[T]) -> None:
        self._tasks.discard(task)
        self._forget(key, task)
        if not task.cancelled() and task.exception() is None:
            self._answers[key] = task.result()
            if len(self._answers) > self._entries:
                self._answers.popitem(last=False)

    def _forget(self, key: bytes, task: asyncio.Task[T]) -> None:
        """Let no further request share the task."""
        shared_task = self._shared_tasks.get(key)
        if shared_task is not None and shared_task.task is task:
            del self._shared_tasks[key]
