"""One FastAPI app per server: its routes, `GET /`, `/healthz`, `/metrics`, `/docs`; a token where one is asked for.

Cost    the framework's layers take as long as the rest of a small call: the server's routes are answered before them
        (`paddock.server.endpoints`), and within them only where a server has added middleware of its own.
Errors  every error is `{"error": {owner, kind, message, stage, retryable}}` with its owner's status; where clients of a
        model call, what these understand (`dialects.errors`).
Health  `GET /` says that the process lives, `/healthz` whether the server can serve: 503 with the reason where not.
Access  with a token, every route but `GET /` and `/healthz` answers 401 without `Authorization: Bearer <token>`, or
        `X-Api-Key: <token>`, as Anthropic's clients say it. With one that was made at start, the pages for a browser,
        which can't bring it, are open too: they say what the routes are. See also `paddock.server.local_requests`.
"""

import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from paddock import __version__
from paddock.errors import RequestError
from paddock.http import VERIFY, Route
from paddock.http.access import SCHEME
from paddock.http.context import API_KEY
from paddock.server.access import NO_TOKEN, Access
from paddock.server.base import ResourcesServer, Server
from paddock.server.endpoints import Endpoint, Events, Reply, refusal
from paddock.server.openapi import operation
from paddock.server.pages import ASSETS, PAGES, add_docs
from paddock.server.request_limits import LimitedBodies
from paddock.server.settings import DEFAULT_LIMITS, RequestLimits
from paddock.server.telemetry import MEDIA_TYPE, Telemetry

OPEN_PATHS = frozenset({"/", "/healthz"})
NEEDS_TOKEN = "this server needs `Authorization: Bearer <token>`"
HOW_TO_FIND = (
    ": `paddock.connect(url)` and `headers=paddock.http.headers_for(url)` find it for its user, by the "
    "server's address (127.0.0.1, not `localhost`); with curl, `-H @FILE` as `paddock serve` said at its start"
)
_ROLLOUT = "/r/"
_SECRET = "secret"


def build_app(
    server: Server[Any],
    *,
    access: Access = NO_TOKEN,
    telemetry: Telemetry | None = None,
    limits: RequestLimits = DEFAULT_LIMITS,
) -> FastAPI:
    """The server's app; it does not start or stop the server. `telemetry`: what else counts the server's calls;
    `limits`: of bodies."""
    telemetry = telemetry or Telemetry(server)
    endpoints = {
        route: Endpoint(route, handler, long=_is_long(route, server)) for route, handler in telemetry.handlers().items()
    }
    app = _App(endpoints, access, limits, title=f"paddock {server.KIND}: {server.name}", version=__version__)
    add_docs(app)
    app.add_api_route("/metrics", _exposition(telemetry), methods=["GET"], include_in_schema=False)
    app.add_api_route("/", _answer({"status": "ok"}), methods=["GET"], summary="Liveness")
    app.add_api_route(
        "/healthz", _health(server), methods=["GET"], summary="What this server is, and whether it can serve"
    )
    for route, endpoint in endpoints.items():
        app.add_api_route(
            route.path,
            _inside(endpoint),
            methods=[route.method],
            summary=route.summary,
            openapi_extra=operation(route, server),
        )
    server.extend(app)
    app.add_exception_handler(HTTPException, _refused(server))
    return app


def _is_long(route: Route[Any, Any], server: Server[Any]) -> bool:
    """A verdict that waits for other members does not go on for a caller that has gone."""
    return route.long or (route is VERIFY and isinstance(server, ResourcesServer) and server.GROUP_WISE)


