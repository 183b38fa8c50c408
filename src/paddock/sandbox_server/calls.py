"""The calls of one lease: each is acted on once, however often it is sent, until its client has the answer.

Law     a call goes on when the connection of its client breaks: the client comes back for the answer, says that nobody
        waits for it any more, or loses its lease; the last two end what still runs and undo what was made.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, NamedTuple, TypeVar

from paddock.errors import RequestError
from paddock.types import Record

MAX_CANCELLED = 256
"""Cancelled calls that are remembered, for where a call comes later than its end."""
Reply = Record | bytes
R = TypeVar("R", bound=Reply)


class NodeCall(NamedTuple):
    """An action that runs or has ended."""

    task: "asyncio.Task[Any]"
    undo: Callable[[Any], Awaitable[None]] | None


class NodeCalls:
    """By the ids that their client gave them."""

    def __init__(self) -> None:
        self._calls: dict[str, NodeCall] = {}
        self._endings: set[asyncio.Task[None]] = set()
        self._cancelled: deque[str] = deque(maxlen=MAX_CANCELLED)

    def find(self, call_id: str) -> NodeCall | None:
        return self._calls.get(call_id)

    def start(
        self,
        call_id: str,
        act: Callable[[], Coroutine[Any, Any, R]],
        undo: Callable[[R], Awaitable[None]] | None = None,
    ) -> NodeCall:
        """The call of that id, acted on unless it is known. `undo`: takes back an answer that nobody got."""
        if call_id in self._cancelled:
            raise RequestError("this call was cancelled before it came", kind="call_cancelled")
        call = self._calls.get(call_id)
        if call is None:
            call = self._calls[call_id] = NodeCall(asyncio.ensure_future(act()), undo)
            call.task.add_done_callback(_retrieve)
        return call

    def forget(self, call_ids: Iterable[str]) -> None:
        """Drop answers that have arrived; what still runs is ended."""
        for call_id in call_ids:
            call = self._calls.pop(call_id, None)
            if call is not None and not call.task.done():
                self._end_later(call)

    async def cancel(self, call_id: str) -> None:
        """End a call whose answer nobody has, or take its answer back; returns when that is done."""
        call = self._calls.pop(call_id, None)
        if call is None:
            self._cancelled.append(call_id)
        else:
            await asyncio.shield(self._end_later(call))

    async def close(self) -> None:
        """End all."""
        for call in self._calls.values():
            if not call.task.done():
                self._end_later(call)
        self._calls.clear()
        if self._endings:
            await asyncio.wait(self._endings)

    def _end_later(self, call: NodeCall) -> "asyncio.Task[None]":
        task = asyncio.ensure_future(_end(call))
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)
        return task


async def _end(call: NodeCall) -> None:
    call.task.cancel()
    await asyncio.wait([call.task])
    if not call.task.cancelled() and call.task.exception() is None and call.undo is not None:
        await call.undo(call.task.result())


def _retrieve(task: "asyncio.Task[Any]") -> None:
    """Take note of its error: whoever asks for the answer gets it."""
    if not task.cancelled():
        task.exception()
