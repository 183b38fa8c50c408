"""Requests by id: one that runs is joined, one that was answered is told again, a failed one may be tried again."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

REMEMBERED = 1024
"""Answers that are kept for a repeat."""
T = TypeVar("T")


class _Request:
    __slots__ = ("task", "waiters")

    def __init__(self, task: "asyncio.Task[Any]") -> None:
        self.task = task
        self.waiters = 0


class Requests:
    """The latest requests and their answers."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, ...], _Request] = OrderedDict()

    async def once(self, name: tuple[str, ...], act: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The answer of that request; it is given up when nobody waits for it any more."""
        request = self._known.get(name)
        if request is None:
            request = self._known[name] = _Request(asyncio.ensure_future(act()))
            self._trim()
        request.waiters += 1
        try:
            answer: T = await asyncio.shield(request.task)
        except asyncio.CancelledError:
            if request.waiters == 1 and not request.task.done():
                self._known.pop(name, None)
                request.task.cancel()
                await asyncio.wait([request.task])
            raise
        except BaseException:
            self._known.pop(name, None)
            raise
        finally:
            request.waiters -= 1
        return answer

    def forget(self, first: str) -> None:
        """Drop what is known of names that start so."""
        for name in [name for name, request in self._known.items() if name[0] == first and request.task.done()]:
            del self._known[name]

    def _trim(self) -> None:
        for name in list(self._known)[: max(0, len(self._known) - REMEMBERED)]:
            if self._known[name].task.done():
                del self._known[name]
