"""One vLLM server over HTTP: its requests and its answers, with their errors.

Law     a message names the server's host, never its key. Every request has a time limit.
Errors  those of `paddock.server.upstream_failures`.
"""

import asyncio
from typing import Any, NamedTuple
from urllib.parse import urlencode

import aiohttp
import httpx
import orjson

from paddock.server.dialects.failures import UnreadableError
from paddock.server.upstream_failures import host_of, status_error, upstream_errors
from paddock.types import JsonObject

PAUSE = "/pause"


class _HttpReply(NamedTuple):
    status: int
    content: bytes
    retry_after: str | None


class VllmClient:
    """A client of the vLLM at `root`, a URL without `/v1`; `key`: its API key."""

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
            answer = await self._send("GET", path, None, timeout_s)
            return None if answer.status in (404, 405, 501) else self._json(answer)

    async def post(self, path: str, body: JsonObject, timeout_s: float) -> Any:
        """The JSON that answers `body`; None where there is no such path, or it is closed."""
        with upstream_errors(self.host, timeout_s):
            answer = await self._send("POST", path, orjson.dumps(body), timeout_s)
            return None if answer.status in (403, 404, 405, 501) else self._json(answer)

    async def control(self, method: str, path: str, body: JsonObject, timeout_s: float) -> JsonObject:
        """The JSON that answers a call of vLLM's control, which may be empty. A pause takes its fields as a query."""
        target = f"{path}?{urlencode(body)}" if path == PAUSE else path
        with upstream_errors(self.host, timeout_s):
            answer = await self._send(method, target, orjson.dumps(body) if body and path != PAUSE else None, timeout_s)
            json: JsonObject = self._json(answer) if answer.content or answer.status >= 300 else {}
            return json

    async def is_well(self, timeout_s: float) -> bool:
        """Whether `/health` answers 200; raises where it is not answered."""
        with upstream_errors(self.host, timeout_s):
            return (await self._send("GET", "/health", None, timeout_s)).status == 200

    async def stream(self, path: str, body: bytes) -> aiohttp.ClientResponse:
        """Open a streamed answer, whose head has come and which the caller closes. Called within `upstream_errors`."""
        response = await self._request("POST", path, body)
        kind = response.headers.get("content-type", "")
        if response.status < 300 and "text/event-stream" in kind:
            return response
        async with response:
            answer = await _whole(response)
        if answer.status >= 300:
            raise self._status_error(answer)
        raise UnreadableError(f"a stream was asked for, `{kind}` came")

    async def whole(self, path: str, body: bytes) -> Any:
        """The JSON of an answer that is not streamed. Called within `upstream_errors`."""
        async with await self._request("POST", path, body) as response:
            return self._json(await _whole(response))

    async def _send(self, method: str, path: str, content: bytes | None, timeout_s: float) -> _HttpReply:
        async with asyncio.timeout(timeout_s), await self._request(method, path, content) as response:
            return await _whole(response)

    async def _request(self, method: str, path: str, content: bytes | None) -> aiohttp.ClientResponse:
        return await self._session.request(
            method, self._root + path, data=content, headers=self._headers, allow_redirects=False
        )

    def _json(self, answer: _HttpReply) -> Any:
        if answer.status >= 300:
            raise self._status_error(answer)
        try:
            return orjson.loads(answer.content)
        except orjson.JSONDecodeError as error:
            raise UnreadableError(f"no JSON: {error}") from error

    def _status_error(self, answer: _HttpReply) -> Exception:
        return status_error(self.host, answer.status, answer.content, answer.retry_after)


async def _whole(response: aiohttp.ClientResponse) -> _HttpReply:
    return _HttpReply(response.status, await response.read(), response.headers.get("retry-after"))
