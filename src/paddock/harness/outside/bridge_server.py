"""Our end of a program's channel: the workspace does what the program's tools ask for.

Wire    JSON lines, of `bridge.py`; bytes in base64. Requests are answered as they are done, several at once.
Shells  those that are open when the program has ended, in whatever way, are closed with all that runs in them.
Law     an error of a file, or of a request that no sandbox can serve, is an answer. What else the workspace raises ends
        the run and is raised here: it never becomes a tool's text.
Errors  InfraError "program_garbled" for a line that is none; those of the workspace.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Literal, TypeVar

import orjson
from pydantic import ValidationError

from paddock.errors import InfraError
from paddock.harness.contract import ShellSession, Workspace
from paddock.harness.results import ShellOutput
from paddock.sandbox.failures import SandboxRequestError
from paddock.types import JsonObject, Record

R = TypeVar("R", bound=Record)
DriverExitReason = Literal["finished", "gave_up", "turn_limit", "time_limit", "config", "failed"]


class DriverExit(Record):
    """The last message of a driver: how its program has ended."""

    op: Literal["end"]
    ended: DriverExitReason
    """`gave_up`: on a policy that it can't follow; `turn_limit`, `time_limit`: of the program's own; `config`: its
    settings are wrong."""
    text: str | None = None


class _ExecRequest(Record):
    argv: list[str]
    timeout_s: float | None
    cwd: str | None
    env: dict[str, str]
    stdin: str


class _ReadRequest(Record):
    path: str


class _WriteRequest(Record):
    path: str
    data: str


class _OpenShellRequest(Record):
    pass


class _ShellRequest(Record):
    shell: int


class _RunLineRequest(_ShellRequest):
    line: str
    timeout_s: float | None
    wait_s: float | None


class _PollRequest(_ShellRequest):
    wait_s: float


class _TypeRequest(_ShellRequest):
    text: str
    wait_s: float


class BridgeServer:
    """Serves the requests of one run of a program."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._shells: dict[int, ShellSession] = {}
        self._opened = 0
        self._answers: Mapping[str, tuple[type[Record], Callable[[Any], Awaitable[JsonObject]]]] = {
            "exec": (_ExecRequest, self._exec),
            "read": (_ReadRequest, self._read),
            "write": (_WriteRequest, self._write),
            "shell_open": (_OpenShellRequest, self._open),
            "shell_run": (_RunLineRequest, self._run),
            "shell_poll": (_PollRequest, self._poll),
            "shell_type": (_TypeRequest, self._type),
            "shell_interrupt": (_ShellRequest, self._interrupt),
            "shell_close": (_ShellRequest, self._close),
        }

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> DriverExit | None:
        """Answer requests until the driver reports its end; None: it ended without a message. Raises InfraError for a
        message that is wrong, and what the workspace raises."""
        driver_exit: DriverExit | None = None
        try:
            async with asyncio.TaskGroup() as group:
                under_way: set[asyncio.Task[None]] = set()
                while driver_exit is None and (line := await _line(reader)):
                    message = _message(line)
                    if message.get("op") == "end":
                        driver_exit = _checked(DriverExit, message)
                        break
                    task = group.create_task(self._answer(message, writer))
                    under_way.add(task)
                    task.add_done_callback(under_way.discard)
                for task in under_way:
                    task.cancel()
        except BaseExceptionGroup as group_error:
            raise group_error.exceptions[0] from None
        finally:
            await self._close_all()
        return driver_exit

    async def _close_all(self) -> None:
        """Close all shells, with the lines that run in them."""
        while self._shells:
            _, shell = self._shells.popitem()
            with suppress(SandboxRequestError):  # it is gone by itself
                await shell.close()

    async def _answer(self, message: JsonObject, writer: asyncio.StreamWriter) -> None:
        number, op = message.pop("id", None), message.pop("op", None)
        if op not in self._answers:
            raise _garbled(f"there is no {op!r}")
        request_type, answer = self._answers[op]
        request = _checked(request_type, message)
        if isinstance(request, _ShellRequest) and request.shell not in self._shells:
            raise _garbled(f"there is no shell {request.shell}")
        try:
            reply: JsonObject = {"ok": await answer(request)}
        except OSError as error:
            reply = {"error": {"kind": type(error).__name__, "text": str(error)}}
        except SandboxRequestError as error:
            reply = {"error": {"kind": "ValueError", "text": error.message}}
        try:
            writer.write(orjson.dumps({"id": number, **reply}) + b"\n")
            await writer.drain()
        except ConnectionError:
            return  # it is gone, which the reading end learns

    async def _exec(self, request: _ExecRequest) -> JsonObject:
        argv = ["env", "-C", request.cwd, *request.argv] if request.cwd else request.argv
        done = await self._workspace.exec(
            argv, stdin=request.stdin.encode(), env=request.env, timeout_s=request.timeout_s
        )
        return {
            "output": done._replace(timed_out=False).text(),
            "exit_code": done.exit_code,
            "timed_out": done.timed_out,
            "refused": done.refused,
        }

    async def _read(self, request: _ReadRequest) -> JsonObject:
        return {"data": base64.b64encode(await self._workspace.read(request.path)).decode()}

    async def _write(self, request: _WriteRequest) -> JsonObject:
        await self._workspace.write(request.path, base64.b64decode(request.data))
        return {}

    async def _open(self, _request: _OpenShellRequest) -> JsonObject:
        shell = await self._workspace.shell()
        self._opened += 1
        self._shells[self._opened] = shell
        return {"shell": self._opened}

    async def _run(self, request: _RunLineRequest) -> JsonObject:
        shell = self._shells[request.shell]
        return _shell_reply(await shell.run(request.line, timeout_s=request.timeout_s, wait_s=request.wait_s))

    async def _poll(self, request: _PollRequest) -> JsonObject:
        return _shell_reply(await self._shells[request.shell].poll(wait_s=request.wait_s))

    async def _type(self, request: _TypeRequest) -> JsonObject:
        return _shell_reply(await self._shells[request.shell].type(request.text.encode(), wait_s=request.wait_s))

    async def _interrupt(self, request: _ShellRequest) -> JsonObject:
        return _shell_reply(await self._shells[request.shell].interrupt())

    async def _close(self, request: _ShellRequest) -> JsonObject:
        await self._shells.pop(request.shell).close()
        return {}


def _shell_reply(done: ShellOutput) -> JsonObject:
    return {
        "output": done._replace(timed_out=False).text(),
        "exit_code": done.exit_code,
        "workdir": done.workdir,
        "timed_out": done.timed_out,
        "refused": done.refused,
        "closed": done.closed,
    }


async def _line(reader: asyncio.StreamReader) -> bytes:
    """Read one message; empty at the end of the channel, also where it ends in half a line."""
    try:
        line = await reader.readline()
    except ValueError as error:
        raise _garbled("a line longer than any") from error
    except ConnectionError:
        return b""
    return line if line.endswith(b"\n") else b""


def _message(line: bytes) -> JsonObject:
    try:
        message = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise _garbled(f"no JSON: {line[:80]!r}") from error
    if not isinstance(message, dict):
        raise _garbled(f"no object: {line[:80]!r}")
    return message


def _checked(cls: type[R], message: JsonObject) -> R:
    try:
        return cls.model_validate(message)
    except ValidationError as error:
        raise _garbled(f"{sorted(message)}: {error.errors()[0]['msg']}") from error


def _garbled(what: str) -> InfraError:
    return InfraError(f"a program's driver asks what nobody can: {what}", kind="program_garbled", retryable=False)
