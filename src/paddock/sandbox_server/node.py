"""This machine's sandboxes over HTTP: a provider, its app and a server, put together.

Law     whoever can ask a node for sandboxes runs programs on its machine: beyond loopback a token is asked for. What
        clients have made ends with the node.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psutil
from starlette.types import ASGIApp

from paddock.sandbox.local import LocalProvider
from paddock.sandbox.readiness import Readiness
from paddock.sandbox.remote.wire import BYTES
from paddock.sandbox.runtime_choice import open_local_provider
from paddock.sandbox.settings import SandboxSettings
from paddock.sandbox_server.app import NodeApp
from paddock.sandbox_server.leases import Leases
from paddock.server.access import Access
from paddock.server.http_server import HttpServer
from paddock.server.request_checks import LimitedBodies, LocalRequests, RequireToken
from paddock.server.settings import DEFAULT_LIMITS, RequestLimits
from paddock.server.sockets import Bound
from paddock.types import JsonObject


@asynccontextmanager
async def serve_node(
    settings: SandboxSettings, bound: Bound, *, access: Access, limits: RequestLimits = DEFAULT_LIMITS
) -> AsyncIterator[LocalProvider]:
    """Serve this machine's sandboxes on a socket, and give the provider behind it."""
    provider = await open_local_provider(settings)
    leases = Leases(provider)
    server = HttpServer(
        build_app(provider, leases, access=access, limits=limits),
        bound.sock,
        stall_timeout_s=limits.stall_timeout_s,
        websockets=True,
    )
    try:
        await server.start()
        yield provider
    finally:
        await server.stop()
        await leases.close()
        await provider.close()


def build_app(
    provider: LocalProvider, leases: Leases, *, access: Access, limits: RequestLimits = DEFAULT_LIMITS
) -> ASGIApp:
    """The app with the checks that come before it."""

    async def room() -> JsonObject:
        disk = await asyncio.to_thread(shutil.disk_usage, provider.settings.home)
        free = psutil.virtual_memory().available
        return {"memory_mib": free >> 20, "disk_mib": disk.free >> 20, "cores": psutil.cpu_count() or 1}

    readiness = Readiness(provider)
    app: ASGIApp = NodeApp(provider, leases, why_not_ready=readiness.why_not, room=room).build()
    app = LimitedBodies(app, limits, also=(BYTES.encode(),))
    if access.token is not None:
        app = RequireToken(app, access.token, access.made)
    return LocalRequests(app) if access.is_local else app
