"""One live sandbox on this machine: its keeper, its folder, its commands and shells."""

import asyncio
import contextlib
import errno
import os
import signal
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from paddock.sandbox import processes
from paddock.sandbox.capture import HeadTailBuffer, OutputReader
from paddock.sandbox.cgroups import Cgroup
from paddock.sandbox.ends import End
from paddock.sandbox.failures import BudgetExceeded, SandboxError, SandboxGone, SandboxRequestError
from paddock.sandbox.images import LocalImage
from paddock.sandbox.keeper import shortage
from paddock.sandbox.keeper_client import CommandStartError, KeeperCallError, KeeperClient, RunningCommand
from paddock.sandbox.layers import View
from paddock.sandbox.layers.marks import Attributes
from paddock.sandbox.records import ExecRequest, ExecResult, KilledBy, MemoryKill, Output, SandboxHandle, ShellRequest
from paddock.sandbox.shell import PersistentShell

DEFAULT_ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
}
"""Environment of every command; the image's variables and the sandbox's own take precedence over it."""
DRAIN_S = 0.2
"""Seconds for output of a command that has ended but left a writer behind."""

KILLED_BEFORE_END_S = 1.0
"""A sandbox that ends so soon after a kill for memory ended for that: the kernel took its first process too."""


async def _no_look() -> None:
    """Stands for the watchdog's look before the watchdog watches the sandbox."""


async def _no_status() -> int | None:
    """Stands for the runtime's report before there is one."""
    return None


class SandboxFolder(NamedTuple):
    """Where a sandbox's own files are on the host."""

    root: Path
    engine_upper: Path | None = None
    """Where a container engine keeps the sandbox's writes, as it does: marks in `trusted.overlay.*`."""

    @property
    def upper(self) -> Path:
        return self.engine_upper or self.root / "upper"

    @property
    def attributes(self) -> Attributes:
        return "trusted" if self.engine_upper else "user"

    @property
    def work(self) -> Path:
        return self.root / "work"

    @property
    def merged(self) -> Path:
        return self.root / "merged"


