"""Checks of untrusted input in processes that may die: bounded in CPU time, memory and number, quick to replace.

Lanes   each check has a short CPU limit first, in one of `processes`; the few that need more run again, one at a time,
        with the whole limit. So a check that uses it up holds up only others of its kind.
Limits  CPU seconds, not wall seconds: a busy machine changes no answer. One that gets no CPU for `stalled_s` is a
        failure of the machine.
Errors  VerifierError where a process died in the same check twice for another reason than its limit, or stalled.
        InfraError where the processes can't be started. The process that forks them is replaced when it has died.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from paddock.errors import InfraError, VerifierError
from paddock.linux import INSTEAD, require_linux, usable_cores
from paddock.processes.check_forks import MAX_MESSAGE
from paddock.processes.child import Child, exit_in_words

FORKS = Path(__file__).with_name("check_forks.py")
_ENV = {"PATH": os.defpath, "LANG": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1"}
"""A check needs no variable of ours, least of all a secret."""


class CheckLimits(NamedTuple):
    """Bounds of the checks of one pool."""

    processes: int | None
    """Processes of the first lane; None: one for each core, 4 at most."""
    first_cpu_s: float
    """CPU seconds of a check's first run."""
    cpu_s: float
    """CPU seconds of its second run, after which it is given up."""
    memory_mib: int
    """Address space of a process, the interpreter and the library included (about 150 MiB)."""
    stalled_s: float = 60.0
    """Seconds without an answer after which the machine is to blame."""
    checks_per_process: int = 5000
    """After as many a process is replaced: what libraries remember stays bounded."""


class CpuTimeOverError(Exception):
    """A check used up its CPU time."""


class _ProcessDiedError(Exception):
    """A checking process ended for another reason than its limit."""


