"""Sandboxes of another place: a provider that delegates to SWE-ReX, which runs commands in Docker, Modal, Fargate,
Daytona or behind a server of its own (`pip install swe-rex`).

    sandbox: {provider: "examples.swe_rex:SweRexProvider"}     in an agent's block
    paddock check sandbox:examples.swe_rex:SweRexProvider --image python:3.12

Law     what the place can't do is refused by name, never imitated: budgets, counts, tunnels, snapshots, typing at a
        terminal. A patch is made by git inside, so whoever runs there can change it: grade it elsewhere.
Text    SWE-ReX decodes output; bytes that are no UTF-8 come as `\\xNN`. Files are carried exactly, as base64.
"""

import asyncio
import base64
import shlex
import time
import uuid
from collections.abc import Coroutine, Sequence
from typing import Any, ClassVar, NamedTuple, NoReturn

from swerex.deployment.abstract import AbstractDeployment
from swerex.deployment.docker import DockerDeployment
from swerex.exceptions import CommandTimeoutError, SwerexException
from swerex.runtime.abstract import (
    BashAction,
    BashObservation,
    CloseBashSessionRequest,
    Command,
    CreateBashSessionRequest,
)

from paddock.sandbox import (
    Archive,
    ExecRequest,
    ExecResult,
    Patch,
    SandboxError,
    SandboxGone,
    SandboxHandle,
    SandboxRequestError,
    SandboxSettings,
    SandboxSpec,
    ShellRequest,
    ShellResult,
    TunnelListener,
)
from paddock.sandbox.records import MemoryKill, Output, PathChange, Stats
from paddock.sandbox.requests import RequestLog

__all__ = ["SweRexProvider"]
PART_BYTES = 90_000
"""Of a file, in one command: its base64 has to be shorter than an argument may be."""
TIMED_OUT = 137
"""Exit code of what `timeout -s KILL` has killed."""
_PATCH = """
set -e
cd "$1"
folder=$(mktemp -d)
printf '%s\\n' "$2" > "$folder/exclude"
# -p: git reads a file again whose second is that of its index, because it may have changed within it.
cp -p "$(git rev-parse --git-path index)" "$folder/index"
export GIT_INDEX_FILE="$folder/index"
git -c core.excludesFile="$folder/exclude" add -A
git diff --cached --binary --no-renames HEAD | base64
rm -r "$folder"
"""


class _Sandbox(NamedTuple):
    handle: SandboxHandle
    deployment: AbstractDeployment
    lines: "dict[str, asyncio.Task[BashObservation]]"
    """What runs in each shell."""


