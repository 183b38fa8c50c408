"""One vLLM server over HTTP: its requests and its answers, with their errors.

Law     a message names the server's host, never its key. Every request has a time limit.
Errors  those of `paddock.server.upstream_failures`.
"""

import asyncio
from typing import Any, NamedTuple

import aiohttp
import httpx
import orjson

from paddock.http.lean import Bound, LeanClient, Received, Target
from paddock.server.dialects.failures import UnreadableError
from paddock.server.upstream_failures import attributed, host_of, status_error
from paddock.types import JsonObject

END_WAIT_S = 1.0
"""How long a whole answer's connection is waited for, so that it can be used again."""


class _Answer(NamedTuple):
    status: int
    content: bytes
    retry_after: str | None


class Post(NamedTuple):
    """What is asked."""

    path: str
    body: bytes
    bound: Bound
    """Of it and its answer."""


def close_stream(received: Received, *, whole: bool) -> None:
    """`whole`: nothing more is expected but the end, after which the connection can be used again."""
    if whole and not received.complete:
        received.on_end(asyncio.get_running_loop().call_later(END_WAIT_S, received.close).cancel)
    else:
        received.close()


class Endpoint:
    """The server at `root`, a URL without `/v1`."""

    def __init__(self, session: aiohttp.ClientSession, root: str, key: str | None) -> None:
        url = httpx.URL(root)
        self.host = host_of(url)
        self._root = root.rstrip("/")
        self._session = session
        self._headers = {"content-type": "application/json", "accept-encoding": "identity"}
        if key:
            self._headers["authorization"] = f"Bearer {key}"
        self._target = Target.of(url, self._headers)

    async def get(self, path: str, timeout_s: float) -> Any:
        """The JSON at `path`; None where there is no such path."""
        with attributed(self.host, timeout_s):
            answer = await self._send("GET", path, None, timeout_s)
            return None if answer.status in (404, 405, 501) else self._json(answer)

    async def post(self, path: str, body: JsonObject, timeout_s: float) -> Any:
        """The JSON that answers `body`; None where there is no such path, or it is closed."""
        with attributed(self.host, timeout_s):
            answer = await self._send("POST", path, orjson.dumps(body), timeout_s)
            return None if answer.status in (403, 404, 405, 501) else self._json(answer)

    async def is_well(self, timeout_s: float) -> bool:
        """Whether `/health` says so; raises where it is not answered."""
        with attributed(self.host, timeout_s):
            return (await self._send("GET", "/health", None, timeout_s)).status == 200

    async def stream(self, client: LeanClient, post: Post) -> Received:
        """An answer that is a stream; its head has come. Within `attributed`."""
        received = await client.post(self._target, *post)
        kind = received.headers.get("content-type", "")
        if received.status < 300 and "text/event-stream" in kind:
            return received
        try:
            answer = await _received(received)
            if answer.status >= 300:
                raise self._refused(answer)
            raise UnreadableError(f"a stream was asked for, `{kind}` came")
        finally:
            received.close()

    async def whole(self, client: LeanClient, post: Post) -> Any:
        """The JSON of an answer that is no stream. Within `attributed`."""
        received = await client.post(self._target, *post)
        try:
            answer = await _received(received)
        finally:
            received.close()
        return self._json(answer)

    async def _send(self, method: str, path: str, content: bytes | None, timeout_s: float) -> _Answer:
        async with asyncio.timeout(timeout_s), await self._request(method, path, content) as response:
            return await _whole(response)

    async def _request(self, method: str, path: str, content: bytes | None) -> aiohttp.ClientResponse:
        return await self._session.request(
            method, self._root + path, data=content, headers=self._headers, allow_redirects=False
        )

    def _json(self, answer: _Answer) -> Any:
        if answer.status >= 300:
            raise self._refused(answer)
        try:
            return orjson.loads(answer.content)
        except orjson.JSONDecodeError as error:
            raise UnreadableError(f"no JSON: {error}") from error

    def _refused(self, answer: _Answer) -> Exception:
        return status_error(self.host, answer.status, answer.content, answer.retry_after)


async def _whole(response: aiohttp.ClientResponse) -> _Answer:
    return _Answer(response.status, await response.read(), response.headers.get("retry-after"))


async def _received(received: Received) -> _Answer:
    return _Answer(received.status, await received.read(), received.headers.get("retry-after"))
