"""This machine's sandboxes over HTTP: a provider, its app and a server, put together.

Law     whoever can ask a node for sandboxes runs programs on its machine: beyond loopback a token is asked for. What
        clients have made ends with the node.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import ASGIApp

from paddock.http.access import find_token
from paddock.sandbox.admission import AdmissionSettings
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.readiness import Readiness
from paddock.sandbox.remote.http import NodeHttp
from paddock.sandbox.remote.wire import BYTES
from paddock.sandbox.runtime_choice import open_local_provider
from paddock.sandbox.settings import SandboxSettings
from paddock.sandbox_server.app import NodeApp
from paddock.sandbox_server.images import NodeImages, NodeImageSettings
from paddock.sandbox_server.leases import Leases
from paddock.sandbox_server.machine import NodeHost
from paddock.sandbox_server.reports import NodeReports
from paddock.sandbox_server.room import AdmittedSandboxes
from paddock.server.access import Access
from paddock.server.http_server import HttpServer, TlsFiles
from paddock.server.request_checks import LimitedBodies, LocalRequests, RequireToken
from paddock.server.settings import DEFAULT_LIMITS, RequestLimits
from paddock.server.sockets import Bound

DEFAULT_ADMISSION = AdmissionSettings()
DEFAULT_IMAGES = NodeImageSettings()


@asynccontextmanager
async def serve_node(
    settings: SandboxSettings,
    bound: Bound,
    *,
    access: Access,
    admission: AdmissionSettings = DEFAULT_ADMISSION,
    images: NodeImageSettings = DEFAULT_IMAGES,
    limits: RequestLimits = DEFAULT_LIMITS,
    tls: TlsFiles | None = None,
) -> AsyncIterator[LocalProvider]:
    """Serve this machine's sandboxes on a socket, and give the provider behind it."""
    provider = await open_local_provider(settings)
    machine = NodeHost(provider)
    token = access.token if settings.node_token_file is None else find_token(settings.node_token_file)
    peers = [NodeHttp(url, token, settings.node_ca_file) for url in images.peers]
    exchange = NodeImages(provider.store, peers, images)
    sandboxes = AdmittedSandboxes(provider, admission.resolved(machine.free_disk_mib()), exchange)
    leases = Leases(sandboxes)
    readiness = Readiness(provider)
    reports = NodeReports(sandboxes, leases, machine, why_not_ready=readiness.why_not)
    node = NodeApp(sandboxes, leases, reports)
    routes = node.build()
    exchange.add_to(routes)
    app = _checked(routes, access, limits)
    server = HttpServer(app, bound.sock, stall_timeout_s=limits.stall_timeout_s, websockets=True, tls=tls)
    try:
        await server.start()
        yield provider
    finally:
        await server.stop()
        await leases.close()
        await provider.close()
        await exchange.close()


def _checked(app: ASGIApp, access: Access, limits: RequestLimits) -> ASGIApp:
    """The app with the checks that come before it."""
    app = LimitedBodies(app, limits, also=(BYTES.encode(),))
    if access.token is not None:
        app = RequireToken(app, access.token, access.made)
    return LocalRequests(app) if access.is_local else app
