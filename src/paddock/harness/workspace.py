"""The workspace of a harness: one sandbox of a provider, with the blocklist before it and a look at all that comes out.

Law     a refused command does not reach the sandbox: its result has code 126 and the refusal's words. Whatever the
        agent is shown is given to `inspect_output` first, which may raise. A relative path starts at the workdir.
Errors  those of `paddock.sandbox.failures`, and of a file inside (FileNotFoundError, ...); never a command's output.
"""

import shlex
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from posixpath import join

from paddock.harness.contract import ShellSession
from paddock.harness.results import REFUSED_CODE, ExecOutput, ProgramOutput, ShellOutput
from paddock.sandbox.blocklist import Blocklist, Refusal
from paddock.sandbox.protocol import Provider
from paddock.sandbox.records import ExecRequest, MemoryKill, ShellRequest, ShellResult

OVERLAP_BYTES = 256
"""Bytes of a shell's last output that are inspected again with the next."""
OutputInspector = Callable[[bytes], None]


@dataclass
class WorkspaceCounts:
    """Counts of what a workspace was used for."""

    commands: int = 0
    """Commands that were run, by `exec` or as shell lines."""
    refused: Counter[str] = field(default_factory=Counter)
    """Refused commands, by rule."""
    unrefused: Counter[str] = field(default_factory=Counter)
    """Commands that a program ran by itself and that the blocklist would have refused, by rule."""
    memory_kills: int = 0
    timeouts: int = 0
    tool_s: float = 0.0
    """Seconds in calls on the workspace."""


class SandboxWorkspace:
    """A sandbox as a harness sees it."""

    def __init__(
        self,
        provider: Provider,
        sandbox_id: str,
        *,
        workdir: str,
        command_timeout_s: float | None = None,
        blocklist: Blocklist | None = None,
        inspect_output: OutputInspector | None = None,
    ) -> None:
        """`command_timeout_s`: the longest time limit that a command may ask for; None: no limit. `inspect_output`
        gets all bytes that the agent is shown, and may raise."""
        self.workdir = workdir
        self.counts = WorkspaceCounts()
        self._provider = provider
        self._id = sandbox_id
        self._command_timeout_s = command_timeout_s
        self._blocklist = blocklist
        self._inspect_output = inspect_output or _ignore

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> ExecOutput:
        refusal = self._refusal(shlex.join(argv))
        if refusal is not None:
            return ExecOutput(REFUSED_CODE, refusal.message.encode(), refused=refusal.rule)
        request = ExecRequest(
            argv=list(argv),
            workdir=self.workdir,
            env=dict(env or {}),
            stdin=stdin or b"",
            timeout_s=self._limit(timeout_s),
            merge_stderr=True,
        )
        self.counts.commands += 1
        with self._timed():
            result = await self._provider.exec(self._id, request, request_id=uuid.uuid4().hex)
            killed = await self._kills()
        output = bytes(result.stdout) + bytes(result.stderr)
        self._inspect_output(output)
        timed_out = result.killed_by == "timeout"
        self.counts.timeouts += timed_out
        return ExecOutput(result.exit_code, output, timed_out, killed)

    async def read(self, path: str) -> bytes:
        with self._timed():
            data = await self._provider.read(self._id, join(self.workdir, path))
        self._inspect_output(data)
        return data

    async def write(self, path: str, data: bytes) -> None:
        with self._timed():
            await self._provider.write(self._id, join(self.workdir, path), data)

    async def shell(self) -> ShellSession:
        with self._timed():
            shell_id = await self._provider.open_shell(self._id, ShellRequest(workdir=self.workdir))
        return _WorkspaceShell(self, shell_id)

    async def launch(self, argv: Sequence[str], *, stdin: bytes = b"", env: Mapping[str, str]) -> ProgramOutput:
        request = ExecRequest(argv=list(argv), workdir=self.workdir, env=dict(env), stdin=stdin)
        result = await self._provider.exec(self._id, request, request_id=uuid.uuid4().hex)
        return ProgramOutput(result.exit_code, bytes(result.stdout), bytes(result.stderr), await self._kills())

    def note_command(self, line: str) -> None:
        self.counts.commands += 1
        refusal = self._blocklist.check(line) if self._blocklist else None
        if refusal is not None:
            self.counts.unrefused[refusal.rule] += 1

    def _refusal(self, line: str, *, typed: bool = False) -> Refusal | None:
        refusal = self._blocklist.check(line, typed=typed) if self._blocklist else None
        if refusal is not None:
            self.counts.refused[refusal.rule] += 1
        return refusal

    def _limit(self, timeout_s: float | None) -> float | None:
        limits = [limit for limit in (timeout_s, self._command_timeout_s) if limit is not None]
        return min(limits) if limits else None

    async def _kills(self) -> tuple[MemoryKill, ...]:
        killed = tuple(await self._provider.kills(self._id))
        self.counts.memory_kills += len(killed)
        return killed

    @contextmanager
    def _timed(self) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self.counts.tool_s += time.monotonic() - started


class _WorkspaceShell:
    """One shell of the sandbox, behind the blocklist."""

    def __init__(self, workspace: SandboxWorkspace, shell_id: str) -> None:
        self._space = workspace
        self._provider = workspace._provider
        self._at = (workspace._id, shell_id)
        self._workdir = workspace.workdir
        self._last = b""
        self._typed = ""
        """The line that is being typed, so far."""

    async def run(self, line: str, *, timeout_s: float | None = None, wait_s: float | None = None) -> ShellOutput:
        refusal = self._space._refusal(line)
        if refusal is not None:
            return self._refused(refusal, exit_code=REFUSED_CODE)
        self._space.counts.commands += 1
        self._typed = ""
        with self._space._timed():
            limit = self._space._limit(timeout_s)
            result = await self._provider.shell_run(*self._at, line, timeout_s=limit, wait_s=wait_s)
            return await self._output_of(result)

    async def poll(self, *, wait_s: float = 0.0) -> ShellOutput:
        with self._space._timed():
            return await self._output_of(await self._provider.shell_poll(*self._at, wait_s=wait_s))

    async def type(self, data: bytes, *, wait_s: float = 0.0) -> ShellOutput:
        line = self._typed + data.decode(errors="replace")
        refusal = self._space._refusal(line, typed=True)
        if refusal is not None:
            return self._refused(refusal, exit_code=None)
        self._typed = line.replace("\r", "\n").rpartition("\n")[2]
        with self._space._timed():
            await self._provider.shell_type(*self._at, data)
        return await self.poll(wait_s=wait_s)

    async def interrupt(self) -> ShellOutput:
        self._typed = ""
        with self._space._timed():
            return await self._output_of(await self._provider.shell_interrupt(*self._at))

    async def close(self) -> None:
        with self._space._timed():
            await self._provider.close_shell(*self._at)

    async def _output_of(self, result: ShellResult) -> ShellOutput:
        killed = await self._space._kills()
        output = bytes(result.output)
        self._space._inspect_output(self._last + output)
        self._last = (self._last + output)[-OVERLAP_BYTES:]
        self._workdir = result.workdir
        timed_out = result.killed_by == "timeout"
        self._space.counts.timeouts += timed_out
        code = None if result.running else (result.exit_code or 0)
        return ShellOutput(code, output, result.workdir, timed_out, killed, closed=result.closed)

    def _refused(self, refusal: Refusal, *, exit_code: int | None) -> ShellOutput:
        return ShellOutput(exit_code, refusal.message.encode(), self._workdir, refused=refusal.rule)


def _ignore(_data: bytes) -> None:
    return
