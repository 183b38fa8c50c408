"""A model server as its clients reach it: each dialect, streamed or whole, over each transport.

Law     an error is not raised but given back as the status and body that an HTTP client gets; the transports differ
        in nothing that a test can see.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx
import orjson

from paddock.errors import PaddockError
from paddock.http import (
    CHAT,
    MESSAGES,
    PLAIN_CHAT,
    PLAIN_MESSAGES,
    PLAIN_RESPONSES,
    RESPONSES,
    Call,
    DirectPeer,
    EventStream,
    HttpPeer,
)
from paddock.http.transport import make_client
from paddock.server import ModelServer
from paddock.server.app import build_app
from paddock.server.dialects import Dialect, error_reply
from paddock.testing.transports import Transport, over
from paddock.types import JsonObject

_ROUTES = {("responses", True): RESPONSES, ("chat", True): CHAT, ("messages", True): MESSAGES}
_ROUTES |= {("responses", False): PLAIN_RESPONSES, ("chat", False): PLAIN_CHAT, ("messages", False): PLAIN_MESSAGES}


class DialectReply(NamedTuple):
    """What came back."""

    status: int
    body: JsonObject
    """Empty when a stream came."""
    stream: bytes
    """Empty when a whole answer came."""


class ModelClient:
    """Asks one model server."""

    def __init__(self, direct: DirectPeer | None, client: httpx.AsyncClient | None, base_url: str) -> None:
        self._direct = direct
        self._client = client
        self._base_url = base_url

    async def ask(
        self, dialect: Dialect, body: JsonObject, secret: str | None = None, *, key: str | None = None
    ) -> DialectReply:
        """`secret`: in the URL; `key`: as the API key."""
        route = _ROUTES[dialect, secret is not None]
        path = {"secret": secret} if secret is not None else {}
        if self._direct is not None:
            return await self._ask_directly(self._direct, route, body, Call(bearer=key), path)
        assert self._client is not None
        headers = {"content-type": "application/json", **({"authorization": f"Bearer {key}"} if key else {})}
        url = self._base_url + route.path.format(**path)
        reply = await self._client.post(url, content=orjson.dumps(body), headers=headers)
        if reply.headers["content-type"].startswith("text/event-stream"):
            return DialectReply(reply.status_code, {}, reply.content)
        return DialectReply(reply.status_code, orjson.loads(reply.content), b"")

    async def _ask_directly(
        self, peer: DirectPeer, route: Any, body: JsonObject, call: Call, path: dict[str, str]
    ) -> DialectReply:
        try:
            reply = await peer.call(route, body, call, **path)
        except PaddockError as error:
            failed = error_reply(route.path, error)
            return DialectReply(failed.status, failed.body, b"")
        if isinstance(reply, EventStream):
            return DialectReply(200, {}, b"".join([event async for event in reply.events]))
        return DialectReply(200, reply, b"")


@asynccontextmanager
async def asking(transport: Transport, server: ModelServer[Any]) -> AsyncIterator[ModelClient]:
    """A client of the server, which is started and stopped."""
    async with over(transport, server) as peers:
        peer = peers[server.name]
        if isinstance(peer, DirectPeer):
            yield ModelClient(peer, None, "")
            return
        assert isinstance(peer, HttpPeer)
        app = httpx.ASGITransport(build_app(server))
        client = make_client() if transport == "http" else httpx.AsyncClient(transport=app, timeout=None)
        async with client:
            yield ModelClient(None, client, peer.base_url)
