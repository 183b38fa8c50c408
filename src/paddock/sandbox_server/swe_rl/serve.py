"""The swe-rl wire over a provider: its app and a server, put together.

Token   the client sends no header of its own. Both httpx and requests send the userinfo of their URL as a password:
        `http://any:TOKEN@HOST:PORT` brings the token, which is asked for as a node asks.
"""

import binascii
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import ASGIApp, Receive, Scope, Send

from paddock.http.access import SCHEME
from paddock.sandbox import Provider, open_provider
from paddock.sandbox.readiness import Readiness
from paddock.sandbox_server.swe_rl.app import SweRlApp
from paddock.sandbox_server.swe_rl.evaluation import Evaluator, RowVerdict
from paddock.sandbox_server.swe_rl.leases import SweLeases
from paddock.sandbox_server.swe_rl.settings import SweRlSettings
from paddock.server.access import Access
from paddock.server.http_server import HttpServer
from paddock.server.request_checks import LimitedBodies, LocalRequests, RequireToken
from paddock.server.settings import DEFAULT_LIMITS
from paddock.server.sockets import Bound

BASIC = b"basic "


@asynccontextmanager
async def serve_swe_rl(
    settings: SweRlSettings, bound: Bound, *, access: Access, grade_row: RowVerdict | None = None
) -> AsyncIterator[Provider]:
    """Serve the settings' sandboxes on a socket, and give the provider behind it. `grade_row`: see `evaluation`."""
    provider = await open_provider(settings.sandbox)
    leases = SweLeases(provider, settings)
    evaluator = Evaluator(provider, leases, settings, grade_row)
    app: ASGIApp = SweRlApp(provider, leases, evaluator, settings, Readiness(provider).why_not).build()
    app = LimitedBodies(app, DEFAULT_LIMITS)
    if access.token is not None:
        app = PasswordAsToken(RequireToken(app, access.token, access.made))
    server = HttpServer(LocalRequests(app) if access.is_local else app, bound.sock)
    try:
        await server.start()
        yield provider
    finally:
        await server.stop()
        await leases.close_all()
        await provider.close()


class PasswordAsToken:
    """An app whose token may also come as a password."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": [(name, _bearer(name, value)) for name, value in scope["headers"]]}
        await self._app(scope, receive, send)


def _bearer(name: bytes, value: bytes) -> bytes:
    if name != b"authorization" or value[: len(BASIC)].lower() != BASIC:
        return value
    try:
        _, _, password = b64decode(value[len(BASIC) :], validate=True).partition(b":")
    except binascii.Error:
        return value
    return SCHEME.encode() + password
