"""An event loop in a thread of its own, for scripts and notebooks that have none, or one that is not ours.

Law     a call from a thread without a running loop waits for its result; from one with a running loop it gives an
        awaitable. Ctrl-C while waiting cancels the call. Closing ends the thread; so does the end of the program.
"""

import asyncio
import concurrent.futures.thread  # noqa: F401 - it registers the end of thread pools, before ours is registered
import threading
import weakref
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Generic, TypeVar

from paddock.errors import RequestError
from paddock.server.loops import loop_factory

OpenedT = TypeVar("OpenedT")
CLOSE_S = 5.0
"""Longest wait for what is open to close, where nothing else is said; what it opened bounds itself below that."""


class Background(Generic[OpenedT]):
    """Keeps one context open, in a loop in a thread. Its errors on opening are raised here."""

    def __init__(self, context: AbstractAsyncContextManager[OpenedT], *, close_s: float = CLOSE_S) -> None:
        """`close_s`: longest wait for what is open to close."""
        thread = _LoopThread(context, close_s)
        self._loop = thread.loop
        self._end = weakref.finalize(self, thread.end)
        _OPEN.add(self)
        thread.start()
        try:
            self.opened: OpenedT = thread.opened.result()
        except BaseException:
            self._end()
            raise

    @property
    def is_open(self) -> bool:
        """Its loop runs, and nobody closed it."""
        return self._end.alive and self._loop.is_running()

    def answer(self, work: Coroutine[Any, Any, Any]) -> Any:
        """The result of `work`, or an awaitable of it where a loop runs in this thread."""
        if not self._end.alive:
            work.close()
            raise RequestError("this connection is closed", kind="connection_closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return _wait(future)
        return asyncio.wrap_future(future)

    def close(self) -> None:
        """Close the context and end the thread; a second time changes nothing."""
        self._end()


_OPEN: "weakref.WeakSet[Background[Any]]" = weakref.WeakSet()


def _close_all() -> None:
    for opened in list(_OPEN):
        opened.close()


# `atexit`, and so `weakref.finalize`, comes too late: thread pools refuse work by then, and what stops here needs them.
# What is registered last is called first: before the end of the pools, which their module has registered.
threading._register_atexit(_close_all)  # type: ignore[attr-defined]


class _LoopThread(threading.Thread):
    def __init__(self, context: AbstractAsyncContextManager[Any], close_s: float) -> None:
        super().__init__(name="paddock", daemon=True)
        self.loop = loop_factory()()
        self.opened: Future[Any] = Future()
        self._context = context
        self._close_s = close_s
        self._closing = asyncio.Event()
        self._hold_task: asyncio.Task[Any] | None = None

    def run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner, suppress(asyncio.CancelledError):
            runner.run(self._hold())

    async def _hold(self) -> None:
        self._hold_task = asyncio.current_task()
        try:
            async with self._context as value:
                self.opened.set_result(value)
                await self._closing.wait()
        except BaseException as error:
            if self.opened.done():
                raise
            self.opened.set_exception(error)

    def end(self) -> None:
        """Close what is open, or stop opening it; wait for that."""
        with suppress(RuntimeError):  # the loop is closed: opening failed
            self.loop.call_soon_threadsafe(self._stop)
        if threading.current_thread() is not self:  # collected in its own thread: it ends by itself
            self.join(self._close_s)

    def _stop(self) -> None:
        if self.opened.done():
            self._closing.set()
        elif self._hold_task is not None:
            self._hold_task.cancel()


def _wait(future: "Future[Any]") -> Any:
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
