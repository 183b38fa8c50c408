"""Our end of a program's channel: what its tools ask for, the workspace does.

Wire    JSON lines, of `bridge.py`; bytes in base64. Requests are answered as they are done, several at once.
Shells  those that are open when the program has ended, in whatever way, are closed with all that runs in them.
Law     an error of a file is an answer, and so is that something can't be asked for. What the workspace raises beside
        ends the run and is raised here: it never becomes a tool's text.
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
    """How a driver says that its program has ended."""

    op: Literal["end"]
    ended: DriverExitReason
    """`gave_up`: on a policy that it can't follow; `turn_limit`, `time_limit`: of the program's own; `config`: its
    settings are wrong."""
    text: str | None = None


class _Exec(Record):
    argv: list[str]
    timeout_s: float | None
    cwd: str | None
    env: dict[str, str]
    stdin: str


class _Read(Record):
    path: str


class _Write(Record):
    path: str
    data: str


class _Open(Record):
    pass


class _At(Record):
    shell: int


class _Run(_At):
    line: str
    timeout_s: float | None
    wait_s: float | None


class _Poll(_At):
    wait_s: float


class _Type(_At):
    text: str
    wait_s: float


class BridgeServer:
    """Of one run."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._shells: dict[int, ShellSession] = {}
        self._opened = 0
        self._answers: Mapping[str, tuple[type[Record], Callable[[Any], Awaitable[JsonObject]]]] = {
            "exec": (_Exec, self._exec),
            "read": (_Read, self._read),
            "write": (_Write, self._write),
            "shell_open": (_Open, self._open),
            "shell_run": (_Run, self._run),
            "shell_poll": (_Poll, self._poll),
            "shell_type": (_Type, self._type),
            "shell_interrupt": (_At, self._interrupt),
            "shell_close": (_At, self._close),
        }

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> DriverExit | None:
        """Answer until it says that it has ended; None: it is gone without a word."""
        told: DriverExit | None = None
        try:
            async with asyncio.TaskGroup() as group:
                under_way: set[asyncio.Task[None]] = set()
                while told is None and (line := await _line(reader)):
                    message = _message(line)
                    if message.get("op") == "end":
                        told = _checked(DriverExit, message)
                        break
                    task = group.create_task(self._answer(message, writer))
                    under_way.add(task)
                    task.add_done_callback(under_way.discard)
                for task in under_way:
                    task.cancel()
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        finally:
            await self._close_all()
        return told

    async def _close_all(self) -> None:
        """A line that still runs goes with its shell."""
        while self._shells:
            _, shell = self._shells.popitem()
            with suppress(SandboxRequestError):  # it is gone by itself
                await shell.close()

    async def _answer(self, message: JsonObject, writer: asyncio.StreamWriter) -> None:
        number, op = message.pop("id", None), message.pop("op", None)
        if op not in self._answers:
            raise _garbled(f"there is no {op!r}")
        request, answer = self._answers[op]
        given = _checked(request, message)
        if isinstance(given, _At) and given.shell not in self._shells:
            raise _garbled(f"there is no shell {given.shell}")
        try:
            said: JsonObject = {"ok": await answer(given)}
        except OSError as error:
            said = {"error": {"kind": type(error).__name__, "text": str(error)}}
        except SandboxRequestError as error:
            said = {"error": {"kind": "ValueError", "text": error.message}}
        try:
            writer.write(orjson.dumps({"id": number, **said}) + b"\n")
            await writer.drain()
        except ConnectionError:
            return  # it is gone, which the reading end learns

    async def _exec(self, given: _Exec) -> JsonObject:
        argv = ["env", "-C", given.cwd, *given.argv] if given.cwd else given.argv
        done = await self._workspace.exec(argv, stdin=given.stdin.encode(), env=given.env, timeout_s=given.timeout_s)
        return {
            "output": done._replace(timed_out=False).text(),
            "exit_code": done.exit_code,
            "timed_out": done.timed_out,
            "refused": done.refused,
        }

    async def _read(self, given: _Read) -> JsonObject:
        return {"data": base64.b64encode(await self._workspace.read(given.path)).decode()}

    async def _write(self, given: _Write) -> JsonObject:
        await self._workspace.write(given.path, base64.b64decode(given.data))
        return {}

    async def _open(self, _given: _Open) -> JsonObject:
        shell = await self._workspace.shell()
        self._opened += 1
        self._shells[self._opened] = shell
        return {"shell": self._opened}

    async def _run(self, given: _Run) -> JsonObject:
        shell = self._shells[given.shell]
        return _shown(await shell.run(given.line, timeout_s=given.timeout_s, wait_s=given.wait_s))

    async def _poll(self, given: _Poll) -> JsonObject:
        return _shown(await self._shells[given.shell].poll(wait_s=given.wait_s))

    async def _type(self, given: _Type) -> JsonObject:
        return _shown(await self._shells[given.shell].type(given.text.encode(), wait_s=given.wait_s))

    async def _interrupt(self, given: _At) -> JsonObject:
        return _shown(await self._shells[given.shell].interrupt())

    async def _close(self, given: _At) -> JsonObject:
        await self._shells.pop(given.shell).close()
        return {}


def _shown(done: ShellOutput) -> JsonObject:
    return {
        "output": done._replace(timed_out=False).text(),
        "exit_code": done.exit_code,
        "workdir": done.workdir,
        "timed_out": done.timed_out,
        "refused": done.refused,
        "closed": done.closed,
    }


async def _line(reader: asyncio.StreamReader) -> bytes:
    """Empty: there is none any more; half a line is none."""
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
