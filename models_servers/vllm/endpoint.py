"""One vLLM server over HTTP: its requests and its answers, with their errors.

Law     a message names the server's host, never its key. Every request has a time limit.
Errors  those of `paddock.server.upstream_failures`.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import aiohttp
import httpx
import orjson

from paddock.http.lean import LeanClient, Received, Target
from paddock.server.dialects.failures import UnreadableError
from paddock.server.upstream_failures import attributed, host_of, status_error
from paddock.types import JsonObject

END_WAIT_S = 1.0
"""How long a whole answer's connection is waited for, so that it can be used again."""
Watched = Callable[[asyncio.Timeout], AbstractContextManager[None]]
"""Ends the wait that the clock bounds when the server is known to be dead."""


class _Answer(NamedTuple):
    status: int
    content: bytes
    retry_after: str | None


class Post(NamedTuple):
    """What is asked."""

    path: str
    body: bytes
    sent: Callable[[], object]
    """Called when it is on its way."""


class Stream:
    """An answer whose head has come. To be closed."""

    def __init__(self, host: str, received: Received, due: float, limit_s: float) -> None:
        """`due`: the loop's time after which nothing is waited for, `limit_s` seconds since the request."""
        self.host = host
        self.limit_s = limit_s
        self._received = received
        self._due = due

    async def read(self, due: float, watched: Watched) -> bytes | None:
        """All that has come since, at least something; None at the end. `due`: to be earlier than the stream's."""
        received = self._received
        data = received.read_nowait()
        if not data and not received.at_end:
            clock = asyncio.timeout_at(min(due, self._due))
            with attributed(self.host, self.limit_s), watched(clock):
                async with clock:
                    data = await received.read_some()
        return data or None

    def close(self, *, whole: bool) -> None:
        """`whole`: nothing more is expected but the end, after which the connection can be used again."""
        received = self._received
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
        answer = await self._send("GET", path, None, timeout_s)
        if answer.status in (404, 405, 501):
            return None
        return self._json(answer, timeout_s)

    async def post(self, path: str, body: JsonObject, timeout_s: float) -> Any:
        """The JSON that answers `body`; None where there is no such path, or it is closed."""
        answer = await self._send("POST", path, orjson.dumps(body), timeout_s)
        if answer.status in (403, 404, 405, 501):
            return None
        return self._json(answer, timeout_s)

    async def is_well(self, timeout_s: float) -> bool:
        """Whether `/health` says so; raises where it is not answered."""
        return (await self._send("GET", "/health", None, timeout_s)).status == 200

    async def stream(self, client: LeanClient, post: Post, due: float, limit_s: float, watched: Watched) -> Stream:
        """An answer that is a stream. `due`, `limit_s`: see `Stream`."""
        clock = asyncio.timeout_at(due)
        with attributed(self.host, limit_s), watched(clock):
            async with clock:
                received = await client.post(self._target, *post)
        kind = received.headers.get("content-type", "")
        if received.status < 300 and "text/event-stream" in kind:
            return Stream(self.host, received, due, limit_s)
        try:
            with attributed(self.host, limit_s):
                async with asyncio.timeout_at(due):
                    answer = await _received(received)
                if answer.status >= 300:
                    raise self._refused(answer)
                raise UnreadableError(f"a stream was asked for, `{kind}` came")
        finally:
            received.close()

    async def whole(self, client: LeanClient, post: Post, due: float, limit_s: float, watched: Watched) -> Any:
        """The JSON of an answer that is no stream. `due`, `limit_s`: see `Stream`."""
        clock = asyncio.timeout_at(due)
        with attributed(self.host, limit_s), watched(clock):
            async with clock:
                received = await client.post(self._target, *post)
                try:
                    answer = await _received(received)
                finally:
                    received.close()
        return self._json(answer, limit_s)

    async def _send(self, method: str, path: str, content: bytes | None, timeout_s: float) -> _Answer:
        with attributed(self.host, timeout_s):
            async with asyncio.timeout(timeout_s), await self._request(method, path, content) as response:
                return await _whole(response)

    async def _request(self, method: str, path: str, content: bytes | None) -> aiohttp.ClientResponse:
        return await self._session.request(
            method, self._root + path, data=content, headers=self._headers, allow_redirects=False
        )

    def _json(self, answer: _Answer, timeout_s: float) -> Any:
        if answer.status >= 300:
            raise self._refused(answer)
        with attributed(self.host, timeout_s):
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
