"""The app of a node: leases, the methods of a provider as routes, and what it says of itself (`reports`).

Bodies  see `paddock.sandbox.remote.wire`.
Errors  of the provider: as `paddock.sandbox.remote.errors` writes them. A client without a lease of this node: 410.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from paddock.errors import PaddockError, RequestError, describe
from paddock.sandbox import SandboxRequestError
from paddock.sandbox.remote import wire
from paddock.sandbox.remote.errors import error_to_wire, status_of
from paddock.sandbox_server.actions import ACTIONS, UNDOS, Action
from paddock.sandbox_server.calls import NodeCall, Reply
from paddock.sandbox_server.leases import ClientLease, Leases
from paddock.sandbox_server.reports import NodeReports
from paddock.sandbox_server.room import AdmittedSandboxes
from paddock.types import Record

MAX_WAIT_S = 60.0
"""Seconds after which a call that still runs is answered 202, whatever its client asked for."""
R = TypeVar("R", bound=Record)
Endpoint = Callable[[Request], Awaitable[Response]]
Act = Callable[[Action, bytes], Coroutine[Any, Any, Reply]]


class EndpointApp:
    """An endpoint whose errors are answers, as the app of a route."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._endpoint(Request(scope, receive))
        except PaddockError as error:
            response = JSONResponse(error.to_wire(), error.status)
        await response(scope, receive, send)


class NodeApp:
    """The routes around one provider."""

    def __init__(self, sandboxes: AdmittedSandboxes, leases: Leases, reports: NodeReports) -> None:
        self._sandboxes = sandboxes
        self._leases = leases
        self._reports = reports

    def build(self) -> Router:
        # FastAPI would resolve parameters and dependencies at each call, of which there are none; a Starlette app would
        # handle errors, which `EndpointApp` and the server do. Routes are tried in their order: those that are asked
        # for most come first.
        app = Router([_route(of.method, of.path, self._endpoint(_act(of), UNDOS.get(of))) for of in ACTIONS])
        self._reports.add_to(app)
        app.routes += [
            _route("POST", wire.LEASES, self._open_lease),
            _route("POST", wire.RENEWAL, self._renew),
            _route("DELETE", wire.LEASES, self._end_lease),
            _route("GET", wire.CALLS, self._await_call),
            _route("DELETE", wire.CALLS, self._cancel_call),
            _route("GET", wire.FILE, self._endpoint(_read, None)),
            _route("PUT", wire.FILE, self._endpoint(_write, None)),
        ]
        app.add_websocket_route(wire.TUNNEL_LINK, self._link)
        return app

    def _endpoint(self, act: Act, undo: Callable[[Action, Any], Awaitable[None]] | None) -> Endpoint:
        """A method of the provider: acted on once for each id of a call."""

        async def answer(request: Request) -> Response:
            headers = dict(request.headers.items())  # Starlette's own searches all of them for each
            lease = self._lease(headers)
            body = await request.body()
            call_id = headers.get(wire.CALL_HEADER, "")
            if not call_id:
                raise RequestError(f"{wire.CALL_HEADER}: give each call an id", kind="call_unnamed")
            words = {**wire.parse_query(request.scope["query_string"]), **request.path_params}
            action = Action(self._sandboxes, lease, words, call_id, waiting=self._leases.waiting)
            undoing = None if undo is None else lambda reply: undo(action, reply)
            route = f"{request.method} {request.scope['route'].path}"
            telemetry = self._reports.telemetry
            call = lease.calls.start(call_id, lambda: telemetry.counted(route, lambda: act(action, body)), undoing)
            return await _reply(call, headers)

        return answer

    def _lease(self, headers: Mapping[str, str]) -> ClientLease:
        """The caller's lease; what it says of its calls is taken note of."""
        lease = self._leases.get(headers.get(wire.LEASE_HEADER, ""))
        if done := headers.get(wire.DONE_HEADER):
            lease.calls.forget(done.split(","))
        waiting = headers.get(wire.WAITING_HEADER, "")
        lease.waiting = int(waiting) if waiting.isdecimal() else 0
        return lease

    async def _open_lease(self, request: Request) -> Response:
        lease = self._leases.open(_parse(wire.LeaseRequest, await request.body()).ttl_s)
        return _json(wire.LeaseGrant(lease_id=lease.id))

    async def _renew(self, request: Request) -> Response:
        self._leases.renew(self._lease(request.headers))
        return _json(wire.Nothing())

    async def _end_lease(self, request: Request) -> Response:
        await self._leases.end(self._lease(request.headers))
        return _json(wire.Nothing())

    async def _await_call(self, request: Request) -> Response:
        call = self._lease(request.headers).calls.find(request.path_params["call_id"])
        if call is None:
            return JSONResponse({"error": {"kind": wire.CALL_UNKNOWN, "message": "no such call"}}, 404)
        return await _reply(call, request.headers)

    async def _cancel_call(self, request: Request) -> Response:
        await self._lease(request.headers).calls.cancel(request.path_params["call_id"])
        return _json(wire.Nothing())

    async def _link(self, websocket: WebSocket) -> None:
        """The link of a tunnel; closed before it opens where there is no such tunnel of the caller's."""
        try:
            lease = self._lease(websocket.headers)
        except PaddockError:
            await websocket.close(1008)
            return
        key = (websocket.path_params["sandbox_id"], websocket.path_params["tunnel_id"])
        tunnel = lease.tunnels.get(key)
        if tunnel is None:
            await websocket.close(1008)
            return
        await tunnel.serve(websocket)


