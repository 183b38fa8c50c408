"""Where MCP servers run: at a URL, beside the agent, or in a sandbox. Each gives the streams of the `mcp` client.

HTTP    streamable HTTP. A token goes to the URL's own address alone; variables for proxies hold beyond loopback alone.
Child   a process of the agent's user, with its files and network. It gets no variables but the usual ones, a
        TMPDIR of its own and `env`. However the agent ends, nothing of it is left: it has a supervisor.
Sandbox the host listens on the sandbox's loopback; a shell inside connects to it and becomes the server, whose standard
        input and output are that connection. So it works in every sandbox that has a tunnel, and needs bash inside.
Law     a message of more than `max_message_mib` is read no further: what runs in a sandbox or at a URL is not trusted
        with our memory.
Errors  InfraError where the server can't be started or does not connect.
"""

import asyncio
import os
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import IO, Protocol

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import StdioServerParameters, stdio_client
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from paddock.agents.tools.config import McpServerConfig
from paddock.errors import InfraError
from paddock.http.access import bearer
from paddock.processes import supervised_argv
from paddock.sandbox import BudgetExceeded, ExecRequest, ExecResult, Provider, SandboxSpec, TunnelConnection
from paddock.server.fields import secret_text
from paddock.server.sockets import is_loopback

PORT = 47_613
"""Inside: the sandbox is the server's own."""
MAX_ERROR_BYTES = 2000
LAST_WORDS_S = 5.0
"""Seconds to wait for the end of a server in a sandbox, which is when its standard error can be seen."""
CONNECT_TIMEOUT_S = 30.0
CHILD_GRACE_S = 1.0
"""Seconds that a child has to end when its standard input has ended, and again when it was told to."""
_CONNECT = 'exec 3<>"/dev/tcp/127.0.0.1/$0" && exec "$@" <&3 >&3 3>&-'


class McpPlace(Protocol):
    """One server for one rollout."""

    def streams(self) -> AbstractAsyncContextManager[TransportStreams]:
        """Open the streams; with the block's end the server has ended, or the connection to it."""
        ...

    async def last_words(self) -> str:
        """Return the end of what the server wrote to standard error, as far as that can be seen."""
        ...


class HttpPlace:
    """A server that runs elsewhere."""

    def __init__(self, config: McpServerConfig) -> None:
        self._url = str(config.url)
        self._headers = {name: value.get_secret_value() for name, value in config.headers.items()}
        self._headers |= bearer(secret_text(config.token))
        self._max_bytes = config.max_message_mib << 20

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[TransportStreams]:
        here = is_loopback(httpx2.URL(self._url).host)
        timeout = httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S)
        async with (
            httpx2.AsyncClient(
                headers=self._headers, timeout=timeout, trust_env=not here, event_hooks={"response": [self._bound]}
            ) as client,
            streamable_http_client(self._url, http_client=client, max_sse_event_size=self._max_bytes) as streams,
        ):
            yield streams

    async def _bound(self, response: httpx2.Response) -> None:
        """Bound what is read of an answer that is one message; the client bounds each event of a stream."""
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)  # it is an asynchronous client's
            response.stream = BoundedStream(response.stream, self._max_bytes)

    async def last_words(self) -> str:
        return ""


class BoundedStream(httpx2.AsyncByteStream):
    """The body of an answer, as far as it has no more than so many bytes; then StreamError."""

    def __init__(self, stream: httpx2.AsyncByteStream, max_bytes: int) -> None:
        self._stream = stream
        self._max_bytes = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for part in self._stream:
            size += len(part)
            if size > self._max_bytes:
                raise httpx2.StreamError(f"an answer of more than {self._max_bytes} bytes")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


class ChildPlace:
    """A server that is a child of the agent."""

    def __init__(self, config: McpServerConfig) -> None:
        self._argv = [str(config.command), *config.args]
        self._env = config.env
        self._log: IO[str] | None = None
        self._said = ""

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[TransportStreams]:
        if shutil.which(self._argv[0], path=self._env.get("PATH")) is None:
            raise InfraError(f"{self._argv[0]}: there is no such program", kind="mcp_start_failed")
        with tempfile.TemporaryFile("w+", errors="replace") as log, tempfile.TemporaryDirectory() as scratch:
            self._log = log
            python, *args = supervised_argv(self._argv, scratch=scratch, grace_s=CHILD_GRACE_S, passes_stdin=True)
            parameters = StdioServerParameters(command=python, args=args, env={"TMPDIR": scratch, **self._env})
            try:
                async with stdio_client(parameters, errlog=log) as streams:
                    yield streams
            except OSError as error:
                raise InfraError(f"{self._argv[0]}: {error}", kind="mcp_start_failed") from error
            finally:
                self._said, self._log = self._read(log), None

    async def last_words(self) -> str:
        return self._said if self._log is None else self._read(self._log)

    def _read(self, log: IO[str]) -> str:
        size = os.fstat(log.fileno()).st_size
        data = os.pread(log.fileno(), MAX_ERROR_BYTES, max(0, size - MAX_ERROR_BYTES))
        return data.decode(errors="replace").strip()


