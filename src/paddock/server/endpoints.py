"""Calls of one route over HTTP: a body and headers in, one reply out.

Bodies  parsed and written by orjson, once.
Errors  those of the handler by their owner's status (`dialects.error_reply`); what is no error of ours is a bug; a body
        that is no JSON object is 400.
Ends    a long route's handler is cancelled when its caller has gone or its deadline has passed, a stream when its
        reader has gone.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from paddock.errors import BugError, CancelledError, PaddockError, RequestError
from paddock.http import Call, EventStream, Route
from paddock.server.base import Handler
from paddock.server.dialects import error_reply
from paddock.types import JsonObject

JSON = "application/json"


class EventResponse(Response):
    """A stream of server-sent events. `caller`: the client that waits for it, if that is known."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes], caller: "_Caller | None" = None) -> None:
        super().__init__()
        self._events = events
        self._caller = caller

    def init_headers(self, headers: Mapping[str, str] | None = None) -> None:
        super().init_headers(headers)
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = self._caller or _Caller(receive)
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for chunk in self._events:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        except asyncio.CancelledError:
            if not caller.has_cancelled():
                raise
        finally:
            caller.forget()
            if isinstance(self._events, AsyncGenerator):
                await self._events.aclose()


class RouteEndpoint:
    """One route of a server."""

    def __init__(self, route: Route[Any, Any], handler: Handler, *, long: bool) -> None:
        self._route = route
        self._long = long
        self._handler = handler
        self._has_body = route.method in ("POST", "PUT")

    async def answer(self, request: Request) -> Response:
        """The reply, an error too: nothing is raised but what cancels this."""
        route = self._route
        try:
            call = Call.from_headers(request.headers, request.path_params)
            body = route.from_wire(await _json_object(request) if self._has_body else {})
            work = self._handler(body, call)
            caller = _Caller(request.receive, call.remaining_s) if self._long else None
            reply = await (work if caller is None else _unless_gone(work, caller))
            if isinstance(reply, EventStream):
                return EventResponse(reply.events, caller)
            return Response(orjson.dumps(route.reply_to_wire(body, reply)), media_type=JSON)
        except PaddockError as error:
            return refusal(route.path, error)
        except Exception as error:  # noqa: BLE001 - the last boundary: whatever is left is a bug of ours
            kind = type(error).__name__
            return refusal(route.path, BugError(f"{route.path}: {kind}: {error}", kind=kind))


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


class _Caller:
    """The client that waits for a reply. The task that made this is cancelled when the client goes or its time ends."""

    def __init__(self, receive: Receive, waits_s: float | None = None) -> None:
        task = asyncio.current_task()
        assert task is not None  # a request is served in a task
        loop = asyncio.get_running_loop()
        self._task = task
        self._ended = self._forgotten = False
        self._listening: asyncio.Task[None] | None = None
        loop.call_soon(
            self._start_listening, receive
        )  # a round later than what the task itself starts: that goes first
        self._deadline = None if waits_s is None else loop.call_later(waits_s, self._end)

    def has_cancelled(self) -> bool:
        """Whether a caught cancellation came from here: nobody else asked for it."""
        return self._ended and self._task.uncancel() == 0

    def remove_deadline(self) -> None:
        """Wait for the reply however long it takes."""
        if self._deadline is not None:
            self._deadline.cancel()

    def forget(self) -> None:
        self._forgotten = True
        self.remove_deadline()
        if self._listening is not None:
            self._listening.cancel()

    def _start_listening(self, receive: Receive) -> None:
        if not self._forgotten:
            self._listening = self._task.get_loop().create_task(self._listen(receive))

    async def _listen(self, receive: Receive) -> None:
        try:
            while (await receive())["type"] != "http.disconnect":
                pass
        finally:
            self._end()

    def _end(self) -> None:
        if not (self._ended or self._forgotten):
            self._ended = True
            self._task.cancel()


async def _unless_gone(work: Awaitable[Any], caller: _Caller) -> Any:
    """The handler's reply; cancels it when the caller disconnects or its deadline has passed. A stream goes on without
    a deadline, and its caller is still listened to."""
    reply: Any = None
    try:
        reply = await work
    except asyncio.CancelledError as error:
        if not caller.has_cancelled():
            raise
        raise _gone() from error
    finally:
        if isinstance(reply, EventStream):
            caller.remove_deadline()
        else:
            caller.forget()
    return reply


def _gone() -> CancelledError:
    return CancelledError("the caller has gone, or its deadline has passed", kind="caller_gone")
