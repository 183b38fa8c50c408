"""Running a coroutine as a program: uvloop where it is installed, and an end that nothing can hold up.

Law     SIGINT, SIGTERM and SIGHUP cancel the coroutine, once; further ones change nothing. What then still runs after
        `stop_timeout_s` is ended with the process, whatever it waits for.
"""

import asyncio
import gc
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from paddock.signals import handle_first

GRACE_S = 0.3
"""Seconds beyond the stop timeout: the timeouts inside come first."""


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop's, else asyncio's."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def spare_collector() -> None:
    """Make this process's garbage collector look less often, and never at what was imported.

    For programs that parse rows all day: they make many containers and few cycles. Default thresholds cost a rollout
    of 30 kB about a tenth of its CPU time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def run_until_signalled(main: Coroutine[Any, Any, int], *, stop_timeout_s: float) -> int:
    """The exit code of `main`; 0 when a signal ended it. For the main thread."""
    spare_collector()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_signalled(main, stop_timeout_s))


async def _signalled(main: Coroutine[Any, Any, int], stop_timeout_s: float) -> int:
    task = asyncio.get_running_loop().create_task(main)
    signalled = False

    def stop() -> None:
        nonlocal signalled
        signalled = True
        exit_after(stop_timeout_s + GRACE_S)
        task.cancel()

    with handle_first(stop, again=signal.SIG_IGN):
        try:
            return await task
        except asyncio.CancelledError:
            if not signalled:
                raise
            return 0


def exit_after(seconds: float) -> None:
    """End this process when it still runs after `seconds`: a loop or a thread of it may be stuck for good."""
    timer = threading.Timer(seconds, os._exit, (1,))
    timer.daemon = True
    timer.start()