class _App(FastAPI):
    """`endpoints`: of the server's routes."""

    def __init__(
        self,
        endpoints: Mapping[Route[Any, Any], Endpoint],
        access: Access,
        limits: RequestLimits,
        **settings: Any,
    ) -> None:
        super().__init__(docs_url=None, redoc_url=None, **settings)
        self._endpoints = {(route.method, route.path): endpoint for route, endpoint in endpoints.items()}
        self._has_token = access.token is not None
        limited = LimitedBodies(self._serve, limits)
        self._front: ASGIApp = limited if access.token is None else RequireToken(limited, access.token, access.made)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._front(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        """The description; it says of a token that it is to be given, so that the page asks for it."""
        description = super().openapi()
        if self._has_token:
            schemes = description.setdefault("components", {}).setdefault("securitySchemes", {})
            schemes["token"] = {"type": "http", "scheme": "bearer"}
            description["security"] = [{"token": []}]
        return description

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = None
        if scope["type"] == "http" and not (self.user_middleware or scope.get("root_path")):
            path, values = _template(scope["path"])
            endpoint = self._endpoints.get((scope["method"], path))
        if endpoint is None:
            await super().__call__(scope, receive, send)
        else:
            reply = await endpoint.reply(scope["headers"], values, receive)
            await reply.send(receive, send)


def _template(path: str) -> tuple[str, dict[str, str]]:
    """A route's path with its parameters, and their values: as the framework's router reads them."""
    if not path.startswith(_ROLLOUT):
        return path, {}
    secret, slash, rest = path[len(_ROLLOUT) :].partition("/")
    return (f"{_ROLLOUT}{{{_SECRET}}}{slash}{rest}", {_SECRET: secret}) if secret else (path, {})


class RequireToken:
    """Answers 401 to whoever does not bring the token. `made`: at start; its user's clients find it by themselves."""

    def __init__(self, app: ASGIApp, token: str, made: bool) -> None:
        self._app = app
        self._expected = (SCHEME + token).encode()
        self._made = made

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._is_open(scope["path"]) or self._may(scope):
            await self._app(scope, receive, send)
            return
        error = RequestError(NEEDS_TOKEN + (HOW_TO_FIND if self._made else ""), kind="unauthorized")
        await refusal(scope["path"], error, 401).send(receive, send)

    def _is_open(self, path: str) -> bool:
        return path in OPEN_PATHS or (self._made and (path in PAGES or path.startswith(f"{ASSETS}/")))

    def _may(self, scope: Scope) -> bool:
        given = dict(scope["headers"])
        keys = (given.get(b"authorization", b""), SCHEME.encode() + given.get(API_KEY.encode(), b""))
        return any(hmac.compare_digest(key, self._expected) for key in keys)


class _Replied(Response):
    """A reply that the framework sends."""

    def __init__(self, reply: Reply | Events) -> None:
        super().__init__(status_code=reply.status)
        self._reply = reply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._reply.send(receive, send)


def _inside(endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    """Within the framework's layers."""

    async def answer(request: Request) -> Response:
        return _Replied(await endpoint.reply(request.headers.raw, request.path_params, request.receive))

    return answer


def _refused(server: Server[Any]) -> Callable[[Request, Exception], Response]:
    """Answers a request that no route takes, and errors of routes that the server added itself."""
    there = ", ".join(f"{route.method} {route.path}" for route in server.handlers())

    def answer(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # what it is registered for
        message, kind = str(error.detail), "refused"
        if error.status_code in (404, 405):
            # Without the path that was asked for: a rollout's secret may be in it.
            message, kind = f"{server.name}: {message}; there are: {there}", "no_route"
        return _Replied(refusal(request.url.path, RequestError(message, kind=kind), error.status_code, error.headers))

    return answer


def _health(server: Server[Any]) -> Callable[[], Awaitable[Response]]:
    """200, or 503 with the reason where the server could not serve a request at this moment."""
    module = type(server).__module__
    what = {
        "name": server.name,
        "kind": server.KIND,
        "implementation": module.split(".")[2] if module.count(".") > 1 else "",
        "version": __version__,
    }

    async def answer() -> Response:
        why_not = await server.why_not_ready()
        if why_not is None:
            return JSONResponse({"status": "ok", **what})
        return JSONResponse({"status": "unavailable", "reason": why_not, **what}, status_code=503)

    return answer


def _answer(wire: dict[str, str]) -> Callable[[], Awaitable[dict[str, str]]]:
    async def answer() -> dict[str, str]:
        return wire

    return answer


def _exposition(telemetry: Telemetry) -> Callable[[], Awaitable[Response]]:
    async def answer() -> Response:
        return Response(telemetry.exposition(), media_type=MEDIA_TYPE)

    return answer