class SandboxPlace:
    """A server in a sandbox that is made for it."""

    def __init__(self, config: McpServerConfig, provider: Provider, spec: SandboxSpec) -> None:
        self._argv = ["bash", "-c", _CONNECT, str(PORT), str(config.command), *config.args]
        self._env = config.env
        self._max_bytes = config.max_message_mib << 20
        self._provider = provider
        self._spec = spec
        self._process: asyncio.Task[ExecResult] | None = None

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[TransportStreams]:
        handle = await self._provider.create(self._spec, request_id=uuid.uuid4().hex)
        try:
            async with self._connected(handle.sandbox_id) as streams:
                yield streams
        except BudgetExceeded as error:
            raise InfraError(f"its sandbox was killed: {error}", kind="mcp_lost") from error
        finally:
            await asyncio.shield(self._provider.destroy(handle.sandbox_id))

    async def last_words(self) -> str:
        process = self._process
        if process is not None:
            await asyncio.wait({process}, timeout=LAST_WORDS_S)
        if process is None or not process.done() or process.cancelled() or process.exception() is not None:
            return ""
        return bytes(process.result().stderr).decode(errors="replace").strip()

    @asynccontextmanager
    async def _connected(self, sandbox_id: str) -> AsyncIterator[TransportStreams]:
        async with AsyncExitStack() as stack:
            listener = await self._provider.tunnel(sandbox_id, port=PORT)
            stack.push_async_callback(listener.close)
            request = ExecRequest(argv=self._argv, env=self._env, head_bytes=0, tail_bytes=MAX_ERROR_BYTES)
            running = self._provider.exec(sandbox_id, request, request_id=uuid.uuid4().hex)
            process = self._process = asyncio.ensure_future(running)
            stack.push_async_exit(self._end_of_process)
            connection = await _first(listener.connections(), process)
            stack.push_async_callback(connection.close)
            received, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
            write, sent = anyio.create_memory_object_stream[SessionMessage](0)
            for stream in (received, read, write, sent):
                stack.callback(stream.close)
            pumps = [
                asyncio.create_task(_receive(connection, received, self._max_bytes)),
                asyncio.create_task(_send(connection, sent)),
            ]
            stack.push_async_callback(_end, *pumps)
            yield read, write

    async def _end_of_process(self, _: object, error: BaseException | None, __: object) -> None:
        assert self._process is not None
        if isinstance(error, Exception):
            # The connection is closed: a server that closed it first ends soon, and says why only with its end.
            await asyncio.wait({self._process}, timeout=LAST_WORDS_S)
        await _end(self._process)


async def _first(connections: AsyncIterator[TunnelConnection], process: asyncio.Task[ExecResult]) -> TunnelConnection:
    connected = asyncio.ensure_future(anext(connections))
    try:
        await asyncio.wait({connected, process}, return_when=asyncio.FIRST_COMPLETED)
        if connected.done():
            return connected.result()
    finally:
        connected.cancel()
    result = process.result()
    said = bytes(result.stderr).decode(errors="replace").strip()
    raise InfraError(f"it ended with {result.exit_code} before it connected: {said}", kind="mcp_start_failed")


async def _end(*tasks: asyncio.Task[object]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _receive(
    connection: TunnelConnection, received: MemoryObjectSendStream[SessionMessage | Exception], max_bytes: int
) -> None:
    """Pass on messages as lines come, until the other side closes or breaks the protocol."""
    waiting = bytearray()
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        async with received:
            while data := await connection.read():
                waiting += data
                if len(waiting) > max_bytes:
                    return
                if b"\n" not in data:
                    continue
                *lines, rest = bytes(waiting).split(b"\n")
                waiting = bytearray(rest)
                for line in lines:
                    await received.send(_message(line))


def _message(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _send(connection: TunnelConnection, sent: MemoryObjectReceiveStream[SessionMessage]) -> None:
    with suppress(OSError):
        async with sent:
            async for message in sent:
                line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await connection.write(line.encode() + b"\n")