class Sandbox:
    """A sandbox that has started."""

    def __init__(
        self,
        handle: SandboxHandle,
        image: LocalImage,
        folder: SandboxFolder,
        keeper: KeeperClient,
        cgroup: Cgroup | None,
    ) -> None:
        self.handle = handle
        self.image = image
        self.folder = folder
        self.keeper = keeper
        self.cgroup = cgroup
        self.env = {**DEFAULT_ENV, **image.record.env, **handle.spec.env}
        self.kills: list[MemoryKill] = []
        """Processes that the watchdog or the kernel killed for memory, not reported to the provider's caller yet."""
        self.reason: Exception | None = None
        """Why the whole sandbox was killed: `BudgetExceeded`, or a `SandboxError` that is the machine's doing."""
        self.look: Callable[[], Awaitable[None]] = _no_look
        """Makes the watchdog look and report what happened so far."""
        self.first_process_status: Callable[[], Awaitable[int | None]] = _no_status
        """Exit status of its first process, where only its runtime knows it."""
        self._kill_count = 0
        self._kernel_killed_at = self._ended_at = float("-inf")
        self._shells: dict[str, PersistentShell] = {}
        self._used = False
        """A command was started: what is inside may be its doing."""
        keeper.ended.add_done_callback(self._on_ended)

    def give_up(self, reason: Exception) -> None:
        """Kill the whole sandbox; every later call raises `reason`."""
        if self.reason is None:
            self.reason = reason
            self.keeper.close(str(reason))

    def on_killed(self, kill: MemoryKill) -> None:
        self.kills.append(kill)
        self._kill_count += 1
        if kill.by == "kernel":
            self._kernel_killed_at = time.monotonic()

    def shell_pids(self) -> list[int]:
        return [shell.pid for shell in self._shells.values() if shell.pid is not None]

    def view(self) -> View:
        return View(self.image.layers, self.folder.upper, attributes=self.folder.attributes)

    @contextlib.asynccontextmanager
    async def frozen(self) -> AsyncIterator[None]:
        """Freeze all processes of the sandbox for the block, where this machine has a cgroup freezer."""
        frozen = self.cgroup is not None and await asyncio.to_thread(self.cgroup.freeze)
        try:
            yield
        finally:
            if frozen and self.cgroup is not None:
                self.cgroup.thaw()

    async def exec(self, request: ExecRequest) -> ExecResult:
        """Run a command to its end."""
        started = time.monotonic()
        kills = self._kill_count
        buffers = [HeadTailBuffer(request.head_bytes, request.tail_bytes)]
        if not request.merge_stderr:
            buffers.append(HeadTailBuffer(request.head_bytes, request.tail_bytes))
        try:
            command, readers = await self._start(request, buffers)
        except CommandStartError as refusal:
            return _refusal_result(refusal, time.monotonic() - started)
        try:
            spent_s = time.monotonic() - started
            left_s = None if request.timeout_s is None else max(0.0, request.timeout_s - spent_s)
            killed_by = await self._finish(command, left_s)
            code = command.exited.result()
            if killed_by is None and code == -signal.SIGKILL:
                await self.look()
                killed_by = "memory" if self._kill_count > kills else None
            await _drain(readers)
        finally:
            for reader in readers:
                reader.close()
        outputs = [buffer.output() for buffer in buffers]
        return ExecResult(
            exit_code=_shell_code(code),
            stdout=outputs[0],
            stderr=outputs[1] if len(outputs) > 1 else Output(),
            killed_by=killed_by,
            duration_s=time.monotonic() - started,
        )

    async def open_shell(self, request: ShellRequest) -> str:
        shell_id = uuid.uuid4().hex[:12]
        env = {**self.env, **request.env}
        shell = PersistentShell(self.keeper, env, request.workdir or self.handle.spec.workdir, request)
        try:
            await shell.open()
        except SandboxRequestError as error:
            if not self._used:
                raise
            # A command may have removed the programs that a shell is started from.
            raise SandboxError(error.message, kind=error.kind, doubtful=True) from error
        if self.keeper.ended.done():  # while it opened: `end` has not seen it
            shell.abandon()
            raise SandboxGone(self.handle.sandbox_id, self.keeper.ended.result())
        self._used = True
        self._shells[shell_id] = shell
        return shell_id

    def shell(self, shell_id: str) -> PersistentShell:
        try:
            return self._shells[shell_id]
        except KeyError:
            raise SandboxRequestError(
                f"sandbox {self.handle.sandbox_id}: no shell {shell_id}", kind="shell_unknown"
            ) from None

    async def close_shell(self, shell_id: str) -> None:
        shell = self._shells.pop(shell_id, None)
        if shell:
            await shell.close()

    async def end(self, timeout_s: float) -> bool:
        """Kill the whole sandbox and wait; False when a process or cgroup is left after `timeout_s` seconds."""
        for shell in self._shells.values():
            shell.abandon()
        self._shells.clear()
        self.keeper.close()
        try:
            async with asyncio.timeout(timeout_s):
                await self.keeper.gone.wait()
        except TimeoutError:
            pass
        if self.cgroup is None:
            return self.keeper.gone.is_set()
        killed = await asyncio.to_thread(self.cgroup.kill_all, timeout_s)
        removed = await asyncio.to_thread(self.cgroup.remove, timeout_s)
        self.cgroup.close()
        return killed and removed and self.keeper.gone.is_set()

    async def _start(
        self, request: ExecRequest, buffers: list[HeadTailBuffer]
    ) -> tuple[RunningCommand, list[OutputReader]]:
        stdin, pipes = _open_streams(request.stdin, len(buffers))
        writers = [write for _, write in pipes]
        try:
            fds = [stdin, writers[0], writers[-1]]
            cwd = request.workdir or self.handle.spec.workdir
            command = await self.keeper.exec(request.argv, {**self.env, **request.env}, cwd, fds)
            self._used = True
        except BaseException:
            for read, _ in pipes:
                os.close(read)
            raise
        finally:
            for fd in (stdin, *writers):
                os.close(fd)
        return command, [OutputReader(read, buffer) for (read, _), buffer in zip(pipes, buffers, strict=True)]

    async def _finish(self, command: RunningCommand, timeout_s: float | None) -> KilledBy | None:
        """Wait for the command's end; past `timeout_s`, or when cancelled, kill its whole process tree."""
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(command.exited)
            return None
        except TimeoutError:
            await self._kill(command)
            return "timeout"
        except asyncio.CancelledError:
            killing = asyncio.ensure_future(self._kill(command))
            # After a second cancellation nobody awaits it: its exception is read here, so that none is logged.
            killing.add_done_callback(lambda task: task.cancelled() or task.exception())
            await asyncio.shield(killing)
            raise

    async def _kill(self, command: RunningCommand) -> None:
        dead = await processes.kill_tree(command.process)
        if not dead:
            raise BudgetExceeded("pids", "its processes multiplied faster than they could be killed")
        try:
            async with asyncio.timeout(processes.KILL_TIMEOUT_S):
                await asyncio.shield(command.exited)
        except TimeoutError:
            raise SandboxError(f"{command.process} survives SIGKILL", kind="unkillable", doubtful=True) from None

    async def wait_until_gone(self, timeout_s: float) -> None:
        """Return once an ending sandbox has no process any more; SandboxError where `timeout_s` is too short for it."""
        if self.keeper.ended.done():
            try:
                async with asyncio.timeout(timeout_s):
                    await self.keeper.gone.wait()
            except TimeoutError:
                raise SandboxError(f"it is not gone after {timeout_s:g} s", kind="unkillable") from None

    async def ensure_intact(self) -> None:
        """Raise SandboxGone unless the sandbox lives or was killed for its own budget: only then do its layers hold all
        that was done inside, with nothing cut short from outside."""
        try:
            await self.keeper.alive()
        except SandboxGone as gone:
            if not isinstance(await self.failure(gone), BudgetExceeded):
                raise

    async def failure(self, error: SandboxError) -> Exception:
        """The exception that says what really happened and who caused it: see `ends`."""
        if isinstance(error, KeeperCallError) and error.errno in (errno.EAGAIN, errno.ENOMEM):
            error = await self._without_room(error)
        if not isinstance(error, SandboxGone):
            return self.reason or error
        if self.reason is None:
            end = await self.keeper.end()
            if end.how == "died" and end.status is None:
                end = end._replace(status=await self.first_process_status())
            with contextlib.suppress(SandboxError):
                await self.look()
            self.reason = self.reason or self._reason(end)
        return self.reason

    async def _without_room(self, error: "KeeperCallError") -> SandboxError:
        """Why the keeper can start no process: the sandbox is ending, or it has too many processes."""
        try:
            await self.keeper.alive()
            for _ in range(2):  # the watchdog reports too many processes at its second look
                await self.look()
        except SandboxGone as gone:
            return gone
        return error

    def _reason(self, end: End) -> Exception:
        killed = end.how == "died" and end.signal in (signal.SIGKILL, None)
        if killed and self._kernel_killed_at > self._ended_at - KILLED_BEFORE_END_S:
            limit_mib = self.handle.spec.limits.memory_mib
            message = f"it used up its memory ({limit_mib} MiB), and the kernel killed its first process"
            return BudgetExceeded("memory", message)
        return SandboxGone(self.handle.sandbox_id, str(end), doubtful=end.doubtful)

    def _on_ended(self, _: "asyncio.Future[str]") -> None:
        self._ended_at = time.monotonic()


