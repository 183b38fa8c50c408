"""A real MCP server for tests: `python mcp_shelf.py stdio`, or `http PORT TOKEN [json]`."""

import asyncio
import base64
import json
import os
import sys
import time
from typing import Any

from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import AudioContent

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
server = MCPServer("shelf")
calls: list[str] = []


@server.tool()
def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right


@server.tool()
def note(text: str) -> str:
    """Note a text; says all that was noted."""
    calls.append(text)
    return json.dumps([os.getpid(), *calls])


@server.tool()
def fail(why: str) -> str:
    """Fail."""
    raise ToolError(why)


@server.tool()
def picture() -> Image:
    """Give a picture."""
    return Image(data=PIXEL, format="png")


@server.tool()
def sound() -> AudioContent:
    """Give a sound."""
    return AudioContent(type="audio", data="AAAA", mime_type="audio/wav")


@server.tool(name="move.item")
def move_item(item: str) -> str:
    """Have a name that no function has."""
    return f"moved {item}"


@server.tool()
def move(item: str) -> str:
    """Have the name of one of the environment's tools."""
    return f"not {item}"


@server.tool()
def flood(size: int) -> str:
    """Give a long text."""
    return "x" * size


@server.tool()
def die() -> str:
    """End the server."""
    os.write(2, b"shelf fell down\n")
    os._exit(3)


@server.tool()
def babble() -> str:
    """Break the protocol."""
    os.write(1, b"this is no message\n" * 3)
    return "said"


@server.tool()
def hang() -> str:
    """Block the server."""
    time.sleep(600)
    return ""


class TokenGate:
    """Refuses requests without the token."""

    def __init__(self, app: Any, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and dict(scope["headers"]).get(b"authorization") != b"Bearer " + self._token:
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await self._app(scope, receive, send)


async def serve_http(port: int, token: str, json_response: bool) -> None:
    import uvicorn

    app = TokenGate(server.streamable_http_app(json_response=json_response), token)
    await uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error")).serve()


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        asyncio.run(serve_http(int(sys.argv[2]), sys.argv[3], "json" in sys.argv[4:]))
