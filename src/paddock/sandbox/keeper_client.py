"""The provider's client of one keeper: it sends requests over a socket and gives each answer to whoever waits for it.

Errors  SandboxError when the keeper or its sandbox ended, whatever was being waited for; `CommandStartError` when a
        command could not be started through its own fault.
Trust   a message counts only when the keeper itself has sent it, and a process that it names only when it is in the
        sandbox's pid namespace (`Members`). Anything else ends the sandbox as failed, with one line in the log.
"""

import asyncio
import contextlib
import itertools
import json
import logging
import os
import signal
import socket
import stat
from typing import Any, NamedTuple

from paddock.sandbox import processes
from paddock.sandbox.ends import End, How
from paddock.sandbox.failures import SandboxError, SandboxGone, SandboxRequestError
from paddock.sandbox.keeper import messages, shortage
from paddock.sandbox.keeper.launch import StartPlan
from paddock.sandbox.keeper_factory import KeeperProcess
from paddock.sandbox.members import ForeignProcess, Members
from paddock.sandbox.processes import Process
from paddock.types import JsonObject

MESSAGE_BYTES = 1 << 20
"""A keeper's messages are short."""
MESSAGES_AT_ONCE = 64
"""Packets that are read before the event loop has its turn."""
HANGS = "hangs"
STATUS_S = 2.0
"""Seconds for the sandbox's end to show, and for the keeper's parent to report how the keeper ended."""
_WITH_DESCRIPTOR = ("opened", "listening")
_log = logging.getLogger(__name__)


class _KeeperAnswer(NamedTuple):
    message: JsonObject
    fds: list[int]
    process: Process | None = None
    """The process that was started; None: it has ended."""


class CommandStartError(Exception):
    """A command can't be started through its own fault; `errno` says why."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.errno = number


class KeeperCallError(SandboxError):
    """A system call of the keeper's failed."""

    def __init__(self, number: int, message: str, *, inside: bool) -> None:
        """`inside`: the call failed in the command's own process or terminal."""
        super().__init__(message, kind="keeper_call", doubtful=inside)
        self.errno = number


class RunningCommand(NamedTuple):
    """A command that runs."""

    process: Process | None
    """As the host sees it; None: it had ended when the keeper reported it."""
    terminal: int | None
    """Descriptor of its terminal, which the caller closes; None: it has no terminal."""
    exited: "asyncio.Future[int]"
    """Its exit status, negative for a signal; SandboxError when the sandbox ended first."""


