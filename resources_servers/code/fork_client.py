"""The host's end of `fork_server.py`: it asks for one test at a time, and only it knows what is expected.

Law     the connection is made before the first test, and its listener closed: nothing that a test starts is ever taken
        for the server. A server that ends or does not answer was ended or stopped by a test, or by the machine: the
        result is `killed_by` "interrupt" or "timeout".
Errors  SandboxError `interpreter`: Python did not start, or lacks what the server needs.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from paddock.resources_servers.code.box import ProcessResult, ProgramBox
from paddock.resources_servers.code.fork_server import ANSWER, LENGTH, READY
from paddock.resources_servers.code.languages import FILE
from paddock.sandbox import SandboxError, TunnelConnection, TunnelListener

_SOURCE = Path(__file__).with_name("fork_server.py").read_text()
_START_S = 60.0
"""Seconds for Python to start."""
_END_S = 5.0
"""Seconds for the server's end to show after that of its connection."""
_KILLED = -9


@asynccontextmanager
async def fork_server(box: ProgramBox, run: Sequence[str], words: Sequence[str]) -> AsyncIterator["ForkServer"]:
    """The server of a sandbox. `run`: a command that runs the Python program `{file}`; `words`: the program's file and,
    where it is called, the function."""
    listener = await box.provider.tunnel(box.sandbox_id, port=0)
    limits = box.limits
    arguments = (str(listener.port), str(limits.cpu_s), str(limits.output_kib << 10), *words)
    python = [part for word in run for part in (("-c", _SOURCE) if word == FILE else (word,))]
    process = asyncio.ensure_future(box.exec([*python, *arguments]))
    # It ends with the sandbox: what it raises then is read here, so that none is logged.
    process.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    try:
        connection = await _connection(listener, process)
    finally:
        await listener.close()
    try:
        server = ForkServer(box, connection, process)
        await server.start()
        yield server
    finally:
        await connection.close()


class ForkServer:
    """A server that runs."""

    def __init__(self, box: ProgramBox, connection: TunnelConnection, process: "asyncio.Future[ProcessResult]") -> None:
        self._box = box
        self._connection = connection
        self._process = process
        self._received = b""

    async def start(self) -> None:
        """Wait until it can run tests."""
        try:
            async with asyncio.timeout(_START_S):
                await self._read(len(READY))
        except (OSError, EOFError):
            raise await _start_error(self._process) from None

    async def run_test(self, given: bytes) -> ProcessResult:
        """Run one test to its end, or to the end of its time."""
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._box.limits.wall_s):
                await self._connection.write(LENGTH.pack(len(given)) + given)
                code, too_long, n_out, n_err = ANSWER.unpack(await self._read(ANSWER.size))
                stdout, stderr = await self._read(n_out), await self._read(n_err)
        except TimeoutError:
            return ProcessResult(_KILLED, b"", b"", self._box.limits.wall_s, killed_by="timeout")
        except (OSError, EOFError):
            return await self._end(time.monotonic() - started)
        result = ProcessResult(
            128 - code if code < 0 else code, stdout, stderr, time.monotonic() - started, whole=not too_long
        )
        if code == _KILLED and await self._box.provider.kills(self._box.sandbox_id):
            return result._replace(killed_by="memory")
        return result

    async def _end(self, duration_s: float) -> ProcessResult:
        """Why it ended during a test; raises where its sandbox did."""
        await asyncio.wait([self._process], timeout=_END_S)
        end = self._process.result() if self._process.done() else ProcessResult(_KILLED, b"", b"", duration_s)
        return end._replace(stdout=b"", duration_s=duration_s, killed_by=end.killed_by or "interrupt")

    async def _read(self, n_bytes: int) -> bytes:
        parts, left = [self._received], n_bytes - len(self._received)
        while left > 0:
            part = await self._connection.read()
            if not part:
                raise EOFError
            parts.append(part)
            left -= len(part)
        received = b"".join(parts)
        self._received = received[n_bytes:]
        return received[:n_bytes]


async def _connection(listener: TunnelListener, process: "asyncio.Future[ProcessResult]") -> TunnelConnection:
    """The first connection, which is the server's: nothing else runs yet."""
    first = asyncio.ensure_future(anext(listener.connections()))
    either: list[asyncio.Future[Any]] = [first, process]
    await asyncio.wait(either, timeout=_START_S, return_when=asyncio.FIRST_COMPLETED)
    if first.done():
        return first.result()
    first.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await first
    raise await _start_error(process)


async def _start_error(process: "asyncio.Future[ProcessResult]") -> Exception:
    await asyncio.wait([process], timeout=_END_S)
    if not process.done():
        why = f"it did not connect within {_START_S:g} s"
    else:
        end = process.result()
        why = f"it ended with {end.exit_code}: {end.stderr.decode(errors='replace')[-2000:]}"
    return SandboxError(f"Python could not serve tests: {why}", kind="interpreter", retryable=False)
