"""HTTP to one node: messages and their answers, whatever these say, and the links of tunnels.

Errors  UnreachableError: there was no answer, or not all of it; whether the node has acted is not known.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import aiohttp
import orjson
from yarl import URL

from paddock.http.access import bearer, token_for
from paddock.http.connection_pool import ConnectionPool
from paddock.http.transport import failure_text, make_session
from paddock.sandbox.remote.errors import error_from_wire
from paddock.sandbox.remote.wire import JSON

POLL_S = 20.0
"""Seconds after which a node answers that a call still runs: no connection is silent for longer."""
SILENCE_TIMEOUT_S = 40.0
"""Seconds: a connection is given up when one to two times as long no byte has come or gone."""
DOWNLOAD_SILENCE_S = 600.0
"""The same of a download, which may have to be packed before its first byte comes."""
CONNECT_TIMEOUT_S = 10.0
PING_S = 15.0
"""Seconds between pings over a tunnel's link."""
LARGE_BYTES = 1 << 18
OK = 200


class UnreachableError(Exception):
    """A message that the node may not have got, or an answer that was lost."""


class Message(NamedTuple):
    """What is sent."""

    method: str
    path: str
    body: bytes | None = None
    media_type: str = JSON


class NodeAnswer(NamedTuple):
    """What came back."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}

    @property
    def json(self) -> Any:
        """None where it is none."""
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return None

    @property
    def error_kind(self) -> str | None:
        body = self.json if self.status != OK else None
        error = body.get("error") if isinstance(body, dict) else None
        return error.get("kind") if isinstance(error, dict) else None

    def content(self, where: str) -> bytes:
        """Its body; raises the error that it tells of."""
        if self.status == OK:
            return self.body
        shown = self.json if self.json is not None else f"{self.status} {self.body[:200]!r}"
        raise error_from_wire(shown, where)


class NodeHttp:
    """Made in a running event loop."""

    def __init__(self, url: str, token: str | None, ca_file: Path | None = None) -> None:
        """`token`: None: see `paddock.http.access.token_for`. `ca_file`: who vouches for a node; None: the system's."""
        self.url = url.rstrip("/")
        self._headers = bearer(token_for(self.url, token))
        # Neither has a limit: a renewal that waited behind a thousand commands would cost all of them their sandboxes.
        self._pool = ConnectionPool(
            self.url,
            self._headers,
            connect_timeout_s=CONNECT_TIMEOUT_S,
            silence_timeout_s=SILENCE_TIMEOUT_S,
            ca_file=ca_file,
        )
        self._session = make_session(max_connections=0, ca_file=ca_file)

    async def send(self, message: Message, headers: Mapping[str, str], *, timeout_s: float | None = None) -> NodeAnswer:
        """Send a message once. `timeout_s`: for all of it; None: as long as bytes come."""
        if message.body is not None:
            headers = {**headers, "content-type": message.media_type}
        try:
            answer = await self._pool.send(message.method, message.path, headers, message.body, timeout_s=timeout_s)
        except OSError as error:
            raise UnreachableError(str(error) or type(error).__name__) from error
        return NodeAnswer(answer.status, answer.body)

    async def download(self, path: str, file: BinaryIO) -> NodeAnswer:
        """Write the content of an answer to a file; the answer has its headers alone, or says what went wrong."""
        try:
            url = URL(self.url + path, encoded=True)
            timeout = aiohttp.ClientTimeout(sock_connect=CONNECT_TIMEOUT_S, sock_read=DOWNLOAD_SILENCE_S)
            async with self._session.get(url, headers=self._headers, timeout=timeout) as reply:
                if reply.status != OK:
                    return NodeAnswer(reply.status, await reply.read())
                async for chunk in reply.content.iter_chunked(LARGE_BYTES):
                    await asyncio.to_thread(file.write, chunk)
                return NodeAnswer(OK, b"", dict(reply.headers))
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise UnreachableError(failure_text(error) or type(error).__name__) from error

    async def link(self, path: str, headers: Mapping[str, str]) -> aiohttp.ClientWebSocketResponse:
        """The link of a tunnel."""
        try:
            return await self._session.ws_connect(
                self.url + path, headers={**self._headers, **headers}, heartbeat=PING_S, compress=0
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise UnreachableError(failure_text(error) or type(error).__name__) from error

    async def close(self) -> None:
        self._pool.close()
        await self._session.close()
