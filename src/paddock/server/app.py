"""One FastAPI app per server: its routes, `GET /`, `/healthz`, the OpenAPI page; a token where one is needed.

Bodies  parsed and written by orjson, once; the framework checks what it owns and leaves the rest to the server.
Errors  every error is `{"error": {owner, kind, message, stage, retryable}}` with its owner's status; where clients of a
        model call, what these understand (`dialects.errors`). A body that is no JSON object is 400. A handler whose
        caller has gone (long routes) is cancelled.
Access  with a token, every route but `GET /` and `/healthz` answers 401 without `Authorization: Bearer <token>`, or
        `X-Api-Key: <token>`, as Anthropic's clients say it.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from paddock import __version__
from paddock.errors import BugError, CancelledError, PaddockError, RequestError
from paddock.http import Call, EventStream, Route
from paddock.http.context import API_KEY
from paddock.server.base import Handler, Server
from paddock.server.dialects import error_reply
from paddock.server.openapi import operation

OPEN_PATHS = frozenset({"/", "/healthz"})


def build_app(server: Server[Any], *, token: str | None = None) -> FastAPI:
    """The server's app; it does not start or stop the server."""
    app = FastAPI(title=f"paddock {server.KIND}: {server.name}", version=__version__)
    app.add_api_route("/", _answer({"status": "ok"}), methods=["GET"], summary="Liveness")
    health = {
        "status": "ok",
        "name": server.name,
        "kind": server.KIND,
        "implementation": type(server).__module__.split(".")[2] if type(server).__module__.count(".") > 1 else "",
        "version": __version__,
    }
    app.add_api_route("/healthz", _answer(health), methods=["GET"], summary="What this server is")
    for route, handler in server.handlers().items():
        app.add_api_route(
            route.path,
            _endpoint(route, handler),
            methods=[route.method],
            summary=route.summary,
            openapi_extra=operation(route, server),
        )
    server.extend(app)
    app.add_exception_handler(HTTPException, _refused(server))
    if token is not None:
        app.add_middleware(RequireToken, token=token)
    return app


class RequireToken:
    """Answers 401 to whoever does not bring the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS or self._may(scope):
            await self._app(scope, receive, send)
            return
        error = RequestError("this server needs `Authorization: Bearer <token>`", kind="unauthorized")
        await _error(scope["path"], error, 401)(scope, receive, send)

    def _may(self, scope: Scope) -> bool:
        given = dict(scope["headers"])
        keys = (given.get(b"authorization", b""), b"Bearer " + given.get(API_KEY.encode(), b""))
        return any(hmac.compare_digest(key, self._expected) for key in keys)


def _refused(server: Server[Any]) -> Callable[[Request, Exception], Response]:
    """Answers a request that no route takes, and errors of routes that the server added itself."""
    there = ", ".join(f"{route.method} {route.path}" for route in server.handlers())

    def answer(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # what it is registered for
        message, kind = str(error.detail), "refused"
        if error.status_code in (404, 405):
            # Without the path that was asked for: a rollout's secret may be in it.
            message, kind = f"{server.name}: {message}; there are: {there}", "no_route"
        return _error(request.url.path, RequestError(message, kind=kind), error.status_code, error.headers)

    return answer


def _endpoint(route: Route[Any, Any], handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    has_body = route.method in ("POST", "PUT")

    async def endpoint(request: Request) -> Response:
        try:
            wire = _object(await request.body()) if has_body else {}
            body = route.from_wire(wire)
            call = Call.from_headers(request.headers, request.path_params)
            work = handler(body, call)
            reply = await (_unless_gone(work, request, call) if route.long else work)
            if isinstance(reply, EventStream):
                return StreamingResponse(reply.events, media_type="text/event-stream")
            return _json(route.reply_to_wire(body, reply))
        except PaddockError as error:
            return _error(route.path, error)
        except Exception as error:  # noqa: BLE001 - the last boundary: whatever is left is a bug of ours
            bug = BugError(f"{route.path}: {type(error).__name__}: {error}", kind=type(error).__name__)
            return _error(route.path, bug)

    return endpoint


async def _unless_gone(work: Awaitable[Any], request: Request, call: Call) -> Any:
    """The handler's reply; cancels it when the caller disconnects or its deadline has passed."""
    clock = asyncio.timeout(call.remaining_s)
    gone = asyncio.ensure_future(_disconnected(request))
    working = True

    def end(_: object) -> None:
        if working and not clock.expired():
            clock.reschedule(0.0)

    gone.add_done_callback(end)
    try:
        async with clock:
            try:
                return await work
            finally:
                working = False
    except TimeoutError as error:
        if not clock.expired():
            raise
        raise CancelledError("the caller has gone, or its deadline has passed", kind="caller_gone") from error
    finally:
        gone.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _object(body: bytes) -> dict[str, Any]:
    try:
        wire = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RequestError(f"body is no JSON: {error}", kind="body_invalid") from error
    if not isinstance(wire, dict):
        raise RequestError(f"body: needs a JSON object, got {type(wire).__name__}", kind="body_invalid")
    return wire


def _error(
    path: str, error: PaddockError, status: int | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    reply = error_reply(path, error, status)
    return _json(reply.body, reply.status, {**(headers or {}), **reply.headers})


def _json(wire: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(orjson.dumps(wire), status, headers, media_type="application/json")


def _answer(wire: dict[str, str]) -> Callable[[], Awaitable[dict[str, str]]]:
    async def answer() -> dict[str, str]:
        return wire

    return answer
