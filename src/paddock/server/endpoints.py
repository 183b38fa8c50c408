"""Calls of one route over HTTP: a body and headers in, one reply out.

Bodies  parsed and written by orjson, once.
Errors  those of the handler by their owner's status (`dialects.error_reply`); what is no error of ours is a bug; a body
        that is no JSON object is 400.
Ends    a long route's handler is cancelled when its caller has gone or its deadline has passed, a stream when its
        reader has gone.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import nullcontext, suppress
from typing import Any, cast

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from paddock.errors import BugError, CancelledError, PaddockError, RequestError
from paddock.http import Call, EventStream, Route
from paddock.server.base import Handler
from paddock.server.dialects import error_reply
from paddock.tracing import is_on, request_span
from paddock.types import JsonObject

JSON = "application/json"


class EventResponse(Response):
    """A stream of server-sent events, which ends when its client has gone, without a deadline."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes]) -> None:
        super().__init__()
        self._events = events

    def init_headers(self, headers: Mapping[str, str] | None = None) -> None:
        super().init_headers(headers)
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        task = cast("asyncio.Task[Any]", asyncio.current_task())  # a request is served in one
        watch = asyncio.create_task(_cancel_when_gone(task, receive))
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for chunk in self._events:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        except asyncio.CancelledError:
            if not _has_cancelled(watch, task):
                raise
        finally:
            watch.cancel()
            if isinstance(self._events, AsyncGenerator):
                await self._events.aclose()


class RouteEndpoint:
    """One route of a server."""

    def __init__(self, route: Route[Any, Any], handler: Handler, *, long: bool) -> None:
        self._route = route
        self._long = long
        self._handler = handler
        self._has_body = route.method in ("POST", "PUT")
        self._name = f"{route.method} {route.path}"

    async def answer(self, request: Request) -> Response:
        """The reply, an error too: nothing is raised but what cancels this."""
        route = self._route
        try:
            call = Call.from_headers(request.headers, request.path_params)
            wire = await _json_object(request) if self._has_body else {}
            body = route.from_wire(wire) if route.from_wire else wire
            with request_span(self._name, request.headers) if is_on() else nullcontext():
                reply = await self._reply(body, call, request.receive)
            if isinstance(reply, EventStream):
                return EventResponse(reply.events)
            return Response(
                orjson.dumps(route.reply_to_wire(body, reply) if route.reply_to_wire else reply), media_type=JSON
            )
        except PaddockError as error:
            return refusal(route.path, error)
        except Exception as error:  # noqa: BLE001 - the last boundary: whatever is left is a bug of ours
            kind = type(error).__name__
            return refusal(route.path, BugError(f"{route.path}: {kind}: {error}", kind=kind))

    async def _reply(self, body: Any, call: Call, receive: Receive) -> Any:
        """The handler's reply; that of a long route is cancelled when nobody waits for it any more."""
        if not self._long:
            return await self._handler(body, call)
        task = cast("asyncio.Task[Any]", asyncio.current_task())  # a request is served in one
        watch = asyncio.create_task(_cancel_when_gone(task, receive, call.remaining_s))
        try:
            return await self._handler(body, call)
        except asyncio.CancelledError as error:
            if not _has_cancelled(watch, task):
                raise
            raise _gone() from error
        finally:
            watch.cancel()


async def _json_object(request: Request) -> JsonObject:
    try:
        wire = orjson.loads(await request.body())
    except ClientDisconnect as error:
        raise _gone() from error
    except orjson.JSONDecodeError as error:
        raise RequestError(f"body is no JSON: {error}", kind="body_invalid") from error
    if not isinstance(wire, dict):
        raise RequestError(f"body: needs a JSON object, got {type(wire).__name__}", kind="body_invalid")
    return wire


def refusal(
    path: str, error: PaddockError, status: int | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """An error as the clients of a path understand it."""
    reply = error_reply(path, error, status)
    return Response(orjson.dumps(reply.body), reply.status, {**(headers or {}), **reply.headers}, media_type=JSON)


def _gone() -> CancelledError:
    return CancelledError("the caller has gone, or its deadline has passed", kind="caller_gone")


async def _cancel_when_gone(task: "asyncio.Task[Any]", receive: Receive, timeout_s: float | None = None) -> None:
    """Cancel the task when the client that waits for it has gone, or after `timeout_s` seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            while (await receive())["type"] != "http.disconnect":
                pass
    task.cancel()


def _has_cancelled(watch: "asyncio.Task[None]", task: "asyncio.Task[Any]") -> bool:
    """Whether a cancellation that the task caught came from its watch: nobody else asked for it."""
    return watch.done() and not watch.cancelled() and task.uncancel() == 0
