"""Calls of servers: the context of a call, and the handles that take one, in this process or behind HTTP alike.

Context request id, deadline and the rollout's secret, never part of a record. Over HTTP they are headers
        (`X-Request-Id`, `X-Paddock-Timeout-S`, `X-Paddock-Rollout`), directly a `Call`. The deadline is kept on the
        monotonic clock and sent as the seconds that remain.
Retry   only routes marked replayable are sent again, on connection failures and 5xx/429 that are marked retryable, at
        most `attempts` times, with the same request id and exponential waits within the call's deadline.
Errors  what the server raised, by owner (`paddock.errors.from_wire`); InfraError for connection trouble (kinds
        `connection`, `timeout`, `reply_unreadable`, `reply_too_large`).
Source  httpx for HTTP and, through `httpx.ASGITransport`, for ASGI.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any, NamedTuple, Protocol, TypeVar

import httpx
import orjson

from paddock.errors import InfraError, PaddockError, from_wire
from paddock.http.access import bearer
from paddock.http.routes import Route
from paddock.tracing import inject
from paddock.types.responses import new_id

REQUEST_ID = "x-request-id"
TIMEOUT = "x-paddock-timeout-s"
ROLLOUT = "x-paddock-rollout"
API_KEY = "x-api-key"
SECRET_PREFIX = "ro_"
"""How a rollout's secret begins."""
Request = TypeVar("Request")
Reply = TypeVar("Reply")


@dataclass(frozen=True, slots=True)
class Call:
    """One call's context."""

    request_id: str = field(default_factory=lambda: new_id("req"))
    """The same for every replay of one call."""
    deadline: float | None = None
    """`time.monotonic()` second after which nobody waits for the answer; None: the callee's own limit."""
    rollout_secret: str | None = field(default=None, repr=False)
    """Names the rollout at the model server; only a collector sets it, on `/run`."""
    path: Mapping[str, str] = field(default_factory=dict)
    """Values of the route's path parameters."""
    bearer: str | None = field(default=None, repr=False)
    """The API key that the caller brought; over HTTP the bearer of `Authorization`, or `X-Api-Key`, of two the one that
    is a rollout's secret."""

    @property
    def remaining_s(self) -> float | None:
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def within(self, timeout_s: float) -> "Call":
        """This call, with a deadline at most `timeout_s` seconds from now."""
        own = time.monotonic() + timeout_s
        deadline = own if self.deadline is None else min(own, self.deadline)
        return Call(self.request_id, deadline, self.rollout_secret, self.path, self.bearer)

    def at(self, path: Mapping[str, str]) -> "Call":
        """This call, with values of path parameters."""
        return Call(self.request_id, self.deadline, self.rollout_secret, path, self.bearer)

    def to_headers(self) -> dict[str, str]:
        headers = {REQUEST_ID: self.request_id}
        remaining = self.remaining_s
        if remaining is not None:
            headers[TIMEOUT] = f"{remaining:.3f}"
        if self.rollout_secret is not None:
            headers[ROLLOUT] = self.rollout_secret
        return inject(headers)

    @classmethod
    def from_headers(cls, headers: Mapping[str, Any], path: Mapping[str, str]) -> "Call":
        """An unreadable timeout counts as none; a missing request id is made."""
        deadline: float | None = None
        if TIMEOUT in headers:
            with suppress(ValueError):
                deadline = time.monotonic() + float(headers[TIMEOUT])
        scheme, _, bearer = str(headers.get("authorization") or "").partition(" ")
        authorized = bearer if scheme.lower() == "bearer" else ""
        key = str(headers.get(API_KEY) or "")
        if key.startswith(SECRET_PREFIX) and not authorized.startswith(SECRET_PREFIX):
            authorized = key
        return cls(
            headers.get(REQUEST_ID) or new_id("req"), deadline, headers.get(ROLLOUT), path, authorized or key or None
        )