async def _drain(readers: list[OutputReader]) -> None:
    for reader in readers:
        reader.drain()
    waiting = [asyncio.ensure_future(reader.ended.wait()) for reader in readers if not reader.ended.is_set()]
    if waiting:
        _, left = await asyncio.wait(waiting, timeout=DRAIN_S)
        for task in left:
            task.cancel()


def _open_streams(stdin: bytes, n_pipes: int) -> tuple[int, list[tuple[int, int]]]:
    """Open a command's stdin and its output pipes, all or none; SandboxError where this process lacks descriptors."""
    with contextlib.ExitStack() as undo:
        try:
            file = _as_file(stdin)
            undo.callback(os.close, file)
            pipes = []
            for _ in range(n_pipes):
                pipes.append(os.pipe2(os.O_CLOEXEC))
                for end in pipes[-1]:
                    undo.callback(os.close, end)
        except OSError as error:
            raise SandboxError(f"a command can't be started: {shortage.explain(error)}", kind="exec_failed") from error
        undo.pop_all()
        return file, pipes


def _as_file(data: bytes) -> int:
    """A descriptor to read `data` from."""
    if not data:
        return os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    fd = os.memfd_create("stdin", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _refusal_result(refusal: CommandStartError, duration_s: float) -> ExecResult:
    """The result that a shell gives of a command that it can't start: exit code 126 or 127."""
    code = 127 if refusal.errno in (errno.ENOENT, errno.ENOTDIR) else 126
    return ExecResult(
        exit_code=code, stdout=Output(), stderr=Output(head=f"{refusal}\n".encode()), duration_s=duration_s
    )


def _shell_code(code: int) -> int:
    return 128 - code if code < 0 else code
