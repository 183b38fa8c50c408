"""The process of a server of NeMo-Gym's: started, waited for until it serves, started again when it dies.

Law     however this process ends, nothing of it is left: the supervisor stands over it (`paddock.processes`).
Output  a log file in the folder of the process; its last lines are in the error of a failed start and of a death.
Errors  InfraError `start_failed`, `start_timeout`, neither retryable; `server_down` while it is not there.
"""

import asyncio
import logging
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import orjson

from paddock.errors import InfraError
from paddock.processes import LinkedProcess, Supervised, exit_in_words, restart_wait_s, start_supervised
from paddock.server.nemo_gym.environment import GymCommand
from paddock.temporary import Hold, hold_scratch
from paddock.types import JsonObject

PROGRAM = Path(__file__).with_name("serve.py")
POLL_S = 0.05
GRACE_S = 1.0
"""Between the signal to end and the kill."""
LOG_LINES = 15
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|\APADDOCK_", re.IGNORECASE)
_progress = logging.getLogger("paddock.progress")


class RestartLimits(NamedTuple):
    """How often a process that died is started again."""

    most: int
    first_wait_s: float
    serve_timeout_s: float


class GymProcess:
    """`start` once, then `stop`."""

    def __init__(
        self,
        name: str,
        command: GymCommand,
        handover: JsonObject,
        env: Mapping[str, str],
        limits: RestartLimits,
        on_death: Callable[[], None],
    ) -> None:
        """`handover`: what `serve.py` reads, but for the file that it writes."""
        self._name = name
        self._command = command
        self._handover = handover
        self._env = env
        self._limits = limits
        self._on_death = on_death
        self._url: str | None = None
        self._why = "it has not started"
        self._hold: Hold | None = None
        self._child: Supervised | None = None
        self._watch_task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Where it listens. Raises InfraError while it does not."""
        if self._url is None:
            raise InfraError(f"{self._name}: is down: {self._why}", kind="server_down")
        return self._url

    @property
    def is_up(self) -> bool:
        return self._url is not None

    @property
    def pid(self) -> int:
        """Of the supervisor, which leads the group; 0: there is none."""
        return self._child.pid if self._child is not None else 0

    async def start(self) -> None:
        """Serves when it returns; gone when it raises."""
        self._hold = await asyncio.to_thread(hold_scratch)
        try:
            await self._launch(self._hold.folder)
        except BaseException:
            await self.stop()
            raise
        self._watch_task = asyncio.create_task(self._watch(self._hold.folder))

    async def stop(self) -> None:
        if self._watch_task is not None:
            self._watch_task.cancel()
            await asyncio.gather(self._watch_task, return_exceptions=True)
        self._url, self._why = None, "it was stopped"
        try:
            if self._child is not None:
                await self._child.end()
        finally:
            if self._hold is not None:
                shutil.rmtree(self._hold.folder, ignore_errors=True)
                self._hold.release()

    async def _launch(self, folder: Path) -> None:
        started_at = time.monotonic()
        child = self._child = self._spawn(folder)
        limit_s = self._limits.serve_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                while not (folder / "ready").exists():
                    if child.exited.done():
                        raise self._start_error(folder, _exit_text(child.exited.result()), "start_failed")
                    await asyncio.sleep(POLL_S)
        except TimeoutError as error:
            await child.end()
            raise self._start_error(folder, f"did not serve within {limit_s:.3g} s", "start_timeout") from error
        self._url = f"http://127.0.0.1:{int((folder / 'ready').read_text())}"
        _progress.info("%s: ready after %.1f s", self._name, time.monotonic() - started_at)

    def _spawn(self, folder: Path) -> Supervised:
        scratch: str | None = None
        try:
            (folder / "ready").unlink(missing_ok=True)
            # Short, because sockets are made in it; it is gone with the process.
            scratch = tempfile.mkdtemp(prefix="gym-")
            started = self._start(folder, scratch)
        except OSError as error:
            if scratch is not None:
                shutil.rmtree(scratch, ignore_errors=True)
            text = f"{self._name}: can't be started: {error}"
            raise InfraError(text, kind="start_failed", retryable=False) from error
        return Supervised(
            started,
            name=f"{self._name}-exit",
            grace_s=GRACE_S,
            at_end=lambda: shutil.rmtree(scratch, ignore_errors=True),
        )

    def _start(self, folder: Path, scratch: str) -> LinkedProcess:
        file = folder / "config.json"
        file.touch(mode=0o600)
        file.write_bytes(orjson.dumps({**self._handover, "ready": str(folder / "ready")}))
        with (folder / "log").open("wb") as log:
            return start_supervised(
                [self._command.python, "-P", PROGRAM, file],
                scratch=scratch,
                grace_s=GRACE_S,
                stdout=log,
                stderr=log,
                env={**_own_variables(), **self._env, **_variables(self._command, scratch)},
                cwd=self._command.folder,
            )

    async def _watch(self, folder: Path) -> None:
        """Start it again whenever it has died."""
        for restart in range(1, self._limits.most + 2):
            assert self._child is not None
            code = await self._child.exit_code()
            self._url, self._why = None, f"its process {_exit_text(code)}"
            self._on_death()
            _progress.warning("%s: %s; the end of its log:\n%s", self._name, self._why, _last_lines(folder / "log"))
            if restart > self._limits.most:
                break
            await asyncio.sleep(restart_wait_s(restart, self._limits.first_wait_s))
            with suppress(InfraError):
                await self._launch(folder)
        self._why = f"{self._why}; it was started again {self._limits.most} times"

    def _start_error(self, folder: Path, how: str, kind: str) -> InfraError:
        text = f"{self._name}: NeMo-Gym's server {how}; the end of its log:\n{_last_lines(folder / 'log')}"
        return InfraError(text, kind=kind, retryable=False)


def _exit_text(code: int) -> str:
    """The supervisor's exit code in words: above 128 there is a signal in it."""
    return exit_in_words(code if code < 128 else 128 - code)


def _own_variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not _SECRET.search(name)}


def _variables(command: GymCommand, scratch: str) -> dict[str, str]:
    return {
        "PYTHONPATH": str(command.folder),
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": scratch,
        # Ours comes last, for uv: some make an environment of their own.
        "PATH": os.pathsep.join(
            [str(command.python.parent), os.environ.get("PATH", ""), str(Path(sys.executable).parent)]
        ),
        # Nothing of it is for others to see.
        "WANDB_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        # Its name is of other systems; on each it makes a Ray of one node, which listens on loopback alone.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    }


def _last_lines(log: Path) -> str:
    lines: list[str] = []
    with suppress(OSError):  # somebody cleaned it away
        lines = log.read_text(errors="replace").splitlines()[-LOG_LINES:]
    return "\n".join(f"    {line[:500]}" for line in lines)
