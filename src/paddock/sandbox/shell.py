"""A persistent shell on a terminal of its own, driven from outside.

Channels  lines go in by a pipe that is the shell's stdin, statuses come out by another: neither is seen by what the
          shell runs, whose stdin, stdout and stderr are the terminal. So any text can be run, of any length, and no
          output can pass for a status.
Line      `eval` of the quoted text, then our report: exit status and folder, and a fence written to the terminal; what
          comes before the fence is the line's output. ^C makes a shell drop the rest of its line, so the report is sent
          again after it; its number tells a report that comes twice.
Reopening where a shell can't be started any more, because its program is gone, the line ends with 126, `closed`: that
          was done inside.
Ends      ^C and time limits act on the processes below the shell that were born since the line began: servers that an
          earlier line left in the background live on. A shell that can't be brought back is killed: `closed`.
"""

import asyncio
import os
import secrets
import signal
import string
import time
from collections.abc import Mapping

from paddock.sandbox import processes
from paddock.sandbox.capture import CHUNK_BYTES, HeadTailBuffer
from paddock.sandbox.failures import SandboxError, SandboxRequestError
from paddock.sandbox.keeper_client import CommandStartError, KeeperClient, RunningCommand
from paddock.sandbox.records import KilledBy, Output, ShellRequest, ShellResult

_BASH = "bash --norc --noprofile --noediting -i"
_START = "exec {} 8>&4 9<&0 0<&3 3<&- 4>&-"
INTERRUPT_WAIT_S = 2.0
"""Seconds for a line to end after ^C."""
RECOVERY_S = 5.0
"""Seconds for the shell to answer again after its line was killed."""
OPEN_TIMEOUT_S = 15.0
REFUSED_CODE = 126
"""Exit code of a shell for a program that can't be started."""
_IDLE_S = 0.1
_INTERRUPT = b"\x03"
_SERIAL_DIGITS = 8
_PLAIN = frozenset(string.ascii_letters + string.digits + " _./-=+,:@")
_NUDGE_S = 0.05