def rollout_of(call: Call) -> str | None:
    """The secret of the rollout that a call of a model belongs to: the one in its base URL (`/r/<secret>/v1/...`), else
    an API key that has a secret's form. None: it belongs to none, and is not recorded."""
    named = call.path.get("secret")
    if named:
        return named
    return call.bearer if call.bearer and call.bearer.startswith(SECRET_PREFIX) else None


def new_secret() -> str:
    """A fresh rollout secret: 128 random bits, safe in a URL path."""
    return f"{SECRET_PREFIX}{secrets.token_hex(16)}"


class RetryPolicy(NamedTuple):
    """How often a replayable call is tried, and the seconds between: `first_wait_s`, then twice as long each time."""

    attempts: int = 3
    first_wait_s: float = 0.2
    max_wait_s: float = 5.0

    def wait_s(self, failed: int) -> float:
        return min(self.max_wait_s, self.first_wait_s * 2.0 ** (failed - 1))


DEFAULT_RETRY = RetryPolicy()
Handler = Callable[[Any, Call], Awaitable[Any]]
"""What answers the calls of one route."""


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
        cookies: dict[str, str] | None = None,
        max_reply_bytes: int | None = None,
    ) -> None:
        """`cookies`: of a session; they go with each call, and are those of the last answer that set them. None: none
        are kept. `max_reply_bytes`: of one answer; None: any number, for a server of ours."""
        self.name = name
        self.base_url = base_url.rstrip("/")
        self.token = token
        """What the server asks its callers for; None: nothing is known."""
        self.max_reply_bytes = max_reply_bytes
        self._cookies = cookies
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
        headers = {**self._headers, **call.to_headers(), **cookie_header(self._cookies)}
        try:
            # One clock for the whole exchange: httpx's own limits are per read, and would never end a dripping body.
            async with asyncio.timeout(call.remaining_s):
                async with self._client.stream(route.method, url, content=body, headers=headers, timeout=None) as reply:
                    content = await read_reply(reply, self.max_reply_bytes, where)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise InfraError(f"{where}: no answer in time", kind="timeout") from error
        except httpx.HTTPError as error:
            raise InfraError(f"{where}: {type(error).__name__}: {error}", kind="connection") from error
        if self._cookies is not None:
            self._cookies |= set_cookies(reply.headers)
        try:
            wire = orjson.loads(content) if content else {}
        except orjson.JSONDecodeError as error:
            if reply.status_code >= 400:
                raise from_wire(reply.status_code, text_of(reply, content)) from error
            raise InfraError(f"{where}: answer is no JSON: {error}", kind="reply_unreadable") from error
        if reply.status_code >= 400:
            raise from_wire(reply.status_code, wire)
        if not isinstance(wire, dict):
            raise InfraError(f"{where}: answer is no JSON object", kind="reply_unreadable")
        return wire


async def read_reply(reply: httpx.Response, max_bytes: int | None, where: str) -> bytes:
    """The body of an answer that streams. InfraError `reply_too_large` where it has more than `max_bytes`, of which no
    more are read; None: any number may be."""
    if max_bytes is None:
        return await reply.aread()
    parts, size = list[bytes](), 0
    async for part in reply.aiter_bytes():
        size += len(part)
        if size > max_bytes:
            raise InfraError(f"{where}: an answer of more than {max_bytes} bytes", kind="reply_too_large")
        parts.append(part)
    return b"".join(parts)


def text_of(reply: httpx.Response, content: bytes) -> str:
    """The text of an answer's body, in the encoding that the answer names."""
    return content.decode(reply.encoding or "utf-8", errors="replace")


def cookie_header(cookies: Mapping[str, str] | None) -> dict[str, str]:
    """The header with these cookies; of none, there is none."""
    return {"cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())} if cookies else {}


def set_cookies(headers: httpx.Headers) -> dict[str, str]:
    """The cookies that an answer sets, by name."""
    found: SimpleCookie = SimpleCookie()
    for text in headers.get_list("set-cookie"):
        with suppress(CookieError):  # no cookie's name: what the endpoint meant is lost with it
            found.load(text)
    return {name: morsel.coded_value for name, morsel in found.items()}
