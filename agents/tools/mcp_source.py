"""The tools of MCP servers, by the official client: a session of each server for each rollout.

Where   `command`: a process of the rollout's own, in a sandbox of its own or as a child of the agent; `url`: over
        streamable HTTP. A session is ended with its rollout, its process and sandbox too.
Result  texts of its content, one below the other, else its structured content as JSON; images beside them. What says
        `is_error` is a text for the model like any other: so MCP servers answer bad arguments.
Errors  InfraError: a server that does not start, is lost, takes too long, breaks the protocol, or gives content that a
        model can't be shown. A call that the server refuses for its arguments (`INVALID_PARAMS`) is the model's.
"""

import asyncio
import re
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from mcp import Client, MCPError
from mcp.client._transport import TransportStreams
from mcp_types import (
    INVALID_PARAMS,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from mcp_types import Tool as McpTool
from pydantic_core import to_json

from paddock.agents.tools.mcp_places import McpPlace
from paddock.agents.tools.sources import ToolReply
from paddock.errors import InfraError, PaddockError
from paddock.http import Call
from paddock.tools import InvalidCall, decode_object
from paddock.types import JsonObject

END_S = 10.0
"""Seconds that the end of a session may take; then its connection is cut."""
MAX_PAGES = 100
"""Pages of a server's list of tools."""
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]")
"""What the name of a function can't have."""
T = TypeVar("T")


class McpSource:
    """One server's session. `async with` opens and ends it."""

    def __init__(self, name: str, place: McpPlace, connect_timeout_s: float) -> None:
        self.name = name
        self.tools: Sequence[JsonObject] = ()
        self._place = place
        self._timeout_s = connect_timeout_s
        self._own_names: dict[str, str] = {}
        self._closing = asyncio.Event()
        self._connected: asyncio.Future[Client] = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> "McpSource":
        # A task of its own: the client's end would else cancel whoever opened it.
        self._session = asyncio.create_task(self._hold())
        try:
            async with asyncio.timeout(self._timeout_s):
                first: list[asyncio.Future[Any]] = [self._session, self._connected]
                await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
                if not self._connected.done():
                    raise await self._why_lost()
                await self._list(self._connected.result())
        except BaseException as error:
            await self.__aexit__()
            if isinstance(error, TimeoutError):
                raise InfraError(
                    f"MCP server {self.name}: no answer in {self._timeout_s:g} s", kind="timeout"
                ) from error
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closing.set()
        ending = asyncio.ensure_future(self._end())
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await asyncio.wait([ending])
            raise

    async def call(self, name: str, arguments: str, context: Call) -> ToolReply:
        given = decode_object(arguments or "{}")
        if isinstance(given, InvalidCall):
            return ToolReply(f"{name}: {given.detail}", "bad_json")
        client = self._connected.result()
        try:
            async with asyncio.timeout(context.remaining_s):
                result = await self._of_session(client.call_tool(self._own_names[name], given))
        except TimeoutError as error:
            raise InfraError(f"MCP server {self.name}: {name}: no answer in time", kind="timeout") from error
        except MCPError as error:
            if error.code != INVALID_PARAMS:
                raise await self._failure(f"{name}: {error}") from error
            return ToolReply(f"{name}: {error}", "bad_arguments")
        return self._reply(name, result)

    async def _hold(self) -> None:
        async with self._place.streams() as streams, Client(_OpenTransport(streams)) as client:
            self._connected.set_result(client)
            await self._closing.wait()

    async def _end(self) -> None:
        if self._connected.done():
            await asyncio.wait({self._session}, timeout=END_S)
        self._session.cancel()
        await asyncio.gather(self._session, return_exceptions=True)
        self._connected.cancel()

    async def _of_session(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what `work` comes to while the session lives. Raises InfraError where that ends first."""
        running = asyncio.create_task(work)
        try:
            await asyncio.wait({running, self._session}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                return running.result()
        except (MCPError, PaddockError):
            raise
        except Exception as error:
            raise await self._failure(f"{type(error).__name__}: {error}") from error
        finally:
            running.cancel()
        raise await self._why_lost()

    async def _why_lost(self) -> InfraError:
        error = self._session.exception() if self._session.done() and not self._session.cancelled() else None
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, InfraError):
            return InfraError(f"MCP server {self.name}: {error.message}", kind=error.kind)
        return await self._failure(f"the connection was lost: {error or 'the server closed it'}", kind="mcp_lost")

    async def _failure(self, text: str, kind: str = "tool_failed") -> InfraError:
        said = await self._place.last_words()
        return InfraError(f"MCP server {self.name}: {text}{'; it said: ' if said else ''}{said}", kind=kind)

    async def _list(self, client: Client) -> None:
        found: list[McpTool] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self._of_session(client.list_tools(cursor=cursor))
            found += page.tools
            cursor = page.next_cursor
            if cursor is None:
                break
        self._own_names = {_NO_NAME.sub("_", tool.name): tool.name for tool in found}
        self.tools = [_definition(tool) for tool in found]

    def _reply(self, name: str, result: CallToolResult) -> ToolReply:
        images = [part for part in result.content if isinstance(part, ImageContent)]
        texts = [self._text(name, part) for part in result.content if not isinstance(part, ImageContent)]
        if not result.content and result.structured_content is not None:
            texts.append(to_json(result.structured_content).decode())
        return ToolReply("\n".join(texts), images=[f"data:{image.mime_type};base64,{image.data}" for image in images])

    def _text(self, name: str, part: ContentBlock) -> str:
        if isinstance(part, TextContent):
            return part.text
        if isinstance(part, ResourceLink):
            return f"{part.name}: {part.uri}"
        if isinstance(part, EmbeddedResource) and isinstance(part.resource, TextResourceContents):
            return part.resource.text
        raise InfraError(
            f"MCP server {self.name}: {name}: content of type {part.type!r} can't be shown", kind="content_refused"
        )


class _OpenTransport:
    """Streams that are open already, as a transport."""

    def __init__(self, streams: TransportStreams) -> None:
        self._streams = streams

    async def __aenter__(self) -> TransportStreams:
        return self._streams

    async def __aexit__(self, *_: object) -> None:
        return


def _definition(tool: McpTool) -> JsonObject:
    described = {"description": tool.description} if tool.description else {}
    return {
        "type": "function",
        "name": _NO_NAME.sub("_", tool.name),
        **described,
        "parameters": tool.input_schema,
    }
