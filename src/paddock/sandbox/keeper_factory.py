"""Starts keepers for a provider by forking a zygote (`keeper.zygote`), which is replaced when it has ended.

Law     a sandbox lives on without the parent of its keeper; only new ones need it. One `fork` starts at most `STARTS`
        parents more, with a pause before each but the first; after that it is an error.
Errors  SandboxError `keeper_lost`: how the parent ended, and the last that it wrote to stderr; `keeper_refused`: it
        lives, and this machine gives it no further process.
"""

import asyncio
import contextlib
import itertools
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from paddock.sandbox import processes
from paddock.sandbox.failures import SandboxError
from paddock.sandbox.keeper import messages, shortage
from paddock.signals import hold_interrupts
from paddock.types import JsonObject

STARTS = 3
PAUSE_S = 0.2
"""Pause before the second start; twice as long before each further one."""
END_S = 1.0
"""Seconds for a parent whose socket is closed to end; then it is killed."""
STDERR_BYTES = 4096
"""Of what a parent wrote, the last bytes that an error quotes."""
STDERR_MAX_BYTES = 1 << 20
"""More than a pipe holds."""
COMMAND = (
    *(sys.executable, "-S", "-E", "-s", "-c"),
    (
        "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
        "signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT}); "
        "sys.path.insert(0, sys.argv[1]); from keeper import zygote; zygote.serve(int(sys.argv[2]))"
    ),
    str(Path(__file__).parent),
)
"""Command of the parent, which an interrupt ends without a traceback; its socket's descriptor number is appended."""
_log = logging.getLogger(__name__)


class ZygoteError(SandboxError):
    """The parent has ended, or does not answer."""

    def __init__(self, message: str) -> None:
        super().__init__(message, kind="keeper_lost")


class KeeperProcess(NamedTuple):
    """A new keeper; the caller owns both descriptors."""

    channel: socket.socket
    """Socket to it, whose packets carry their sender's process id."""
    pid: int
    pidfd: int
    """Pidfd of its process: readable when it has ended."""
    status: "asyncio.Future[int | None] | None" = None
    """How it ended: exit code, or minus a signal's number, once its parent has reported it; None: unknown for good."""

    def close(self) -> None:
        """Let go of both descriptors, by which the keeper ends."""
        self.channel.close()
        os.close(self.pidfd)


class KeeperFactory:
    """Starts keepers; one factory per provider. `timeout_s`: for a parent to fork one; `command`: as `COMMAND`."""

    def __init__(self, timeout_s: float, command: Sequence[str] = COMMAND) -> None:
        self._timeout_s = timeout_s
        self._command = command
        self._lock = asyncio.Lock()
        self._zygote = Zygote(command)

    async def fork(self) -> KeeperProcess:
        async with self._lock:
            for start in range(STARTS + 1):
                try:
                    return await self._zygote.fork(self._timeout_s)
                except ZygoteError as gone:
                    _log.warning("%s%s", gone.message, "; it is replaced" if start < STARTS else "")
                    if start == STARTS:
                        message = f"no sandbox can be started: {gone.message}; {STARTS} more ended too"
                        raise ZygoteError(message) from gone
                    await self._replace(PAUSE_S * 2 ** (start - 1) if start else 0.0)
        raise AssertionError("unreachable")

    async def close(self) -> None:
        """Returns when it has ended."""
        await self._zygote.close()

    async def _replace(self, pause_s: float) -> None:
        await self._zygote.close()
        await asyncio.sleep(pause_s)
        self._zygote = Zygote(self._command)