class PersistentShell:
    """One shell; opened anew by the next line when it has ended."""

    def __init__(self, keeper: KeeperClient, env: Mapping[str, str], workdir: str, request: ShellRequest) -> None:
        self._keeper = keeper
        self._env = {**env, "PS1": "", "PS2": "", "HISTFILE": ""}
        self._request = request
        self._workdir = workdir
        self._serial = 0
        self._code = 0
        """Of the last line."""
        self._fence = secrets.token_hex(12)
        self._bash = False
        self._open: _ShellProcess | None = None
        self._line: _RunningLine | None = None

    @property
    def pid(self) -> int | None:
        """Process id on the host; None: the shell is closed."""
        return self._open.command.process.pid if self._open and self._open.command.process else None

    async def open(self) -> None:
        lines_read, lines_write = os.pipe2(os.O_CLOEXEC)
        status_read, status_write = os.pipe2(os.O_CLOEXEC)
        try:
            program = f"command -v bash >/dev/null 2>&1 && {_START.format(_BASH)}; {_START.format('sh -i')}"
            command = await self._keeper.exec(
                ["/bin/sh", "-c", program],
                self._env,
                self._workdir,
                [lines_read, status_write],
                terminal=[self._request.rows, self._request.columns],
            )
        except BaseException as error:
            os.close(lines_write)
            os.close(status_read)
            if isinstance(error, CommandStartError):
                raise SandboxRequestError(f"no shell: {error}", kind="shell_unavailable") from error
            raise
        finally:
            os.close(lines_read)
            os.close(status_write)
        self._open = _ShellProcess(command, lines_write, status_read, self._buffer(), self._fence)
        self._bash = False
        try:
            result = await self.run('[ -n "$BASH_VERSION" ]', wait_s=OPEN_TIMEOUT_S)
        except BaseException:
            self.abandon()  # no caller has it yet who would close it
            raise
        self._bash = result.exit_code == 0
        self._code = 0
        if result.running or result.closed:
            self.abandon()
            output = bytes(result.output)[-500:]
            # What runs inside may hold it up, or have put another program in its place.
            raise SandboxError(f"the shell did not start: {output!r}", kind="shell_failed", doubtful=True)

    async def run(self, line: str, *, timeout_s: float | None = None, wait_s: float | None = None) -> ShellResult:
        if self._line is not None:
            raise SandboxRequestError("the shell is busy: poll, type or interrupt", kind="shell_busy")
        if self._open is None:
            try:
                await self.open()
            except SandboxRequestError as error:
                output = Output(head=f"{error.message}\n".encode())
                return ShellResult(exit_code=REFUSED_CODE, workdir=self._workdir, output=output, closed=True)
        shell = self._shell()
        if "\0" in line:
            raise SandboxRequestError("a shell line can't hold a NUL byte", kind="shell_line")
        self._serial += 1
        self._line = _RunningLine(self._serial, processes.descendants(shell.command.process))
        shell.expect(self._serial)
        try:
            await shell.send(
                _status(self._code) + _eval_line(line, bash=self._bash) + b" <&9 8>&- 9>&-; " + self._report()
            )
            if timeout_s is not None and (wait_s is None or timeout_s <= wait_s):
                if not await self._wait(timeout_s):
                    return await self._stop("timeout")
            else:
                await self._wait(wait_s)
        except asyncio.CancelledError:
            await asyncio.shield(self._stop("interrupt"))
            raise
        return self._result()

    async def poll(self, wait_s: float) -> ShellResult:
        if self._open is not None and self._line is not None:
            await self._wait(wait_s)
        return self._result()

    async def type(self, data: bytes) -> None:
        """Type at the terminal."""
        await self._shell().type(data)
        if _INTERRUPT in data and self._line is not None:
            await self._shell().send(self._report())

    async def interrupt(self) -> ShellResult:
        """^C at the terminal."""
        if self._line is None:
            return self._result()
        shell = self._shell()
        await shell.type(_INTERRUPT)
        await shell.send(self._report())
        await shell.wait_for_answer(INTERRUPT_WAIT_S)
        return self._result(None if self._line is None else "interrupt")

    async def close(self) -> None:
        """End the shell and everything below it."""
        if self._open is not None:
            await processes.kill_below(self._open.command.process)
            self.abandon()

    def abandon(self) -> None:
        """Close its descriptors without waiting: the shell, or its sandbox, is ending."""
        if self._open is not None:
            self._open.close()
            self._open = None
        self._line = None
        self._code = 0

    async def _wait(self, wait_s: float | None) -> bool:
        """True when the line has ended in that time."""
        shell = self._shell()
        if not self._bash:
            # At a syntax error these drop the rest of their line, our report with it, and wait for another.
            first = _IDLE_S if wait_s is None else min(wait_s, _IDLE_S)
            if await shell.wait_for_answer(first):
                return True
            wait_s = None if wait_s is None else wait_s - first
            if not processes.descendants(shell.command.process):
                await shell.send(self._report())
        return await shell.wait_for_answer(wait_s)

    async def _stop(self, why: KilledBy) -> ShellResult:
        """Kill what the line has started, until the shell answers."""
        shell = self._open
        if shell is None:
            return self._result()
        line = self._line
        deadline = time.monotonic() + RECOVERY_S
        while line is not None and time.monotonic() < deadline:
            shell.signal(signal.SIGINT)
            await processes.kill_below(shell.command.process, spare=line.before)
            await shell.send(self._report())
            if await shell.wait_for_answer(_NUDGE_S):
                return self._result(why)
        shell.signal(signal.SIGKILL)
        await shell.wait_for_answer(RECOVERY_S)
        return self._result(why)

    def _result(self, killed_by: KilledBy | None = None) -> ShellResult:
        shell, line = self._open, self._line
        if shell is not None and shell.sandbox_error is not None:
            sandbox_error = shell.sandbox_error
            self.abandon()
            raise sandbox_error
        if shell is None:
            return ShellResult(output=HeadTailBuffer(0, 0).output(), workdir=self._workdir, closed=True)
        duration_s = 0.0 if line is None else time.monotonic() - line.started
        output = shell.take(self._buffer())
        if shell.closed is not None:
            code = shell.closed
            self.abandon()
            return ShellResult(
                exit_code=128 - code if code < 0 else code,
                workdir=self._workdir,
                output=output,
                killed_by=killed_by,
                closed=True,
                duration_s=duration_s,
            )
        running = line is not None and shell.status is None
        if shell.status is not None:
            self._line = None
        code_now = None if running else shell.status[0] if shell.status else 0
        workdir = shell.status[1] if shell.status else self._workdir
        self._code = code_now or 0
        return ShellResult(
            running=running,
            exit_code=code_now,
            workdir=workdir,
            output=output,
            killed_by=None if running else killed_by,
            duration_s=duration_s,
        )

    def _report(self) -> bytes:
        status = f'printf \'%s\\0%s\\0%s\\0\' {self._serial} "$?" "$PWD" >&8'
        return f"{status}; printf {self._fence}{self._serial:0{_SERIAL_DIGITS}} >&9\n".encode()

    def _buffer(self) -> HeadTailBuffer:
        return HeadTailBuffer(self._request.head_bytes, self._request.tail_bytes)

    def _shell(self) -> "_ShellProcess":
        if self._open is None:
            raise SandboxRequestError("the shell is closed", kind="shell_closed")
        return self._open


class _RunningLine:
    """The line that runs."""

    def __init__(self, serial: int, before: list[processes.Process]) -> None:
        self.serial = serial
        self.before = before
        self.started = time.monotonic()


