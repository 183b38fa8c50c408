"""A process that leads a session of its own, as its parent sees it.

Law     a terminal's Ctrl-C does not reach it. When it has ended, whatever is left of its group is killed before its id
        is given back, so a kill can hit no stranger. Its end is waited for in a thread: that works on any event loop,
        whoever else waits for children, and is done though the loop is closed meanwhile.
"""

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress


class Child:
    """Takes over a process that has just been started with `start_new_session`."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", *, name: str, at_end: Callable[[], object] = lambda: None
    ) -> None:
        """`name`: of the thread that waits; `at_end`: called in it when nothing of the group is left."""
        self.pid = process.pid
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[int] = loop.create_future()
        """Its exit code, negative for a signal: nothing of its group is left."""
        waiting = threading.Thread(target=self._wait, args=(process, at_end, loop), name=name, daemon=True)
        waiting.start()

    async def exit_code(self) -> int:
        """Wait for its end. One waiter's cancellation is not the others'."""
        return await asyncio.shield(self.exited)

    def kill(self) -> None:
        """Kill its whole group, unless it has ended."""
        if not self.exited.done():
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    async def wait_or_kill(self, timeout_s: float) -> int:
        """Its exit code: wait for its end, and kill it after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self.exit_code()
        except TimeoutError:
            self.kill()
            return await self.exit_code()

    def _wait(
        self, process: "subprocess.Popen[bytes]", at_end: Callable[[], object], loop: asyncio.AbstractEventLoop
    ) -> None:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        at_end()
        with suppress(RuntimeError):  # nobody waits any more: the loop is closed
            loop.call_soon_threadsafe(self._set_exited, code)

    def _set_exited(self, code: int) -> None:
        if not self.exited.done():
            self.exited.set_result(code)


def exit_in_words(code: int) -> str:
    """An exit code as the end of a sentence: `ended with exit code 1`, `was killed by SIGKILL`."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
