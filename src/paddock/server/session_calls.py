"""The calls or steps of one session: each is run once, and answered as before where it is asked again.

Law     a caller that has gone ends no call: it may ask again. What ends calls is the session's end.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")


class SessionCalls:
    """Made with the session. `used`: when it was last asked for something, on the monotonic clock."""

    def __init__(self) -> None:
        self.used = time.monotonic()
        self._calls: dict[str, asyncio.Task[Any]] = {}

    def is_idle(self, idle_s: float) -> bool:
        """Whether nothing was asked of it for so long, and nothing runs."""
        return self.used < time.monotonic() - idle_s and all(call.done() for call in self._calls.values())

    async def answer(self, call_id: str, run: Callable[[], Awaitable[T]]) -> T:
        """The result of a call; what `run` raises is raised each time that it is asked."""
        running: asyncio.Task[T] | None = self._calls.get(call_id)
        if running is None:
            running = self._calls[call_id] = asyncio.create_task(self._run(run))
        return await asyncio.shield(running)

    async def end(self) -> None:
        """Cancel what runs, and wait for it."""
        for running in self._calls.values():
            running.cancel()
        await asyncio.gather(*self._calls.values(), return_exceptions=True)

    async def _run(self, run: Callable[[], Awaitable[T]]) -> T:
        try:
            return await run()
        finally:
            self.used = time.monotonic()
