"""Requests by id: one that runs is joined, one that was answered is told again, a failed one may be tried again."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

REMEMBERED = 1024
"""Answers that are kept for a repeat."""
T = TypeVar("T")


class _Request:
    __slots__ = ("task", "told", "waiters")

    def __init__(self, task: "asyncio.Task[Any]") -> None:
        self.task = task
        self.waiters = 0
        self.told = False
        """Somebody has its answer."""


class Requests:
    """The latest requests and their answers."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, ...], _Request] = OrderedDict()

    async def once(
        self,
        name: tuple[str, ...],
        act: Callable[[], Coroutine[Any, Any, T]],
        undo: Callable[[T], Awaitable[None]] | None = None,
    ) -> T:
        """The answer of that request; it is given up when nobody waits for it any more. `undo` takes back one that came
        all the same, too late for whoever waited."""
        request = self._known.get(name)
        if request is None:
            request = self._known[name] = _Request(asyncio.ensure_future(act()))
            self._trim()
        request.waiters += 1
        try:
            answer: T = await asyncio.shield(request.task)
        except asyncio.CancelledError:
            if request.waiters == 1 and not request.told:
                self._known.pop(name, None)
                await asyncio.shield(_give_up(request.task, undo))
            raise
        except BaseException:
            self._known.pop(name, None)
            raise
        finally:
            request.waiters -= 1
        request.told = True
        return answer

    def forget(self, first: str) -> None:
        """Drop what is known of names that start so."""
        for name in [name for name, request in self._known.items() if name[0] == first and request.task.done()]:
            del self._known[name]

    def _trim(self) -> None:
        for name in list(self._known)[: max(0, len(self._known) - REMEMBERED)]:
            if self._known[name].task.done():
                del self._known[name]


async def _give_up(task: "asyncio.Task[T]", undo: Callable[[T], Awaitable[None]] | None) -> None:
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and task.exception() is None and undo is not None:
        await undo(task.result())
