"""Tasks that are started once per key for all that ask, and remembered.

Law     one who goes away takes nothing from the others: the work goes on, until `close`. A failure is raised for
        all that wait for it and not remembered; where nobody waits any more, it is dropped.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class SharedTasks(Generic[T]):
    """One task per key, shared by all that ask; must be closed, for it owns what runs."""

    def __init__(self, at_most: int) -> None:
        """`at_most` keys are remembered, the oldest given up first."""
        self._at_most = at_most
        self._tasks: OrderedDict[str, asyncio.Task[T]] = OrderedDict()
        self._running: set[asyncio.Task[T]] = set()

    def task(self, key: str, make: Callable[[], Coroutine[Any, Any, T]]) -> "asyncio.Task[T]":
        """Return the task of a key, started by `make` where there is none; await it within `asyncio.shield`."""
        task = self._tasks.get(key)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._tasks[key] = asyncio.create_task(make())
            self._running.add(task)
            task.add_done_callback(self._on_end)
            while len(self._tasks) > self._at_most:
                self._tasks.popitem(last=False)
        return task

    def drop(self, key: str, task: "asyncio.Task[T]") -> None:
        """Forget that task of the key."""
        if self._tasks.get(key) is task:
            del self._tasks[key]

    def drop_result(self, key: str, is_it: Callable[[T], bool]) -> None:
        """Forget the result of the key, where `is_it` says so of it."""
        task = self._tasks.get(key)
        if task is not None and task.done() and not task.cancelled() and not task.exception() and is_it(task.result()):
            del self._tasks[key]

    async def close(self) -> None:
        """Cancel what runs, and wait for its end."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _on_end(self, task: "asyncio.Task[T]") -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # looked at, so that asyncio logs no trace of one that nobody waits for
