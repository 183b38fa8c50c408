"""One FastAPI app per server: its routes, `GET /`, `/healthz`, `/metrics`, `/docs`; a token where one is asked for.

Bodies  are read and written by `paddock.server.endpoints`: rows are flat objects with keys of their own, and errors say
        whose they are. The framework routes, and describes what the routes take and give.
Errors  every error is `{"error": {owner, kind, message, stage, retryable}}` with its owner's status; where clients of a
        model call, what these understand (`dialects.errors`).
Health  `GET /` says that the process lives, `/healthz` whether the server can serve: 503 with the reason where not.
Access  with a token, every route but `GET /` and `/healthz` answers 401 without `Authorization: Bearer <token>`, or
        `X-Api-Key: <token>`, as Anthropic's clients say it. With one that was made at start, the pages for a browser,
        which can't bring it, are open too: they say what the routes are. See also `paddock.server.request_checks`.
"""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from paddock import __version__
from paddock.errors import RequestError
from paddock.http import VERIFY, Route
from paddock.server.access import NO_TOKEN, Access
from paddock.server.base import ResourcesServer, Server
from paddock.server.endpoints import RouteEndpoint, refusal
from paddock.server.openapi import operation
from paddock.server.pages import add_docs
from paddock.server.request_checks import LimitedBodies, RequireToken
from paddock.server.settings import DEFAULT_LIMITS, RequestLimits
from paddock.server.telemetry import MEDIA_TYPE, Telemetry


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
        route: RouteEndpoint(route, handler, long=_is_long(route, server))
        for route, handler in telemetry.handlers().items()
    }
    app = _App(has_token=access.token is not None, title=f"paddock {server.KIND}: {server.name}", version=__version__)
    for route, endpoint in endpoints.items():
        app.router.add_api_route(
            route.path,
            endpoint.answer,
            methods=[route.method],
            summary=route.summary,
            openapi_extra=operation(route, server),
            route_class_override=_WholeRequestRoute,
        )
    add_docs(app)
    app.add_api_route("/metrics", _exposition(telemetry), methods=["GET"], include_in_schema=False)
    app.add_api_route("/", _constant({"status": "ok"}), methods=["GET"], summary="Liveness")
    app.add_api_route(
        "/healthz", _health(server), methods=["GET"], summary="What this server is, and whether it can serve"
    )
    server.extend(app)
    app.add_exception_handler(HTTPException, _error_handler(server))
    # The last one that is added is asked first: before any that the server added itself.
    app.add_middleware(LimitedBodies, limits=limits)
    if access.token is not None:
        app.add_middleware(RequireToken, token=access.token, made=access.made)
    return app


def _is_long(route: Route[Any, Any], server: Server[Any]) -> bool:
    """A verdict that waits for other members does not go on for a caller that has gone."""
    return route.long or (route is VERIFY and isinstance(server, ResourcesServer) and server.GROUP_WISE)


class _WholeRequestRoute(APIRoute):
    """A route whose endpoint takes the request: no parameters and dependencies have to be resolved at each."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler: Callable[[Request], Coroutine[Any, Any, Response]] = self.endpoint
        return handler


class _App(FastAPI):
    """`has_token`: clients are asked for one."""

    def __init__(self, *, has_token: bool, **settings: Any) -> None:
        super().__init__(docs_url=None, redoc_url=None, **settings)
        self._has_token = has_token

    def openapi(self) -> dict[str, Any]:
        """The description; it says of a token that it is to be given, so that the page asks for it."""
        description = super().openapi()
        if self._has_token:
            schemes = description.setdefault("components", {}).setdefault("securitySchemes", {})
            schemes["token"] = {"type": "http", "scheme": "bearer"}
            description["security"] = [{"token": []}]
        return description


def _error_handler(server: Server[Any]) -> Callable[[Request, Exception], Response]:
    """Answers a request that no route takes, and errors of routes that the server added itself."""
    routes = ", ".join(f"{route.method} {route.path}" for route in server.handlers())

    def answer(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # what it is registered for
        message, kind = str(error.detail), "refused"
        if error.status_code in (404, 405):
            # Without the path that was asked for: a rollout's secret may be in it.
            message, kind = f"{server.name}: {message}; there are: {routes}", "no_route"
        return refusal(request.url.path, RequestError(message, kind=kind), error.status_code, error.headers)

    return answer


def _health(server: Server[Any]) -> Callable[[], Awaitable[Response]]:
    """200, or 503 with the reason where the server could not serve a request at this moment."""
    module = type(server).__module__
    identity = {
        "name": server.name,
        "kind": server.KIND,
        "implementation": module.split(".")[2] if module.count(".") > 1 else "",
        "version": __version__,
    }

    async def answer() -> Response:
        why_not = await server.why_not_ready()
        if why_not is None:
            return JSONResponse({"status": "ok", **identity})
        return JSONResponse({"status": "unavailable", "reason": why_not, **identity}, status_code=503)

    return answer


def _constant(wire: dict[str, str]) -> Callable[[], Awaitable[dict[str, str]]]:
    async def answer() -> dict[str, str]:
        return wire

    return answer


def _exposition(telemetry: Telemetry) -> Callable[[], Awaitable[Response]]:
    async def answer() -> Response:
        return Response(telemetry.exposition(), media_type=MEDIA_TYPE)

    return answer
