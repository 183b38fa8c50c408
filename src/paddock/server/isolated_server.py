"""One isolated server over its life: started, restarted on the same socket when it dies, stopped.

Law     restarts are counted over the server's life and end at `max_restarts`; then its socket is closed, so that
        callers are refused and do not wait, and the runtime is told. Each death and restart is logged.
"""

import asyncio
import logging
import socket
from collections.abc import Callable

from paddock.errors import InfraError, PaddockError
from paddock.processes import exit_in_words, restart_wait_s
from paddock.server.handover import Handover
from paddock.server.process import ServerProcess
from paddock.server.settings import ServeSettings

_log = logging.getLogger("paddock.server")


class IsolatedServer:
    """Keeps one server alive. `fail` is called once, when it is given up."""

    def __init__(
        self, handover: Handover, sock: socket.socket, settings: ServeSettings, fail: Callable[[InfraError], None]
    ) -> None:
        self.name = handover.name
        self.process: ServerProcess | None = None
        self._handover = handover
        self._sock = sock
        self._settings = settings
        self._fail = fail
        self._watching: asyncio.Task[None] | None = None

    @property
    def start_timeout_s(self) -> float:
        return self._settings.start_timeout_s

    @property
    def stop_timeout_s(self) -> float:
        return self._settings.stop_timeout_s

    async def prepare(self) -> None:
        """Start its process, up to where it may serve; raises what it says against that."""
        self.process = ServerProcess(self._handover)
        await self.process.prepare()

    async def go(self) -> None:
        """Let it serve, and watch it from now on."""
        process = self._running
        await process.go()
        self._watching = asyncio.create_task(self._watch(process))

    async def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        self._sock.close()
        if self.process is not None:
            await self.process.stop(self._settings.stop_timeout_s)

    @property
    def _running(self) -> ServerProcess:
        assert self.process is not None  # `prepare` has set it
        return self.process

    async def _watch(self, process: ServerProcess) -> None:
        limit = self._settings.max_restarts
        how = exit_in_words(await process.exit_code())
        for restart in range(1, limit + 1):
            wait_s = restart_wait_s(restart, self._settings.restart_wait_s)
            _log.warning("%s: its process %s; restart %d of %d in %.1f s", self.name, how, restart, limit, wait_s)
            await asyncio.sleep(wait_s)
            try:
                async with asyncio.timeout(self._settings.start_timeout_s):
                    await self.prepare()
                    await self._running.go()
            except (PaddockError, OSError) as error:
                _log.warning("%s: did not start again: %s", self.name, str(error) or "not ready in time")
                self._running.kill()
            else:
                _log.warning("%s: is back, process %d", self.name, self._running.pid)
            how = exit_in_words(await self._running.exit_code())
        self._sock.close()
        self._fail(
            InfraError(
                f"{self.name}: its process {how}, and it was restarted {limit} times already: given up",
                kind="server_failed",
                retryable=False,
            )
        )