class _ShellProcess:
    """A shell process and its channels; owns the descriptors."""

    def __init__(self, command: RunningCommand, lines: int, statuses: int, buffer: HeadTailBuffer, fence: str) -> None:
        assert command.terminal is not None
        self.command = command
        self.status: tuple[int, str] | None = None
        """Exit status and folder that the last line left; None: it runs."""
        self.closed: int | None = None
        """The shell's own exit status."""
        self.sandbox_error: SandboxError | None = None
        """Its sandbox ended before it."""
        self._lines = lines
        self._statuses = statuses
        self._terminal = command.terminal
        self._buffer = buffer
        self._fence = fence.encode()
        self._serial = 0
        self._reports = b""
        self._carry = b""
        self._pending: tuple[int, str] | None = None
        self._fenced = False
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        for fd in (lines, statuses, self._terminal):
            os.set_blocking(fd, False)
        self._loop.add_reader(statuses, self._read_report)
        self._loop.add_reader(self._terminal, self._read_output)
        command.exited.add_done_callback(self._on_exit)

    def expect(self, serial: int) -> None:
        self._serial = serial
        self._pending, self.status, self._fenced = None, None, False
        self._changed.clear()

    async def wait_for_answer(self, wait_s: float | None) -> bool:
        """True when the line, or the shell, has ended in that time."""
        try:
            async with asyncio.timeout(wait_s):
                while self.status is None and self.closed is None:
                    await self._changed.wait()
                    self._changed.clear()
        except TimeoutError:
            return False
        return True

    async def send(self, data: bytes) -> None:
        await self._write(self._lines, data)

    async def type(self, data: bytes) -> None:
        await self._write(self._terminal, data)

    def signal(self, number: int) -> None:
        if self.command.process is not None:
            processes.signal_process(self.command.process, number)

    def take(self, fresh: HeadTailBuffer) -> Output:
        output = self._buffer.output()
        self._buffer = fresh
        return output

    def close(self) -> None:
        for fd in (self._statuses, self._terminal):
            self._loop.remove_reader(fd)
        for fd in (self._lines, self._statuses, self._terminal):
            os.close(fd)
        self.signal(signal.SIGKILL)
        self.command.exited.remove_done_callback(self._on_exit)

    async def _write(self, fd: int, data: bytes) -> None:
        view = memoryview(data)
        while view and self.closed is None:
            try:
                view = view[os.write(fd, view) :]
            except BlockingIOError:
                await asyncio.sleep(0.001)
            except OSError:
                return  # it has ended; its exit says so

    def _read_report(self) -> None:
        data = _read(self._statuses)
        if data is None:
            return
        if not data:
            self._loop.remove_reader(self._statuses)
            return
        self._reports += data
        while self._reports.count(b"\0") >= 3:
            serial, code, folder, self._reports = self._reports.split(b"\0", 3)
            if serial == str(self._serial).encode() and self._pending is None:
                self._pending = (int(code), os.fsdecode(folder))
                self._settle()

    def _read_output(self) -> None:
        data = _read(self._terminal)
        if data is None:
            return
        if not data:
            self._loop.remove_reader(self._terminal)
            return
        data = self._carry + data
        size = len(self._fence) + _SERIAL_DIGITS
        buffer = []
        while (at := data.find(self._fence)) >= 0 and len(data) - at >= size:
            self._fenced = self._fenced or int(data[at + size - _SERIAL_DIGITS : at + size]) == self._serial
            buffer.append(data[:at])
            data = data[at + size :]
        hold = len(data) - at if at >= 0 else _overlap(data, self._fence)
        self._carry = data[len(data) - hold :]
        buffer.append(data[: len(data) - hold])
        self._buffer.add(b"".join(buffer))
        self._settle()

    def _settle(self) -> None:
        """The line is over when both its report and its fence are here."""
        if self._pending is not None and self._fenced and self.status is None:
            self.status = self._pending
            self._changed.set()

    def _on_exit(self, exited: "asyncio.Future[int]") -> None:
        error = exited.exception()
        if isinstance(error, SandboxError):
            self.sandbox_error = error
            self.closed = -signal.SIGKILL
        else:
            for _ in range(64):
                if (data := _read(self._terminal)) is None or not data:
                    break
                self._buffer.add(self._carry + data)
                self._carry = b""
            self.closed = exited.result()
        self._changed.set()


def _read(fd: int) -> bytes | None:
    """The next bytes; None: there are none at the moment; empty: the stream has ended."""
    try:
        return os.read(fd, CHUNK_BYTES)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _status(code: int) -> bytes:
    """Makes `$?` what the last line left; the report has changed it. No process is started: a shell that waits for one
    tells of jobs that have ended meanwhile."""
    return {0: b"", 1: b"false; "}.get(code, f"__left() {{ return {code}; }}; __left; ".encode())


def _overlap(data: bytes, fence: bytes) -> int:
    """How many of the last bytes may be the start of a fence."""
    for size in range(min(len(fence) - 1, len(data)), 0, -1):
        if data.endswith(fence[:size]):
            return size
    return 0


def _eval_line(line: str, *, bash: bool) -> bytes:
    """`eval` of the text, on one line; bash needs no process for it, other shells do."""
    mark = "\\" if bash else "\\0"
    body = "".join(
        char if char in _PLAIN else "".join(f"{mark}{byte:03o}" for byte in os.fsencode(char)) for char in line
    )
    return f"eval $'{body}'".encode() if bash else f"eval \"$(printf '%b' '{body}')\"".encode()