class SweRexProvider:
    """One deployment of SWE-ReX for each sandbox. A subclass says where: see `deployment`."""

    KIND: ClassVar[str] = "sandboxes"

    def __init__(self, settings: SandboxSettings) -> None:
        self._settings = settings
        self._sandboxes: dict[str, _Sandbox] = {}
        self._requests = RequestLog()

    def deployment(self, spec: SandboxSpec) -> AbstractDeployment:
        """Where a sandbox runs."""
        return DockerDeployment(image=spec.image, startup_timeout=self._settings.start_timeout_s)

    async def create(self, spec: SandboxSpec, *, request_id: str) -> SandboxHandle:
        return await self._requests.once(
            ("create", request_id), lambda: self._create(spec), lambda handle: self.destroy(handle.sandbox_id)
        )

    async def destroy(self, sandbox_id: str) -> None:
        sandbox = self._sandboxes.pop(sandbox_id, None)
        if sandbox is not None:
            self._requests.forget(sandbox_id)
            for line in sandbox.lines.values():
                line.cancel()
            await _of_the_place(sandbox.deployment.stop())  # type: ignore[no-untyped-call]

    async def exec(self, sandbox_id: str, request: ExecRequest, *, request_id: str) -> ExecResult:
        return await self._requests.once((sandbox_id, request_id), lambda: self._exec(sandbox_id, request))

    async def open_shell(self, sandbox_id: str, request: ShellRequest) -> str:
        sandbox = self._sandbox(sandbox_id)
        shell_id = uuid.uuid4().hex
        session = CreateBashSessionRequest(session=shell_id, startup_timeout=self._settings.start_timeout_s)
        await _of_the_place(sandbox.deployment.runtime.create_session(session))
        exports = [f"export {name}={shlex.quote(value)}" for name, value in _env(sandbox, request.env).items()]
        start = "; ".join([*exports, f"cd {shlex.quote(request.workdir or sandbox.handle.spec.workdir)}"])
        await _of_the_place(sandbox.deployment.runtime.run_in_session(BashAction(command=start, session=shell_id)))
        return shell_id

    async def shell_run(
        self, sandbox_id: str, shell_id: str, line: str, *, timeout_s: float | None = None, wait_s: float | None = None
    ) -> ShellResult:
        sandbox = self._sandbox(sandbox_id)
        action = BashAction(command=line, session=shell_id, timeout=timeout_s, check="silent")
        sandbox.lines[shell_id] = asyncio.ensure_future(sandbox.deployment.runtime.run_in_session(action))
        return await self.shell_poll(sandbox_id, shell_id, wait_s=float("inf") if wait_s is None else wait_s)

    async def shell_poll(self, sandbox_id: str, shell_id: str, *, wait_s: float = 0.0) -> ShellResult:
        sandbox = self._sandbox(sandbox_id)
        line = sandbox.lines.get(shell_id)
        if line is None:
            raise SandboxRequestError("no line runs in this shell", kind="shell_idle")
        await asyncio.wait([line], timeout=None if wait_s == float("inf") else wait_s)
        if not line.done():
            return ShellResult(running=True, output=Output())
        del sandbox.lines[shell_id]
        try:
            observation = await _of_the_place(line)
        except CommandTimeoutError as error:
            return ShellResult(exit_code=TIMED_OUT, output=Output(head=str(error).encode()), killed_by="timeout")
        return ShellResult(exit_code=observation.exit_code, output=Output(head=observation.output.encode()))

    async def shell_type(self, sandbox_id: str, shell_id: str, data: bytes) -> None:
        _refuse("to type at the terminal of a running line")

    async def shell_interrupt(self, sandbox_id: str, shell_id: str) -> ShellResult:
        _refuse("to interrupt a line and keep its shell")

    async def close_shell(self, sandbox_id: str, shell_id: str) -> None:
        runtime = self._sandbox(sandbox_id).deployment.runtime
        await _of_the_place(runtime.close_session(CloseBashSessionRequest(session=shell_id)))

    async def read(self, sandbox_id: str, path: str, *, max_bytes: int | None = None) -> bytes:
        take = 'base64 < "$1"' if max_bytes is None else f'head -c {max_bytes} "$1" | base64'
        kinds = '[ -e "$1" ] || exit 101; [ ! -d "$1" ] || exit 102; [ -r "$1" ] || exit 103'
        code, text = await self._script(sandbox_id, f"{kinds}; {take}", path)
        if code:
            raise {101: FileNotFoundError, 102: IsADirectoryError, 103: PermissionError}.get(code, OSError)(path)
        return base64.b64decode(text)

    async def write(self, sandbox_id: str, path: str, data: bytes, *, mode: int | None = None) -> None:
        start = '[ ! -d "$1" ] || exit 102; mkdir -p "$(dirname "$1")" && : > "$1"'
        steps = [(start, ""), *((_APPEND, part) for part in _parts(data))]
        if mode is not None:
            steps.append((f'chmod {mode:o} "$1"', ""))
        for script, part in steps:
            code, _ = await self._script(sandbox_id, script, path, part)
            if code:
                raise (IsADirectoryError if code == 102 else PermissionError)(path)

    async def changes(self, sandbox_id: str, under: str = "/") -> list[PathChange]:
        _refuse("to list what differs from the image")

    async def patch(self, sandbox_id: str, root: str, *, exclude: Sequence[str] = (), ended: bool = False) -> Patch:
        code, text = await self._script(sandbox_id, _PATCH, root, "\n".join(exclude))
        if code:
            raise SandboxError(f"git in the sandbox ended with {code}", kind="patch_failed")
        return Patch(data=base64.b64decode(text))

    async def archive(self, sandbox_id: str, paths: Sequence[str], **options: Any) -> Archive:
        _refuse("to archive what a sandbox holds")

    async def snapshot(self, sandbox_id: str, name: str) -> str:
        _refuse("to keep a sandbox as an image")

    async def tunnel(self, sandbox_id: str, *, port: int) -> TunnelListener:
        _refuse("to open a port inside whose connections come here: use a harness that is a Python class")

    async def stats(self, sandbox_id: str) -> Stats:
        _refuse("to measure what a sandbox uses")

    async def kills(self, sandbox_id: str) -> list[MemoryKill]:
        """None: the place's own limits end the whole sandbox."""
        return []

    def live(self) -> list[SandboxHandle]:
        return [sandbox.handle for sandbox in self._sandboxes.values()]

    async def close(self) -> None:
        await asyncio.gather(*map(self.destroy, list(self._sandboxes)))

    async def _create(self, spec: SandboxSpec) -> SandboxHandle:
        deployment = self.deployment(spec)
        await _of_the_place(deployment.start())  # type: ignore[no-untyped-call]
        handle = SandboxHandle(sandbox_id=uuid.uuid4().hex, runtime="swe-rex", spec=spec)
        self._sandboxes[handle.sandbox_id] = _Sandbox(handle, deployment, {})
        return handle

    async def _exec(self, sandbox_id: str, request: ExecRequest) -> ExecResult:
        sandbox = self._sandbox(sandbox_id)
        limit_s = request.timeout_s
        # SWE-ReX ends its own wait alone: `timeout` ends the process group.
        argv = request.argv if limit_s is None else ["timeout", "-s", "KILL", f"{limit_s:g}", *request.argv]
        if request.stdin:
            path = f"/tmp/stdin-{uuid.uuid4().hex}"  # noqa: S108 - in the sandbox
            await self.write(sandbox_id, path, request.stdin)
            argv = ["sh", "-c", f'"$@" < {path}; code=$?; rm -f {path}; exit $code', "sh", *argv]
        command = Command(
            command=argv,
            timeout=None if limit_s is None else limit_s + self._settings.answer_margin_s,
            env=_env(sandbox, request.env) or None,
            cwd=request.workdir or sandbox.handle.spec.workdir,
            merge_output_streams=request.merge_stderr,
        )
        began = time.monotonic()
        reply = await _of_the_place(sandbox.deployment.runtime.execute(command))
        took_s = time.monotonic() - began
        killed = limit_s is not None and took_s >= limit_s and reply.exit_code in (TIMED_OUT, -9)
        code = reply.exit_code or 0
        return ExecResult(
            exit_code=128 - code if code < 0 else code,
            stdout=_output(reply.stdout, request),
            stderr=_output(reply.stderr, request),
            killed_by="timeout" if killed else None,
            duration_s=took_s,
        )

    async def _script(self, sandbox_id: str, script: str, *words: str) -> tuple[int, str]:
        command = Command(command=["sh", "-c", script, "sh", *words], timeout=self._settings.answer_timeout_s)
        reply = await _of_the_place(self._sandbox(sandbox_id).deployment.runtime.execute(command))
        return reply.exit_code or 0, reply.stdout

    def _sandbox(self, sandbox_id: str) -> _Sandbox:
        sandbox = self._sandboxes.get(sandbox_id)
        if sandbox is None:
            raise SandboxGone(sandbox_id)
        return sandbox


