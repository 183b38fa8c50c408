"""Handles on servers. The caller does not see whether the server lives in this process or behind HTTP.

Retry   only routes marked replayable are sent again, on connection failures and 5xx/429 that are marked retryable, at
        most `attempts` times, with the same request id and exponential waits within the call's deadline.
Errors  what the server raised, by owner (`paddock.errors.from_wire`); InfraError for connection trouble (kinds
        `connection`, `timeout`, `reply_unreadable`).
Source  httpx for HTTP and, through `httpx.ASGITransport`, for ASGI.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Protocol, TypeVar

import httpx
import orjson

from paddock.errors import InfraError, PaddockError, from_wire
from paddock.http.access import bearer
from paddock.http.context import Call
from paddock.http.routes import Route

Request = TypeVar("Request")
Reply = TypeVar("Reply")
Handler = Callable[[Any, Call], Awaitable[Any]]


class RetryPolicy(NamedTuple):
    """How often a replayable call is tried, and the seconds between: `first_wait_s`, then twice as long each time."""

    attempts: int = 3
    first_wait_s: float = 0.2
    max_wait_s: float = 5.0

    def wait_s(self, failed: int) -> float:
        return min(self.max_wait_s, self.first_wait_s * 2.0 ** (failed - 1))


DEFAULT_RETRY = RetryPolicy()


class Peer(Protocol):
    """One server as its callers see it."""

    name: str

    async def call(self, route: Route[Request, Reply], request: Request, call: Call, **path: str) -> Reply: ...


class DirectPeer:
    """A server in this process: records are passed to its handler, and back, without encoding."""

    def __init__(self, name: str, handlers: Callable[[], Mapping[Any, Handler]]) -> None:
        """`handlers`: called once, at the first call."""
        self.name = name
        self._make_handlers = handlers
        self._handlers: Mapping[Any, Handler] | None = None

    async def call(self, route: Route[Request, Reply], request: Request, call: Call, **path: str) -> Reply:
        if self._handlers is None:
            self._handlers = self._make_handlers()
        handler = self._handlers.get(route)
        if handler is None:
            raise InfraError(f"{self.name} has no route {route.method} {route.path}", kind="no_route", retryable=False)
        context = call.at(path) if path else call
        if context.deadline is None:
            return await handler(request, context)  # type: ignore[no-any-return]
        try:
            async with asyncio.timeout(context.remaining_s):
                return await handler(request, context)  # type: ignore[no-any-return]
        except TimeoutError as error:
            raise InfraError(f"{self.name}{route.path}: no answer in time", kind="timeout") from error


class HttpPeer:
    """A server behind a URL."""

    def __init__(
        self,
        name: str,
        client: httpx.AsyncClient,
        base_url: str,
        *,
        retry: RetryPolicy = DEFAULT_RETRY,
        token: str | None = None,
    ) -> None:
        self.name = name
        self.base_url = base_url.rstrip("/")
        self._client = client
        self._retry = retry
        self._headers = {"content-type": "application/json", **bearer(token)}

    async def call(self, route: Route[Request, Reply], request: Request, call: Call, **path: str) -> Reply:
        wire = route.to_wire(request) if route.to_wire else request
        body = None if route.method in ("GET", "DELETE") else orjson.dumps(wire)
        url = self.base_url + route.path.format(**path)
        failed = 0
        while True:
            try:
                reply = await self._send(route, url, body, call)
                return route.reply_from_wire(request, reply) if route.reply_from_wire else reply
            except PaddockError as error:
                failed += 1
                if not (route.replayable and error.retryable and failed < self._retry.attempts):
                    raise
                wait_s = self._retry.wait_s(failed)
                if call.remaining_s is not None and call.remaining_s <= wait_s:
                    raise
                await asyncio.sleep(wait_s)

    @asynccontextmanager
    async def relay(
        self, path: str, body: bytes, headers: Mapping[str, str], call: Call
    ) -> AsyncIterator[httpx.Response]:
        """Send a request and stream the response, whatever its status, for a proxy: nothing is decoded or retried."""
        own = {**headers, **self._headers, **call.to_headers()}
        request = self._client.build_request("POST", self.base_url + path, content=body, headers=own, timeout=None)
        reply = await self._client.send(request, stream=True)
        try:
            yield reply
        finally:
            await reply.aclose()

    async def _send(self, route: Route[Any, Any], url: str, body: bytes | None, call: Call) -> Any:
        where = f"{self.name}{route.path}"
        headers = {**self._headers, **call.to_headers()}
        try:
            # One clock for the whole exchange: httpx's own limits are per read, and would never end a dripping body.
            async with asyncio.timeout(call.remaining_s):
                reply = await self._client.request(route.method, url, content=body, headers=headers, timeout=None)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise InfraError(f"{where}: no answer in time", kind="timeout") from error
        except httpx.HTTPError as error:
            raise InfraError(f"{where}: {type(error).__name__}: {error}", kind="connection") from error
        try:
            wire = orjson.loads(reply.content) if reply.content else {}
        except orjson.JSONDecodeError as error:
            if reply.status_code >= 400:
                raise from_wire(reply.status_code, reply.text) from error
            raise InfraError(f"{where}: answer is no JSON: {error}", kind="reply_unreadable") from error
        if reply.status_code >= 400:
            raise from_wire(reply.status_code, wire)
        if not isinstance(wire, dict):
            raise InfraError(f"{where}: answer is no JSON object", kind="reply_unreadable")
        return wire