class KeeperClient:
    """Client of one keeper."""

    def __init__(self, sandbox_id: str, keeper: KeeperProcess, timeout_s: float) -> None:
        """`timeout_s`: seconds for each answer but that to `start`; past it the sandbox is ended."""
        self.sandbox_id = sandbox_id
        self._keeper = keeper
        self._timeout_s = timeout_s
        self._members = Members(keeper.pid)
        self._socket = keeper.channel
        self._loop = asyncio.get_running_loop()
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[_KeeperAnswer]] = {}
        self._exits: dict[int, asyncio.Future[int]] = {}
        self._ends: set[asyncio.Task[None]] = set()
        """Checks of killed commands: whether the command or its whole sandbox was killed."""
        self._open_files: dict[int, list[int]] = {}
        """Descriptors of files that the keeper has not closed yet, by request id."""
        self.ended: asyncio.Future[str] = self._loop.create_future()
        """Why no more can be asked of it; never an exception."""
        self.gone = asyncio.Event()
        """The keeper has ended, and all of its sandbox before it."""
        self._end: End | None = None
        """None: it lives."""
        self._last: End | None = None
        """The end that the keeper announced."""
        self._loop.add_reader(self._socket, self._receive)

    async def start(self, plan: StartPlan, held: list[int] | None = None) -> JsonObject:
        """Send the start message; returns the `ready` answer. `held`: descriptors that the keeper has until its end."""
        ready = (await self._ask(0, {"op": "start", "plan": plan._asdict()}, held)).message
        container = plan.runtime.container[0] if plan.runtime.container else None
        try:
            self._members.begin(ready["init"], ready["pid"], ready["pid_ns"], container)
        except (ForeignProcess, KeyError, TypeError) as error:
            self._break(f"{type(error).__name__}: {error}" if not isinstance(error, ForeignProcess) else str(error))
            raise SandboxGone(self.sandbox_id, self.ended.result()) from error
        return ready

    async def exec(
        self, argv: list[str], env: dict[str, str], cwd: str, fds: list[int], *, terminal: list[int] | None = None
    ) -> RunningCommand:
        """Start a command whose descriptors from 0 on (from 3 with a terminal) are `fds`, which stay ours.

        When the caller is cancelled meanwhile, the command is killed as soon as it has started.
        """
        if any("\0" in word for word in (*argv, *env, *env.values(), cwd)) or any("=" in name for name in env):
            raise SandboxRequestError("no argument can hold a NUL byte, no variable's name a `=`", kind="words_invalid")
        number = next(self._ids)
        exited = self._exits[number] = self._loop.create_future()
        request = {"op": "exec", "id": number, "argv": argv, "env": env, "cwd": cwd, "terminal": terminal}
        try:
            answer = await self._request(number, request, fds)
            try:
                _, passed_fds, process = await asyncio.shield(answer)
            except asyncio.CancelledError:
                await asyncio.shield(_kill_unwanted(answer))
                raise
        except BaseException:
            self._exits.pop(number, None)
            exited.cancel()
            raise
        return RunningCommand(process, passed_fds[0] if passed_fds else None, exited)

    async def alive(self) -> None:
        """Raise SandboxGone unless the sandbox lives, also where no message of its end has come yet."""
        number = next(self._ids)
        await self._ask(number, {"op": "alive", "id": number})
        # A first process that was killed and has not run since still takes new processes, which is the keeper's test.
        if self._members.are_doomed():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(processes.KILL_TIMEOUT_S):
                    await asyncio.shield(self.ended)
            raise SandboxGone(
                self.sandbox_id, self.ended.result() if self.ended.done() else "its first process was killed"
            )

    async def listen(self, port: int) -> socket.socket:
        """A listening socket of the sandbox's network."""
        number = next(self._ids)
        answer = await self._ask(number, {"op": "listen", "id": number, "port": port})
        listener = socket.socket(fileno=answer.fds[0])
        listener.setblocking(False)
        return listener

    async def open(self, path: str, *, write: bool, mode: int | None = None) -> int:
        """A descriptor of a regular file inside; OSError as of the file."""
        number = next(self._ids)
        try:
            answer = await self._ask(number, {"op": "open", "id": number, "path": path, "write": write, "mode": mode})
        except KeeperCallError as broken:
            raise OSError(broken.errno, broken.message) from None
        return answer.fds[0]

    async def end(self) -> End:
        """How it ended; `unreachable` where it lives, and this process lacks what it needs to talk to its keeper."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STATUS_S):
                await asyncio.shield(self.ended)
                if self._end is not None and self._end.how == "lost" and self._keeper.status is not None:
                    self._end = self._end._replace(status=await asyncio.shield(self._keeper.status))
        return self._end or End("unreachable", "its keeper can't be spoken to")

    def close(self, why: str = "it was destroyed") -> None:
        """Tell the keeper to end its sandbox; `gone` is set when it has."""
        if not self.ended.done():
            self._fail(End("closed", why))
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)

    async def _ask(self, number: int, message: JsonObject, fds: list[int] | None = None) -> _KeeperAnswer:
        answer = await self._request(number, message, fds)
        try:
            return await answer
        except asyncio.CancelledError:
            # Cancelled in the same round of the loop in which the answer came: nobody has its descriptors.
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                for fd in answer.result().fds:
                    os.close(fd)
            raise

    async def _request(
        self, number: int, message: JsonObject, fds: list[int] | None = None
    ) -> "asyncio.Future[_KeeperAnswer]":
        """What will hold the answer."""
        if self.ended.done():
            raise SandboxGone(self.sandbox_id, self.ended.result())
        answer: asyncio.Future[_KeeperAnswer] = self._loop.create_future()
        self._answers[number] = answer
        if number:
            overdue = f"it did not answer `{message['op']}` in {self._timeout_s:g} s"
            timer = self._loop.call_later(self._timeout_s, self._break, overdue, HANGS)
            answer.add_done_callback(lambda _: timer.cancel())
        try:
            await self._send(message, fds)
        except BaseException:
            self._answers.pop(number, None)
            answer.cancel()
            raise
        return answer

    async def _send(self, message: JsonObject, fds: list[int] | None) -> None:
        while True:
            try:
                messages.send(self._socket, message, fds)
                return
            except BlockingIOError:
                await asyncio.sleep(0.001)
            except OSError as error:
                raise SandboxGone(self.sandbox_id, str(error)) from error

    def _receive(self) -> None:
        for _ in range(MESSAGES_AT_ONCE):
            try:
                packet = messages.receive_packet(self._socket, MESSAGE_BYTES)
            except BlockingIOError:
                return
            except ConnectionResetError:
                # It ended with a request of ours unread. What it said before that is still to be read (unix(7)).
                continue
            except messages.MalformedMessage as error:
                self._break(f"it sent a malformed packet: {error}")
                return
            except (EOFError, OSError) as error:
                if isinstance(error, OSError) and not isinstance(error, ConnectionError):
                    self._last = self._last or End("unreachable", shortage.explain(error))
                self._stop_listening()
                self._fail(self._last or End("lost", "its keeper ended"))
                os.close(self._keeper.pidfd)
                self.gone.set()
                return
            if (complaint := self._take_packet(packet)) is not None:
                for fd in packet.fds:
                    os.close(fd)
                self._break(complaint)
                return

    def _take_packet(self, packet: messages.Packet) -> str | None:
        """Handle a packet; None, or what is wrong with it."""
        if packet.sender != self._keeper.pid:
            return f"process {packet.sender} sent a message in the place of its keeper, {self._keeper.pid}"
        try:
            self._handle(json.loads(packet.body), packet.fds)
        except ForeignProcess as error:
            return str(error)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            return f"it sent an invalid message: {type(error).__name__}: {str(error)[:200]}"
        return None

    def _break(self, why: str, fault: str = "can't be believed") -> None:
        """End a sandbox whose keeper can't be used: it is killed, and all of it dies with it."""
        if self._socket.fileno() < 0:
            return
        _log.error("sandbox %s is ended, its keeper %s: %s", self.sandbox_id, fault, ascii(why)[1:-1])
        self._stop_listening()
        self._fail(End(self._how_broken(fault), f"its keeper {fault}: {why}"))
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._keeper.pidfd, signal.SIGKILL)
        self._loop.add_reader(self._keeper.pidfd, self._on_keeper_end)

    def _how_broken(self, fault: str) -> How:
        state = processes.state(self._keeper.pid)
        return "untrusted" if fault != HANGS else "stopped" if state is not None and state.stopped else "hangs"

    def _on_keeper_end(self) -> None:
        self._loop.remove_reader(self._keeper.pidfd)
        os.close(self._keeper.pidfd)
        self.gone.set()

    def _stop_listening(self) -> None:
        self._loop.remove_reader(self._socket)
        self._socket.close()

    def _handle(self, message: JsonObject, fds: list[int]) -> None:
        op: str = message["op"]
        max_fds = 1 if op in _WITH_DESCRIPTOR or op == "started" else 0
        if len(fds) > max_fds or (op in _WITH_DESCRIPTOR and not fds):
            raise ValueError(f"`{op}` with {len(fds)} descriptors")
        if op in ("failed", "died"):
            status = message.get("status")
            how: How = "died" if op == "died" else "failed"
            self._last = End(how, str(message["error"]), status if isinstance(status, int) else None)
            return
        number = message.get("id", 0)
        if op == "exited":
            if message["code"] == -signal.SIGKILL:
                end = self._loop.create_task(self._check_killed(number))
                self._ends.add(end)
                end.add_done_callback(self._ends.discard)
            else:
                self._set_exit(number, message["code"])
            return
        if op == "opened":
            if number in self._open_files:
                raise ValueError(f"`opened` a second time for {number}")
            if not stat.S_ISREG(os.fstat(fds[0]).st_mode):
                raise ValueError("`opened` with what is no regular file")
            self._open_files[number] = fds
            return
        process = self._members.find(message["pid"]) if op == "started" else None
        fds = fds or self._open_files.pop(number, [])
        answer = self._answers.pop(number, None)
        if answer is None or answer.done():
            for fd in fds:
                os.close(fd)
        elif op in ("refused", "broken"):
            answer.set_exception(_error(self.sandbox_id, message))
        else:
            answer.set_result(_KeeperAnswer(message, fds, process))

    async def _check_killed(self, number: int) -> None:
        """A command was killed: report that as its exit only where its sandbox was not killed with it."""
        with contextlib.suppress(SandboxGone):  # its waiter gets that error, too
            await self.alive()
            self._set_exit(number, -signal.SIGKILL)

    def _set_exit(self, number: int, code: int) -> None:
        exited = self._exits.pop(number, None)
        if exited and not exited.done():
            exited.set_result(code)

    def _fail(self, end: End) -> None:
        if self.ended.done():
            return
        self._end = end
        self.ended.set_result(end.why)
        for fds in self._open_files.values():
            for fd in fds:
                os.close(fd)
        self._open_files.clear()
        waiters: list[asyncio.Future[Any]] = [*self._answers.values(), *self._exits.values()]
        for waiting in waiters:
            if not waiting.done():
                waiting.set_exception(SandboxGone(self.sandbox_id, end.why))
                waiting.exception()  # read, so that none is logged where nobody waits


async def _kill_unwanted(answer: "asyncio.Future[_KeeperAnswer]") -> None:
    """Kill a command once it has started: whoever asked for it was cancelled."""
    try:
        _, passed_fds, process = await answer
    except (SandboxGone, CommandStartError, KeeperCallError):
        return
    for fd in passed_fds:
        os.close(fd)
    await processes.kill_tree(process)


def _error(sandbox_id: str, message: dict[str, Any]) -> Exception:
    if message["op"] == "refused":
        return CommandStartError(message["errno"], message["error"])
    inside = message.get("inside") is True
    return KeeperCallError(message["errno"], f"sandbox {sandbox_id}: {message['error']}", inside=inside)