_APPEND = 'printf %s "$2" | base64 -d >> "$1"'


async def _of_the_place(work: "Coroutine[Any, Any, Any] | asyncio.Task[Any]") -> Any:
    """What SWE-ReX answers; what it raises is the machine's failure, but for a line's own time limit."""
    try:
        return await work
    except CommandTimeoutError:
        raise
    except (SwerexException, OSError) as error:
        raise SandboxError(f"SWE-ReX: {type(error).__name__}: {error}", kind="place_failed") from error


def _env(sandbox: _Sandbox, more: dict[str, str]) -> dict[str, str]:
    return {**sandbox.handle.spec.env, **more}


def _output(text: str, request: ExecRequest) -> Output:
    data = text.encode()
    if len(data) <= request.head_bytes + request.tail_bytes:
        return Output(head=data)
    tail = data[len(data) - request.tail_bytes :]
    dropped_bytes = len(data) - request.head_bytes - request.tail_bytes
    return Output(head=data[: request.head_bytes], tail=tail, dropped_bytes=dropped_bytes)


def _parts(data: bytes) -> list[str]:
    return [base64.b64encode(data[start : start + PART_BYTES]).decode() for start in range(0, len(data), PART_BYTES)]


def _refuse(what: str) -> NoReturn:
    raise SandboxRequestError(f"SWE-ReX has no way {what}", kind="unsupported")
