"""What a node says of itself, and what its operators ask of it.

Routes  `GET /healthz`: whether a sandbox can be started; without a token. `GET /status`: clients, sandboxes and room.
        `GET /images`: names. `GET /metrics`: see `telemetry`. `POST /drain`: it takes no more sandboxes, those that
        live go on; `POST /uncordon`: it takes them again; both answer as `/status` does.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Router

from paddock import __version__
from paddock.sandbox.remote import wire
from paddock.sandbox.remote.room import ImageNames, NodeStatus
from paddock.sandbox_server.leases import Leases
from paddock.sandbox_server.machine import NodeHost
from paddock.sandbox_server.room import AdmittedSandboxes
from paddock.sandbox_server.telemetry import MEDIA_TYPE, NodeTelemetry
from paddock.types import Record


class NodeReports:
    """Of one node."""

    def __init__(
        self,
        sandboxes: AdmittedSandboxes,
        leases: Leases,
        machine: NodeHost,
        *,
        why_not_ready: Callable[[], Awaitable[str | None]],
    ) -> None:
        """`why_not_ready`: None where a sandbox can be started."""
        self.telemetry = NodeTelemetry()
        self._sandboxes = sandboxes
        self._leases = leases
        self._machine = machine
        self._why_not_ready = why_not_ready
        self._since = time.monotonic()

    def add_to(self, app: Router) -> None:
        app.add_route("/", self._live, methods=["GET"])
        app.add_route(wire.HEALTH, self._health, methods=["GET"])
        app.add_route(wire.STATUS, self._status, methods=["GET"])
        app.add_route(wire.IMAGES, self._images, methods=["GET"])
        app.add_route(wire.METRICS, self._metrics, methods=["GET"])
        app.add_route(wire.DRAIN, self._drain, methods=["POST"])
        app.add_route(wire.UNCORDON, self._uncordon, methods=["POST"])

    async def _live(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _health(self, _: Request) -> Response:
        identity = {"kind": "sandbox_node", "version": __version__}
        why_not = await self._why_not_ready()
        if why_not is None:
            return JSONResponse({"status": "ok", **identity})
        return JSONResponse({"status": "unavailable", "reason": why_not, **identity}, status_code=503)

    async def _status(self, _: Request) -> Response:
        facts = await asyncio.to_thread(self._machine.look)
        status = NodeStatus(
            version=__version__,
            runtime=self._machine.runtime,
            up_s=time.monotonic() - self._since,
            leases=len(self._leases),
            sandboxes=len(self._sandboxes.provider.live()),
            room=self._sandboxes.report(waiting=self._leases.waiting),
            **facts._asdict(),
        )
        return _json(status)

    async def _metrics(self, _: Request) -> Response:
        exposition_text = self.telemetry.exposition(
            sandboxes=len(self._sandboxes.provider.live()),
            clients=len(self._leases),
            room=self._sandboxes.report(waiting=self._leases.waiting),
        )
        return Response(exposition_text, media_type=MEDIA_TYPE)

    async def _drain(self, request: Request) -> Response:
        self._sandboxes.draining = True
        return await self._status(request)

    async def _uncordon(self, request: Request) -> Response:
        self._sandboxes.draining = False
        return await self._status(request)

    async def _images(self, _: Request) -> Response:
        return _json(ImageNames(names=await asyncio.to_thread(self._machine.store.names)))


def _json(reply: Record) -> Response:
    return Response(wire.encode(reply), media_type=wire.JSON)
