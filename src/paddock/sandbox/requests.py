"""Requests by id: one that runs is joined, one that was answered is answered again, a failed one may be retried."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

MAX_ANSWERS = 1024
"""Answers that are kept for repeated requests."""
T = TypeVar("T")


class _PendingRequest:
    __slots__ = ("delivered", "task", "waiters")

    def __init__(self, task: "asyncio.Task[Any]") -> None:
        self.task = task
        self.waiters = 0
        self.delivered = False
        """Whether a caller has its answer."""


class RequestLog:
    """The latest requests and their answers."""

    def __init__(self) -> None:
        self._requests: OrderedDict[tuple[str, ...], _PendingRequest] = OrderedDict()

    async def once(
        self,
        name: tuple[str, ...],
        act: Callable[[], Coroutine[Any, Any, T]],
        undo: Callable[[T], Awaitable[None]] | None = None,
    ) -> T:
        """The answer of the request `name`, made by `act` once; it is cancelled when nobody waits for it any more.
        `undo` takes back an answer that came in spite of that."""
        request = self._requests.get(name)
        if request is None:
            request = self._requests[name] = _PendingRequest(asyncio.ensure_future(act()))
            self._trim()
        request.waiters += 1
        try:
            answer: T = await asyncio.shield(request.task)
        except asyncio.CancelledError:
            if request.waiters == 1 and not request.delivered:
                self._requests.pop(name, None)
                await asyncio.shield(_give_up(request.task, undo))
            raise
        except BaseException:
            self._requests.pop(name, None)
            raise
        finally:
            request.waiters -= 1
        request.delivered = True
        return answer

    def forget(self, first: str) -> None:
        """Drop the answers of requests whose name starts with `first`."""
        for name in [name for name, request in self._requests.items() if name[0] == first and request.task.done()]:
            del self._requests[name]

    def _trim(self) -> None:
        for name in list(self._requests)[: max(0, len(self._requests) - MAX_ANSWERS)]:
            if self._requests[name].task.done():
                del self._requests[name]


async def _give_up(task: "asyncio.Task[T]", undo: Callable[[T], Awaitable[None]] | None) -> None:
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and task.exception() is None and undo is not None:
        await undo(task.result())
