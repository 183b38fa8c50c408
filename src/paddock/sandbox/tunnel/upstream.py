"""The upstream of a tunnel: one rollout's model, as something that answers requests.

Headers only those of `REQUEST_HEADERS` go on, in either direction: no key of the client's, no name of the host's.
Errors  whatever is raised before an answer's head is 502 inside; while its body comes, the stream is cut.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import NamedTuple

import httpx

REQUEST_HEADERS = frozenset({"accept", "content-type", "anthropic-version", "anthropic-beta", "openai-beta"})
RESPONSE_HEADERS = frozenset({"content-type", "retry-after"})
Headers = dict[str, str]


class ModelRequest(NamedTuple):
    """One call, whole."""

    method: str
    path: str
    """One of `MODEL_PATHS`."""
    headers: Headers
    body: bytes


class UpstreamAnswer(NamedTuple):
    """An answer as it comes."""

    status: int
    headers: Headers
    body: AsyncIterator[bytes]


Upstream = Callable[[ModelRequest], AbstractAsyncContextManager[UpstreamAnswer]]


class HttpUpstream:
    """A rollout's model behind a URL that ends in `/v1`."""

    def __init__(self, client: httpx.AsyncClient, base_url: str, *, api_key: str | None = None) -> None:
        self._client = client
        self._base_url = base_url.rstrip("/").removesuffix("/v1")
        self._headers = {"authorization": f"Bearer {api_key}"} if api_key else {}

    @asynccontextmanager
    async def __call__(self, request: ModelRequest) -> AsyncIterator[UpstreamAnswer]:
        async with self._client.stream(
            request.method,
            self._base_url + request.path,
            content=request.body or None,
            headers={**request.headers, "accept-encoding": "identity", **self._headers},
            timeout=None,
            follow_redirects=False,
        ) as reply:
            yield UpstreamAnswer(reply.status_code, response_headers(reply.headers), reply.aiter_raw())


def response_headers(headers: httpx.Headers) -> Headers:
    """The headers of an answer that a client inside may see."""
    return {name: value for name, value in headers.items() if name in RESPONSE_HEADERS}
