"""A vLLM of our own that is kept up: watched, and started again when it dies.

Dead    its process has ended, or `/health` was not well `misses` times in a row, or it hangs (`progress_watch`).
Back    started again, with waits that double, at most `max_restarts` times in all, then it is lost.
Errors  those of `processes`, for the first start.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from paddock.errors import PaddockError
from paddock.processes import restart_wait_s
from paddock.server.vllm.launch_settings import LaunchSettings
from paddock.server.vllm.processes import VllmProcess

_log = logging.getLogger(__name__)


class RestartingVllm:
    """A vLLM that is started again when it dies: `start` once, then `stop`."""

    def __init__(
        self,
        name: str,
        make_process: Callable[[], VllmProcess],
        settings: LaunchSettings,
        *,
        check_interval_s: float = 5.0,
        check_timeout_s: float = 10.0,
        misses: int = 3,
    ) -> None:
        self.name = name
        self.url: str | None = None
        """Its root; None: it is down."""
        self.why = "it has not started"
        """Why it is down."""
        self.lost = False
        """It is not started again."""
        self._make_process = make_process
        self._settings = settings
        self._check_interval_s = check_interval_s
        self._check_timeout_s = check_timeout_s
        self._misses = misses
        self._process: VllmProcess | None = None
        self._watch_task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start it: well when this returns; raises what is wrong."""
        await self._start_process()
        self._watch_task = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """Stop it; may be called again, and after a failed start."""
        if self._watch_task is not None:
            self._watch_task.cancel()
            await asyncio.gather(self._watch_task, return_exceptions=True)
        await self._end("it was stopped")

    async def _start_process(self) -> None:
        process = self._make_process()
        await process.start()
        self._process, self.url, self.why = process, process.url, ""

    async def _end(self, why: str) -> None:
        process, self._process, self.url, self.why = self._process, None, None, why
        if process is not None:
            await process.stop()

    async def _watch(self) -> None:
        for restart in range(self._settings.max_restarts + 1):
            if self._process is not None:
                why = await self._death(self._process)
                _log.warning("%s: %s", self.name, why)
                await self._end(why)
            if restart == self._settings.max_restarts:
                break
            await asyncio.sleep(restart_wait_s(restart + 1, self._settings.restart_wait_s))
            try:
                await self._start_process()
                _log.warning("%s: is back, after restart %d", self.name, restart + 1)
            except PaddockError as error:
                self.why = error.message
                _log.warning("%s: is not back: %s", self.name, self.why)
        self.lost = True
        _log.error("%s: given up after %d restarts: %s", self.name, self._settings.max_restarts, self.why)

    async def _death(self, process: VllmProcess) -> str:
        """Wait until it dies, and say how it did."""
        missed = 0
        while missed < self._misses:
            ends: list[asyncio.Future[Any]] = [process.exited, process.stalled]
            await asyncio.wait(ends, timeout=self._check_interval_s, return_when=asyncio.FIRST_COMPLETED)
            if process.exited.done():
                return f"its process {process.exit_text}"
            if process.stalled.done():
                return process.stalled.result()
            missed = 0 if await process.is_well(self._check_timeout_s) else missed + 1
        return f"its health check was not answered well {self._misses} times in a row"
