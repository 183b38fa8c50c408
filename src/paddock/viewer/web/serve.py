"""The view on a socket, until it is ended."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import ASGIApp

from paddock.server.access import Access
from paddock.server.http_server import HttpServer
from paddock.server.request_checks import LimitedBodies, LocalRequests, RequireToken
from paddock.server.settings import DEFAULT_LIMITS
from paddock.server.sockets import Bound
from paddock.viewer.web.app import ASSETS, build_view
from paddock.viewer.web.catalog import Catalog


@asynccontextmanager
async def serve_view(catalog: Catalog, bound: Bound, *, access: Access) -> AsyncIterator[str]:
    """Serve the runs of `catalog`; gives the address to open, whose fragment has the token."""
    app: ASGIApp = LimitedBodies(build_view(catalog), DEFAULT_LIMITS)
    if access.token is not None:
        app = RequireToken(app, access.token, made=False, also_open=f"{ASSETS}/")
    server = HttpServer(LocalRequests(app) if access.is_local else app, bound.sock)
    try:
        await server.start()
        yield bound.url + (f"/#token={access.token}" if access.token else "/")
    finally:
        await server.stop()
