"""The tool calls of one session: each is run once, and answered as before where it is asked again.

Law     a caller that has gone ends no call: it may ask again. What ends calls is the session's end.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from paddock.http import SessionCall, SessionCallResult

RunCall = Callable[[SessionCall], Awaitable[SessionCallResult]]


class SessionCalls:
    """Made with the session. `used`: when it was last asked for something, on the monotonic clock."""

    def __init__(self) -> None:
        self.used = time.monotonic()
        self._calls: dict[str, asyncio.Task[SessionCallResult]] = {}

    def is_idle(self, idle_s: float) -> bool:
        """Whether nothing was asked of it for so long, and nothing runs."""
        return self.used < time.monotonic() - idle_s and all(call.done() for call in self._calls.values())

    async def answer(self, request: SessionCall, run: RunCall) -> SessionCallResult:
        """The result of a call; what `run` raises is raised each time that it is asked."""
        running = self._calls.get(request.call_id)
        if running is None:
            running = self._calls[request.call_id] = asyncio.create_task(self._run(request, run))
        return await asyncio.shield(running)

    async def end(self) -> None:
        """Cancel what runs, and wait for it."""
        for running in self._calls.values():
            running.cancel()
        await asyncio.gather(*self._calls.values(), return_exceptions=True)

    async def _run(self, request: SessionCall, run: RunCall) -> SessionCallResult:
        try:
            return await run(request)
        finally:
            self.used = time.monotonic()
