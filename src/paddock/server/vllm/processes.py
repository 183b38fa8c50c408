"""One vLLM process of our own: started, waited for until it is well, and gone with all that it started.

Law     however this process ends, killed too, nothing of vLLM is left within `stop_timeout_s` and a moment: the
        supervisor stands over it (`paddock.processes.supervised`).
Output  a log file, the one before it kept as `.1`; its last lines are in the error of a failed start. That it loads,
        where its log is and that it is ready is logged (`paddock.progress`).
Port    chosen here, and held until it listens: bound with SO_REUSEADDR, which keeps it from whoever wants any free
        port, and lets vLLM, which sets it too, bind it as well.
Errors  InfraError `start_failed`, `start_timeout`, neither retryable.
"""

import asyncio
import logging
import shutil
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import aiohttp

from paddock.errors import BugError, InfraError
from paddock.processes import Supervised, exit_in_words, start_supervised
from paddock.server.engine_client import EngineClient
from paddock.server.vllm.progress_watch import ProgressWatch

POLL_S = 0.2
LOG_LINES = 15
_progress = logging.getLogger("paddock.progress")


class VllmCommand(NamedTuple):
    """What is started, and with which limits."""

    argv: Sequence[str]
    """Without host and port."""
    env: Mapping[str, str]
    log: Path
    start_timeout_s: float
    stop_timeout_s: float
    what: str
    """What loads, in words."""
    model: str = ""
    """The name under which it serves its model."""
    key: str | None = None
    """What it asks for; None: nothing."""
    stall_timeout_s: float | None = None
    """See `LaunchSettings`; None: it is not watched."""


class VllmProcess:
    """One vLLM process: `start` once, then `stop`."""

    def __init__(self, name: str, command: VllmCommand, session: aiohttp.ClientSession) -> None:
        self.name = name
        self.url = ""
        """Its root, once started."""
        self._command = command
        self._session = session
        self._child: Supervised | None = None
        self.watch: ProgressWatch | None = None
        """None: it is not watched, or has not started."""

    @property
    def pid(self) -> int:
        """The supervisor's, which leads the group; 0: it has not started."""
        return 0 if self._child is None else self._child.pid

    @property
    def exited(self) -> "asyncio.Future[int]":
        """Its exit code: it has ended, and nothing is left of it."""
        if self._child is None:
            raise BugError(f"{self.name}: was not started", kind="not_started")
        return self._child.exited

    @property
    def stalled(self) -> "asyncio.Future[str]":
        """Why it counts as one that hangs, though it is healthy."""
        return self.watch.stalled if self.watch is not None else asyncio.get_running_loop().create_future()

    @property
    def exit_text(self) -> str:
        """How it ended, in words."""
        code = self.exited.result()
        return exit_in_words(code if code < 128 else 128 - code)

    async def start(self) -> None:
        """Start it: well when this returns, gone when it raises."""
        started_at = time.monotonic()
        _progress.info("%s: vLLM loads %s, its log is %s", self.name, self._command.what, self._command.log)
        with _reserve_port() as port_holder:
            port = port_holder.getsockname()[1]
            self.url = f"http://127.0.0.1:{port}"
            try:
                self._spawn(port)
                await self._until_well()
            except BaseException as error:
                await self.stop()
                if isinstance(error, OSError):
                    text = f"{self.name}: can't be started: {error}"
                    raise InfraError(text, kind="start_failed", retryable=False) from error
                raise
        _progress.info("%s: ready after %.0f s", self.name, time.monotonic() - started_at)
        command = self._command
        if command.stall_timeout_s is not None:
            client = EngineClient(self._session, self.url, command.key)
            self.watch = ProgressWatch(client, command.model, command.stall_timeout_s)
            self.watch.start()

    async def stop(self) -> None:
        """End it; what has not ended in time is killed. Cancelled: it ends all the same."""
        if self.watch is not None:
            await self.watch.stop()
        if self._child is not None:
            await self._child.end()

    async def is_well(self, timeout_s: float) -> bool:
        """Whether `/health` answers 200 in that time."""
        if self.exited.done():
            return False
        try:
            async with asyncio.timeout(timeout_s), self._session.get(f"{self.url}/health") as answer:
                return answer.status == 200
        except (TimeoutError, aiohttp.ClientError):
            return False

    async def _until_well(self) -> None:
        limit_s = self._command.start_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                while not await self.is_well(POLL_S * 10):
                    if self.exited.done():
                        raise self._start_error(self.exit_text, kind="start_failed")
                    await asyncio.sleep(POLL_S)
        except TimeoutError as error:
            raise self._start_error(f"was not well within {limit_s:.3g} s", kind="start_timeout") from error

    def _start_error(self, how: str, *, kind: str) -> InfraError:
        lines: list[str] = []
        with suppress(OSError):  # somebody cleaned it away
            lines = self._command.log.read_text(errors="replace").splitlines()[-LOG_LINES:]
        text = "\n".join(f"    {line}" for line in lines)
        return InfraError(
            f"{self.name}: vLLM {how}; the end of {self._command.log}:\n{text}", kind=kind, retryable=False
        )

    def _spawn(self, port: int) -> None:
        command = self._command
        command.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _rotate_log(command.log)
        # Short, because sockets are made in it, and of its own, so that nothing stays of a vLLM that was killed.
        scratch = tempfile.mkdtemp(prefix="vllm-")
        try:
            with command.log.open("wb") as log:
                started = start_supervised(
                    [*command.argv, "--host", "127.0.0.1", "--port", str(port)],
                    scratch=scratch,
                    grace_s=command.stop_timeout_s,
                    stdout=log,
                    stderr=log,
                    env={**command.env, "TMPDIR": scratch},
                )
        except OSError:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
        self._child = Supervised(
            started,
            name=f"{self.name}-exit",
            grace_s=command.stop_timeout_s,
            at_end=lambda: shutil.rmtree(scratch, ignore_errors=True),
        )


def _rotate_log(log: Path) -> None:
    with suppress(FileNotFoundError):
        log.replace(log.with_name(log.name + ".1"))


def _reserve_port() -> socket.socket:
    """A socket bound to a free port, which never listens."""
    port_holder = socket.socket()
    port_holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    port_holder.bind(("127.0.0.1", 0))
    return port_holder
