"""The keepers' parent as its provider sees it: asked for keepers, and replaced when it has ended.

Law     a sandbox lives on without the parent of its keeper; only new ones need it. One wish starts at most `STARTS`
        parents more, with a pause before each but the first; then that is an error.
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
from paddock.signals import interrupts_held
from paddock.types import JsonObject

STARTS = 3
PAUSE_S = 0.2
"""Before the second of them; twice as long before each further one."""
END_S = 1.0
"""For one whose socket is closed to be gone; then it is killed."""
STDERR_BYTES = 4096
"""The last that a parent wrote are quoted."""
STDERR_MAX_BYTES = 1 << 20
"""Above what a pipe holds."""
COMMAND = (
    *(sys.executable, "-S", "-E", "-s", "-c"),
    (
        "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
        "signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT}); "
        "sys.path.insert(0, sys.argv[1]); from keeper import zygote; zygote.serve(int(sys.argv[2]))"
    ),
    str(Path(__file__).parent),
)
"""Of the parent, which an interrupt ends without a trace; the number of its socket's descriptor follows."""
_log = logging.getLogger(__name__)


class ZygoteError(SandboxError):
    """The parent has ended, or says nothing."""

    def __init__(self, message: str) -> None:
        super().__init__(message, kind="keeper_lost")


class Keeper(NamedTuple):
    """A new one; both descriptors are whoever's asked for it."""

    link: socket.socket
    """Its packets tell who sent them."""
    pid: int
    life: int
    """Its process, held: readable when it has ended."""
    status: "asyncio.Future[int | None] | None" = None
    """How it ended: exit code, or minus a signal's number, once its parent has told; None: nobody will."""

    def close(self) -> None:
        """It ends then."""
        self.link.close()
        os.close(self.life)


class Keepers:
    """Starts keepers; one per provider. `timeout_s`: for one parent to fork one; `command`: as `COMMAND`."""

    def __init__(self, timeout_s: float, command: Sequence[str] = COMMAND) -> None:
        self._timeout_s = timeout_s
        self._command = command
        self._asking = asyncio.Lock()
        self._zygote = Zygote(command)

    async def fork(self) -> Keeper:
        async with self._asking:
            for start in range(STARTS + 1):
                try:
                    return await self._zygote.fork(self._timeout_s)
                except ZygoteError as gone:
                    _log.warning("%s%s", gone.message, "; it is replaced" if start < STARTS else "")
                    if start == STARTS:
                        raise ZygoteError(
                            f"no sandbox can be started: {gone.message}; {STARTS} more ended too"
                        ) from gone
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
            self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with contextlib.ExitStack() as undo, theirs:
                undo.callback(self._link.close)
                # Nobody reads it before the end: what it can't hold is lost, and nobody waits for room.
                read, stderr = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
                self._stderr = os.fdopen(read, "rb", buffering=0)
                undo.callback(self._stderr.close)
                try:
                    self._process = _started(command, theirs, stderr)
                finally:
                    os.close(stderr)
                self._link.setblocking(False)
                undo.pop_all()
            self._answers: dict[int, asyncio.Future[JsonObject]] = {}
            self._statuses: dict[int, asyncio.Future[int | None]] = {}
            """Of keepers that live, by process id."""
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self._link, self._read)
        except OSError as error:
            text = f"the keepers' parent can't be started: {shortage.explained(error)}"
            raise SandboxError(text, kind="keeper_lost") from error

    async def fork(self, timeout_s: float) -> Keeper:
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError as error:
            raise SandboxError(f"no keeper: {shortage.explained(error)}", kind="keeper_refused") from error
        try:
            with theirs:
                ours.setblocking(False)
                messages.ask_for_senders(ours)
                pid = await self._fork(theirs, timeout_s)
            return Keeper(ours, pid, self._held(pid), self._statuses.get(pid))
        except BaseException:
            ours.close()
            raise

    async def close(self) -> None:
        """Returns when it has ended; one that goes on without its socket is killed."""
        self._lose(EOFError("it was closed"))
        self._link.close()
        await asyncio.to_thread(self._wait)

    def _wait(self) -> None:
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stderr.close()

    def _held(self, pid: int) -> int:
        try:
            life = os.pidfd_open(pid)
        except ProcessLookupError:
            raise SandboxError("a keeper ended before it was asked anything", kind="keeper_lost") from None
        except OSError as error:
            raise SandboxError(f"no keeper: {shortage.explained(error)}", kind="keeper_refused") from error
        found = processes.state(pid)
        if found is None or found.parent != self._process.pid:
            os.close(life)
            raise SandboxError("a keeper ended before it was asked anything", kind="keeper_lost")
        return life

    async def _fork(self, theirs: socket.socket, timeout_s: float) -> int:
        """The new keeper's process id."""
        number = next(self._ids)
        answered = self._answers[number] = self._loop.create_future()
        try:
            try:
                async with asyncio.timeout(timeout_s):
                    messages.send(self._link, {"op": "fork", "id": number}, [theirs.fileno()])
                    answer = await answered
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
        """Take what it says: answers, of which those to cancelled wishes are passed over, and ends of keepers."""
        try:
            while True:
                message, _ = messages.receive(self._link)
                if message["op"] == "ended":
                    status = self._statuses.pop(message["pid"], None)
                    if status is not None:
                        status.set_result(message["status"])
                    continue
                if message["op"] == "forked":
                    self._statuses[message["pid"]] = self._loop.create_future()
                answered = self._answers.pop(message["id"], None)
                if answered is not None and not answered.done():
                    answered.set_result(message)
        except BlockingIOError:
            return
        except (EOFError, OSError) as error:
            self._lose(error)

    def _lose(self, error: Exception) -> None:
        """It says no more."""
        if self._link.fileno() >= 0:
            self._loop.remove_reader(self._link)
        for answered in self._answers.values():
            if not answered.done():
                answered.set_exception(error)
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
        said = b"" if self._stderr.closed else (self._stderr.read(STDERR_MAX_BYTES) or b"")
        words = said[-STDERR_BYTES:].decode(errors="replace").strip()
        return f"the keepers' parent {how}" + (f"; it said: {words}" if words else "")


def _started(command: Sequence[str], link: socket.socket, stderr: int) -> "subprocess.Popen[bytes]":
    with interrupts_held():
        return subprocess.Popen(
            [*command, str(link.fileno())],
            pass_fds=[link.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
            env={"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"},
            cwd="/",
        )
