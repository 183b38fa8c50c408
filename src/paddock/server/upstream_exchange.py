"""One whole exchange with an endpoint, and how long to wait before it is tried again.

Law     one wall clock around the exchange, first byte to last; cancelling it closes its connection.
Waits   double with each failure and are spread at random over their upper half; one that the endpoint asks for is kept
        to, both at most `longest_s`.
Errors  those of `paddock.server.upstream_failures`, inside its `attributed`.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import NamedTuple

import httpx
import orjson

from paddock.http.access import stored_token
from paddock.http.context import API_KEY
from paddock.server.upstream_failures import UpstreamError, host_of, not_found, status_error


class WholeAnswer(NamedTuple):
    """A whole answer as it came."""

    content: bytes
    headers: Mapping[str, str]


async def post_whole(
    client: httpx.AsyncClient, url: httpx.URL, body: bytes, headers: Mapping[str, str], limit_s: float
) -> WholeAnswer:
    async with asyncio.timeout(limit_s):
        response = await client.post(url, content=body, headers=headers_to(url, headers))
    require_ok(response, body)
    return WholeAnswer(response.content, response.headers)


def headers_to(url: httpx.URL, headers: Mapping[str, str]) -> Mapping[str, str]:
    """`headers`, and the token where the endpoint is a server of ours on loopback: beside the endpoint's key, for what
    was left there may be an earlier server's."""
    token = stored_token(str(url))
    return headers if token is None else {API_KEY: token, **headers}


def require_ok(response: httpx.Response, request_body: bytes) -> None:
    """`response`: with its content, where it is an error's. `request_body`: the body that it answers."""
    if response.status_code == 404:
        raise not_found(response.url, orjson.loads(request_body).get("model"), response.content)
    if response.status_code >= 300:
        host = host_of(response.url)
        raise status_error(host, response.status_code, response.content, response.headers.get("retry-after"))


def json_headers(key: str | None, more: Mapping[str, str]) -> dict[str, str]:
    """Headers of each request; `key` goes over an authorization in `more`."""
    authorization = {"authorization": f"Bearer {key}"} if key else {}
    return {"content-type": "application/json", **more, **authorization}


def retry_wait_s(failure: UpstreamError, failed: int, *, first_s: float, longest_s: float) -> float:
    """Seconds to wait before the next attempt; `failed`: how many attempts have failed, from 1."""
    wait_s = min(longest_s, first_s * 2.0 ** min(failed - 1, 60))
    return max(wait_s * random.uniform(0.5, 1.0), min(failure.retry_after_s, longest_s))