class _Process:
    """One fork, as its caller sees it."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.pid: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.n_checks = 0
        self.not_started = ""
        """Why there is none; empty: there is."""


class CheckPool:
    """Runs `check` of a module file; see `check_forks.py`. Made by `start`, ended by `close`."""

    def __init__(self, module: Path, limits: CheckLimits) -> None:
        self._module = module
        self._limits = limits
        self._first = asyncio.Semaphore(limits.processes or min(4, usable_cores()))
        self._second = asyncio.Semaphore(1)
        self._starting = asyncio.Lock()
        self._idle: list[_Process] = []
        self._forks: dict[int, _Process] = {}
        """By the number of the request that started it, until its id is known, then by that id."""
        self._n_started = 0
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self._child: Child
        self._channel: socket.socket

    @classmethod
    async def start(cls, module: Path, limits: CheckLimits) -> "CheckPool":
        """Start the process that forks; it loads the module meanwhile. ConfigError where the system is not Linux."""
        require_linux(f"the checks of {module.parent.name} are held by limits of", INSTEAD)
        pool = cls(module, limits)
        await pool._start_forking()
        return pool

    async def _start_forking(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(0)
        argv = [sys.executable, "-I", str(FORKS), str(theirs.fileno()), str(self._limits.memory_mib), str(self._module)]
        try:
            process = await asyncio.to_thread(
                subprocess.Popen,
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=_ENV,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise InfraError(f"can't start {argv[0]}: {error.strerror}", kind="check_processes") from error
        finally:
            theirs.close()
        self._child = Child(process, name="checks")
        self._channel = ours
        self._loop.add_reader(ours, self._read_events)

    async def close(self) -> None:
        """End all processes. Again: nothing happens."""
        self._closed = True
        async with self._starting:
            self._lost()
        self._child.kill()
        await self._child.exit_code()
        for process in self._idle:
            process.connection.close()
        self._idle.clear()

    async def check(self, value: Any) -> Any:
        """The module's answer; CpuTimeOverError where it needs more than both limits."""
        for retry in (True, False):
            try:
                return await self._in_lanes(value)
            except _ProcessDiedError as death:
                if not retry:
                    raise VerifierError(f"a checking process {death}", kind="check_process_died") from death
        raise AssertionError("unreachable")

    async def _in_lanes(self, value: Any) -> Any:
        try:
            async with self._first:
                return await self._run(value, self._limits.first_cpu_s)
        except CpuTimeOverError:
            async with self._second:
                return await self._run(value, self._limits.cpu_s)

    async def _run(self, value: Any, cpu_s: float) -> Any:
        # Not escaped: no character takes more than 6 bytes.
        message = json.dumps([cpu_s, value], ensure_ascii=False).encode(errors="surrogatepass")
        assert len(message) <= MAX_MESSAGE, "a request is shorter than a message: whoever asks has bounded it"
        async with self._process() as process:
            try:
                async with asyncio.timeout(self._limits.stalled_s):
                    await self._loop.sock_sendall(process.connection, message)
                    reply = await self._loop.sock_recv(process.connection, MAX_MESSAGE)
                    if reply:
                        process.n_checks += 1
                        return json.loads(reply)
                    status = await process.status
            except TimeoutError:
                if self._child.exited.done():
                    raise InfraError("the checking processes have ended", kind="check_processes") from None
                stalled = f"no answer of a checking process in {self._limits.stalled_s:g} s"
                raise VerifierError(stalled, kind="check_stalled") from None
            except ConnectionError:
                status = await process.status
            if process.not_started:
                raise InfraError(f"can't start a checking process: {process.not_started}", kind="check_processes")
            if status == -signal.SIGPROF:
                raise CpuTimeOverError
            raise _ProcessDiedError(exit_in_words(status))

    @asynccontextmanager
    async def _process(self) -> AsyncIterator[_Process]:
        """A process for one check; it is kept if it answered."""
        process = self._idle_one() or await self._fork()
        before = process.n_checks
        try:
            yield process
        finally:
            if process.n_checks > before and process.n_checks < self._limits.checks_per_process:
                self._idle.append(process)
            else:
                process.connection.close()
                if process.pid.done() and not process.status.done():
                    self._send({"kill": process.pid.result()})

    def _idle_one(self) -> _Process | None:
        while self._idle:
            process = self._idle.pop()
            if not process.status.done():
                return process
            process.connection.close()
        return None

    async def _fork(self) -> _Process:
        async with self._starting:
            if self._closed:
                raise InfraError("the checking processes have been ended", kind="check_processes")
            if self._channel.fileno() < 0:
                await self._start_forking()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(0)
        process = _Process(ours)
        self._n_started += 1
        self._forks[-self._n_started] = process
        try:
            self._send({"seq": self._n_started}, theirs.fileno())
        except InfraError:
            del self._forks[-self._n_started]
            ours.close()
            raise
        finally:
            theirs.close()
        return process

    def _send(self, message: dict[str, int], *fds: int) -> None:
        try:
            socket.send_fds(self._channel, [json.dumps(message).encode()], fds)
        except ConnectionError:
            self._lost()
        except OSError as error:
            raise InfraError(
                f"the checking processes can't be asked: {error.strerror}", kind="check_processes"
            ) from error

    def _read_events(self) -> None:
        try:
            while message := self._channel.recv(4096):
                event = json.loads(message)
                if "ended" in event:
                    self._forks.pop(event["ended"]).status.set_result(event["status"])
                    continue
                process = self._forks.pop(-event["seq"])
                if "problem" in event:
                    process.not_started = event["problem"]
                    process.status.set_result(-signal.SIGKILL)
                else:
                    self._forks[event["pid"]] = process
                    process.pid.set_result(event["pid"])
        except BlockingIOError:
            return
        except ConnectionError:
            pass
        self._lost()

    def _lost(self) -> None:
        """Let nobody wait for news of a fork, and none be asked for: there is no process that forks."""
        if self._channel.fileno() >= 0:
            self._loop.remove_reader(self._channel)
            self._channel.close()
        for process in self._forks.values():
            if not process.status.done():
                process.status.set_result(-signal.SIGKILL)
        self._forks.clear()