def _route(method: str, path: str, endpoint: Endpoint) -> Route:
    return Route(path, EndpointApp(endpoint), methods=[method])


def _act(route: wire.NodeRoute[Any, Any]) -> Act:
    async def act(action: Action, body: bytes) -> Record:
        if action.sandbox_id and route is not wire.DESTROY:
            action.lease.check(action.sandbox_id)
        return await ACTIONS[route](
            action, route.request() if route.request is wire.Nothing else _parse(route.request, body)
        )

    return act


async def _read(action: Action, _: bytes) -> bytes:
    action.lease.check(action.sandbox_id)
    return await action.read(_from_query(wire.FilePath, action.words))


async def _write(action: Action, body: bytes) -> Record:
    action.lease.check(action.sandbox_id)
    return await action.write(_from_query(wire.FileTarget, action.words), body)


async def _reply(call: NodeCall, headers: Mapping[str, str]) -> Response:
    """The answer of a call, or 202 where there is none in the seconds that its client waits."""
    try:
        wait_s = min(float(headers.get(wire.WAIT_HEADER, MAX_WAIT_S)), MAX_WAIT_S)
    except ValueError as error:
        raise RequestError(f"{wire.WAIT_HEADER}: {error}", kind="header_invalid") from error
    await asyncio.wait([call.task], timeout=wait_s)
    if not call.task.done():
        return Response(status_code=202)
    if call.task.cancelled():
        return JSONResponse({"error": {"kind": wire.CALL_UNKNOWN, "message": "it was ended"}}, 404)
    if (failure := call.task.exception()) is not None:
        return JSONResponse(error_to_wire(failure), status_of(failure))
    reply = call.task.result()
    return Response(reply, media_type=wire.BYTES) if isinstance(reply, bytes) else _json(reply)


def _json(reply: Record) -> Response:
    return Response(wire.encode(reply), media_type=wire.JSON)


def _parse(cls: type[R], body: bytes) -> R:
    try:
        return wire.decode(cls, body)
    except ValidationError as error:
        raise SandboxRequestError(f"{cls.__name__}: {describe(error)}", kind="body_invalid") from error


def _from_query(cls: type[R], words: dict[str, str]) -> R:
    fields = {name: value for name, value in words.items() if name in cls.model_fields}
    try:
        return cls.model_validate(fields)
    except ValidationError as error:
        raise SandboxRequestError(f"{cls.__name__}: {describe(error)}", kind="query_invalid") from error
