"""This machine's sandboxes over HTTP: a provider, its app and a server, put together.

Law     whoever can ask a node for sandboxes runs programs on its machine: beyond loopback a token is asked for. What
        clients have made ends with the node.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import ASGIApp

from paddock.sandbox.admission import AdmissionSettings
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.readiness import Readiness
from paddock.sandbox.remote.wire import BYTES
from paddock.sandbox.runtime_choice import open_local_provider
from paddock.sandbox.settings import SandboxSettings
from paddock.sandbox_server.app import NodeApp
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


@asynccontextmanager
async def serve_node(
    settings: SandboxSettings,
    bound: Bound,
    *,
    access: Access,
    admission: AdmissionSettings = DEFAULT_ADMISSION,
    limits: RequestLimits = DEFAULT_LIMITS,
    tls: TlsFiles | None = None,
) -> AsyncIterator[LocalProvider]:
    """Serve this machine's sandboxes on a socket, and give the provider behind it."""
    provider = await open_local_provider(settings)
    machine = NodeHost(provider)
    sandboxes = AdmittedSandboxes(provider, admission.resolved(machine.free_disk_mib()))
    leases = Leases(sandboxes)
    readiness = Readiness(provider)
    reports = NodeReports(sandboxes, leases, machine, why_not_ready=readiness.why_not)
    node = NodeApp(sandboxes, leases, reports)
    app = _checked(node.build(), access, limits)
    server = HttpServer(app, bound.sock, stall_timeout_s=limits.stall_timeout_s, websockets=True, tls=tls)
    try:
        await server.start()
        yield provider
    finally:
        await server.stop()
        await leases.close()
        await provider.close()


def _checked(app: ASGIApp, access: Access, limits: RequestLimits) -> ASGIApp:
    """The app with the checks that come before it."""
    app = LimitedBodies(app, limits, also=(BYTES.encode(),))
    if access.token is not None:
        app = RequireToken(app, access.token, access.made)
    return LocalRequests(app) if access.is_local else app