class Zygote:
    """One parent; SandboxError where it can't be started."""

    def __init__(self, command: Sequence[str]) -> None:
        self._ids = itertools.count(1)
        try:
            self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with contextlib.ExitStack() as undo, theirs:
                undo.callback(self._channel.close)
                # It is read only after the parent's end: what the pipe can't hold is lost, and nothing blocks on it.
                read, stderr = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
                self._stderr = os.fdopen(read, "rb", buffering=0)
                undo.callback(self._stderr.close)
                try:
                    self._process = _start_process(command, theirs, stderr)
                finally:
                    os.close(stderr)
                self._channel.setblocking(False)
                undo.pop_all()
            self._answers: dict[int, asyncio.Future[JsonObject]] = {}
            self._statuses: dict[int, asyncio.Future[int | None]] = {}
            """Exit statuses of keepers that live, by process id."""
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self._channel, self._read)
        except OSError as error:
            text = f"the keepers' parent can't be started: {shortage.explain(error)}"
            raise SandboxError(text, kind="keeper_lost") from error

    async def fork(self, timeout_s: float) -> KeeperProcess:
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError as error:
            raise SandboxError(f"no keeper: {shortage.explain(error)}", kind="keeper_refused") from error
        try:
            with theirs:
                ours.setblocking(False)
                messages.ask_for_senders(ours)
                pid = await self._fork(theirs, timeout_s)
            return KeeperProcess(ours, pid, self._open_pidfd(pid), self._statuses.get(pid))
        except BaseException:
            ours.close()
            raise

    async def close(self) -> None:
        """Return when the parent has ended; one that goes on without its socket is killed."""
        self._lose(EOFError("it was closed"))
        self._channel.close()
        await asyncio.to_thread(self._wait)

    def _wait(self) -> None:
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stderr.close()

    def _open_pidfd(self, pid: int) -> int:
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            raise SandboxError("a keeper ended before its first request", kind="keeper_lost") from None
        except OSError as error:
            raise SandboxError(f"no keeper: {shortage.explain(error)}", kind="keeper_refused") from error
        state = processes.state(pid)
        if state is None or state.parent != self._process.pid:
            os.close(pidfd)
            raise SandboxError("a keeper ended before its first request", kind="keeper_lost")
        return pidfd

    async def _fork(self, theirs: socket.socket, timeout_s: float) -> int:
        """The new keeper's process id."""
        number = next(self._ids)
        future = self._answers[number] = self._loop.create_future()
        try:
            try:
                async with asyncio.timeout(timeout_s):
                    messages.send(self._channel, {"op": "fork", "id": number}, [theirs.fileno()])
                    answer = await future
            finally:
                self._answers.pop(number, None)
        except TimeoutError:
            self._process.kill()
            raise ZygoteError(f"the keepers' parent did not answer in {timeout_s:g} s") from None
        except (EOFError, OSError) as error:
            raise ZygoteError(await asyncio.to_thread(self._end)) from error
        if answer["op"] == "refused":
            raise SandboxError(f"no keeper: {answer['error']}", kind="keeper_refused")
        pid: int = answer["pid"]
        return pid

    def _read(self) -> None:
        """Read its messages: answers, of which those to cancelled requests are dropped, and ends of keepers."""
        try:
            while True:
                message, _ = messages.receive(self._channel)
                if message["op"] == "ended":
                    status = self._statuses.pop(message["pid"], None)
                    if status is not None:
                        status.set_result(message["status"])
                    continue
                if message["op"] == "forked":
                    self._statuses[message["pid"]] = self._loop.create_future()
                future = self._answers.pop(message["id"], None)
                if future is not None and not future.done():
                    future.set_result(message)
        except BlockingIOError:
            return
        except (EOFError, OSError) as error:
            self._lose(error)

    def _lose(self, error: Exception) -> None:
        """Fail whatever waits for the parent, which sends no more."""
        if self._channel.fileno() >= 0:
            self._loop.remove_reader(self._channel)
        for future in self._answers.values():
            if not future.done():
                future.set_exception(error)
        for status in self._statuses.values():
            status.set_result(None)
        self._statuses.clear()

    def _end(self) -> str:
        """How it ended. Blocks, shortly: its side of the socket is closed."""
        try:
            code = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return "the keepers' parent closed its socket"
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        output = b"" if self._stderr.closed else (self._stderr.read(STDERR_MAX_BYTES) or b"")
        text = output[-STDERR_BYTES:].decode(errors="replace").strip()
        return f"the keepers' parent {how}" + (f"; it said: {text}" if text else "")


def _start_process(command: Sequence[str], channel: socket.socket, stderr: int) -> "subprocess.Popen[bytes]":
    with hold_interrupts():
        return subprocess.Popen(
            [*command, str(channel.fileno())],
            pass_fds=[channel.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
            env={"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"},
            cwd="/",
        )
