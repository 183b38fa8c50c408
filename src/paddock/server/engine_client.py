"""One server of an engine over HTTP: its requests and its answers, with their errors.

Law     a message names the server's host, never its key. Every request has a time limit.
Errors  those of `paddock.server.upstream_failures`.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

import aiohttp
import httpx
import orjson

from paddock.server.dialects.failures import UnreadableError
from paddock.server.upstream_failures import host_of, status_error, upstream_errors
from paddock.types import JsonObject

NO_HEADERS: Mapping[str, str] = {}


class HttpReply(NamedTuple):
    """What came, whatever its status."""

    status: int
    content: bytes
    retry_after: str | None


class EngineClient:
    """A client of the engine at `root`, a URL without `/v1`; `key`: its API key."""

    def __init__(self, session: aiohttp.ClientSession, root: str, key: str | None) -> None:
        url = httpx.URL(root)
        self.host = host_of(url)
        self._root = root.rstrip("/")
        self._session = session
        self._headers = {"content-type": "application/json", "accept-encoding": "identity"}
        if key:
            self._headers["authorization"] = f"Bearer {key}"

    async def get(self, path: str, timeout_s: float) -> Any:
        """The JSON at `path`; None where there is no such path."""
        with upstream_errors(self.host, timeout_s):
            answer = await self.send("GET", path, None, timeout_s)
            return None if answer.status in (404, 405, 501) else self.json_of(answer)

    async def post(self, path: str, body: JsonObject, timeout_s: float) -> Any:
        """The JSON that answers `body`; None where there is no such path, or it is closed."""
        with upstream_errors(self.host, timeout_s):
            answer = await self.send("POST", path, orjson.dumps(body), timeout_s)
            return None if answer.status in (403, 404, 405, 501) else self.json_of(answer)

    async def stream(self, path: str, body: bytes, headers: Mapping[str, str] = NO_HEADERS) -> aiohttp.ClientResponse:
        """Open a streamed answer, whose head has come and which the caller closes. Called within `upstream_errors`."""
        response = await self._request("POST", path, body, headers)
        kind = response.headers.get("content-type", "")
        if response.status < 300 and "text/event-stream" in kind:
            return response
        async with response:
            answer = await _whole(response)
        if answer.status >= 300:
            raise self._status_error(answer)
        raise UnreadableError(f"a stream was asked for, `{kind}` came")

    async def whole(self, path: str, body: bytes, headers: Mapping[str, str] = NO_HEADERS) -> Any:
        """The JSON of an answer that is not streamed. Called within `upstream_errors`."""
        async with await self._request("POST", path, body, headers) as response:
            return self.json_of(await _whole(response))

    async def send(self, method: str, path: str, content: bytes | None, timeout_s: float) -> HttpReply:
        """What answers a request. Called within `upstream_errors`."""
        async with asyncio.timeout(timeout_s), await self._request(method, path, content) as response:
            return await _whole(response)

    async def _request(
        self, method: str, path: str, content: bytes | None, headers: Mapping[str, str] = NO_HEADERS
    ) -> aiohttp.ClientResponse:
        return await self._session.request(
            method, self._root + path, data=content, headers={**self._headers, **headers}, allow_redirects=False
        )

    def json_of(self, answer: HttpReply) -> Any:
        """The JSON of a reply; an error's is raised. Called within `upstream_errors`."""
        if answer.status >= 300:
            raise self._status_error(answer)
        try:
            return orjson.loads(answer.content)
        except orjson.JSONDecodeError as error:
            raise UnreadableError(f"no JSON: {error}") from error

    def _status_error(self, answer: HttpReply) -> Exception:
        return status_error(self.host, answer.status, answer.content, answer.retry_after)


async def _whole(response: aiohttp.ClientResponse) -> HttpReply:
    return HttpReply(response.status, await response.read(), response.headers.get("retry-after"))
