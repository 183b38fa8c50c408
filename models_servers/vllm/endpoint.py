"""One vLLM server over HTTP: its requests and its answers, with their errors.

Law     a message names the server's host, never its key. Every request has a time limit.
Errors  those of `paddock.server.upstream_failures`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any

import httpx
import orjson

from paddock.server.dialects.failures import UnreadableError
from paddock.server.upstream_failures import attributed, host_of, status_error
from paddock.types import JsonObject

Watched = Callable[[asyncio.Timeout], AbstractContextManager[None]]
"""Ends the wait that the clock bounds when the server is known to be dead."""


class Endpoint:
    """The server at `root`, a URL without `/v1`."""

    def __init__(self, client: httpx.AsyncClient, root: str, key: str | None) -> None:
        self.root = httpx.URL(root)
        self.host = host_of(self.root)
        self._client = client
        self._urls: dict[str, httpx.URL] = {}
        self._headers = {"content-type": "application/json"}
        if key:
            self._headers["authorization"] = f"Bearer {key}"

    async def get(self, path: str, timeout_s: float) -> Any:
        """The JSON at `path`; None where there is no such path."""
        response = await self._send("GET", path, b"", timeout_s)
        if response.status_code in (404, 405, 501):
            return None
        return self._json(response, timeout_s)

    async def post(self, path: str, body: JsonObject, timeout_s: float) -> Any:
        """The JSON that answers `body`; None where there is no such path, or it is closed."""
        response = await self._send("POST", path, orjson.dumps(body), timeout_s)
        if response.status_code in (403, 404, 405, 501):
            return None
        return self._json(response, timeout_s)

    async def is_well(self, timeout_s: float) -> bool:
        """Whether `/health` says so; raises where it is not answered."""
        response = await self._send("GET", "/health", b"", timeout_s)
        return response.status_code == 200

    @asynccontextmanager
    async def streaming(
        self, path: str, body: bytes, due: float, limit_s: float, watched: Watched
    ) -> AsyncIterator[httpx.Response]:
        """An answer whose head has come and is a stream. `due`: the loop's time after which it is not waited for."""
        clock = asyncio.timeout_at(due)
        request = self._client.build_request("POST", self._url(path), content=body, headers=self._headers)
        with attributed(self.host, limit_s), watched(clock):
            async with clock:
                response = await self._client.send(request, stream=True)
        try:
            with attributed(self.host, limit_s):
                if response.status_code >= 300:
                    async with asyncio.timeout_at(due):
                        await response.aread()
                    raise self._refused(response)
                if "text/event-stream" not in response.headers.get("content-type", ""):
                    raise UnreadableError(f"a stream was asked for, `{response.headers.get('content-type')}` came")
            yield response
        finally:
            await response.aclose()

    async def _send(self, method: str, path: str, content: bytes, timeout_s: float) -> httpx.Response:
        with attributed(self.host, timeout_s):
            async with asyncio.timeout(timeout_s):
                return await self._client.request(method, self._url(path), content=content, headers=self._headers)

    def _json(self, response: httpx.Response, timeout_s: float) -> Any:
        if response.status_code >= 300:
            raise self._refused(response)
        with attributed(self.host, timeout_s):
            try:
                return orjson.loads(response.content)
            except orjson.JSONDecodeError as error:
                raise UnreadableError(f"no JSON: {error}") from error

    def _refused(self, response: httpx.Response) -> Exception:
        return status_error(self.host, response.status_code, response.content, response.headers.get("retry-after"))

    def _url(self, path: str) -> httpx.URL:
        url = self._urls.get(path)
        if url is None:
            url = self._urls[path] = self.root.copy_with(path=self.root.path.rstrip("/") + path)
        return url
