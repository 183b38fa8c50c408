"""Exchanges with endpoints of models, and how long to wait before one is tried again.

Law     one wall clock around a whole exchange, first byte to last; cancelling it closes its connection.
Waits   double with each failure and are spread at random over their upper half; one that the endpoint asks for is kept
        to, both at most `longest_s`.
Errors  those of `paddock.server.upstream_failures`, inside `upstream_errors`.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import NamedTuple

import aiohttp
import httpx
import orjson
from yarl import URL

from paddock.errors import PaddockError
from paddock.http.access import read_token, token_file
from paddock.http.client import API_KEY
from paddock.http.transport import make_session
from paddock.server.upstream_failures import UpstreamError, host_of, not_found, status_error


class WholeAnswer(NamedTuple):
    """A whole answer as it came."""

    content: bytes
    headers: Mapping[str, str]


class EndpointUrl:
    """The URL of an endpoint and what each request needs of it, made once: that costs as much as a small request."""

    def __init__(self, url: str) -> None:
        self.parsed = httpx.URL(url)
        self.host = host_of(self.parsed)
        self.target = URL(str(self.parsed), encoded=True)
        self.token_file = token_file(str(self.parsed))


class EndpointSession:
    """Connections to endpoints, `max_connections` at once, in the event loop of the first request."""

    def __init__(self, max_connections: int) -> None:
        self._max_connections = max_connections
        self._session: aiohttp.ClientSession | None = None

    async def post(self, url: EndpointUrl, body: bytes, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        """An answer whose head has come, and which the caller closes; an error's is raised."""
        if self._session is None:
            self._session = make_session(max_connections=self._max_connections, decompress=True)
        response = await self._session.post(
            url.target, data=body, headers=headers_to(url, headers), allow_redirects=False
        )
        if response.status >= 300:
            async with response:
                raise _error_of(response, url, await response.read(), body)
        return response

    async def post_whole(
        self, url: EndpointUrl, body: bytes, headers: Mapping[str, str], limit_s: float
    ) -> WholeAnswer:
        async with asyncio.timeout(limit_s), await self.post(url, body, headers) as response:
            return WholeAnswer(await response.read(), response.headers)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


def headers_to(url: EndpointUrl, headers: Mapping[str, str]) -> Mapping[str, str]:
    """`headers`, and the token where the endpoint is a server of ours on loopback: beside the endpoint's key, for what
    was left there may be an earlier server's."""
    token = None if url.token_file is None else read_token(url.token_file)
    return headers if token is None else {API_KEY: token, **headers}


def _error_of(response: aiohttp.ClientResponse, url: EndpointUrl, content: bytes, request_body: bytes) -> PaddockError:
    if response.status == 404:
        return not_found(url.parsed, orjson.loads(request_body).get("model"), content)
    return status_error(url.host, response.status, content, response.headers.get("retry-after"))


def json_headers(key: str | None, more: Mapping[str, str]) -> dict[str, str]:
    """Headers of each request; `key` goes over an authorization in `more`."""
    authorization = {"authorization": f"Bearer {key}"} if key else {}
    return {"content-type": "application/json", **more, **authorization}


def retry_wait_s(failure: UpstreamError, failed: int, *, first_s: float, longest_s: float) -> float:
    """Seconds to wait before the next attempt; `failed`: how many attempts have failed, from 1."""
    wait_s = min(longest_s, first_s * 2.0 ** min(failed - 1, 60))
    return max(wait_s * random.uniform(0.5, 1.0), min(failure.retry_after_s, longest_s))
