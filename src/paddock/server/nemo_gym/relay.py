"""A listener on loopback by which a process of NeMo-Gym's reaches servers of ours, under the names in its config.

Place   NeMo-Gym makes `http://<host>:<port>` of a server's block: the path with the secret is part of our `port`.
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route as WebRoute

from paddock.errors import InfraError, PaddockError, RequestError
from paddock.http import PLAIN_CHAT, PLAIN_RESPONSES, Call, ModelReply, Peer, Route
from paddock.server.dialects import error_reply
from paddock.server.http_server import HttpServer
from paddock.server.sockets import LOOPBACK, Address, bind
from paddock.types import JsonObject

ROUTES: Mapping[str, Route[JsonObject, ModelReply]] = {
    "/v1/responses": PLAIN_RESPONSES,
    "/v1/chat/completions": PLAIN_CHAT,
}
"""Of model servers whose calls are no part of a rollout."""
Answer = Callable[[Request], Awaitable[Response]]


class OpenRequests:
    """Requests that have no answer: those that failed and did not succeed another time, and those that still run."""

    def __init__(self) -> None:
        self._failures: dict[tuple[str, str, bytes], PaddockError] = {}

    @property
    def failures(self) -> list[PaddockError]:
        """In the order in which they were first made."""
        return list(self._failures.values())

    @property
    def texts(self) -> list[str]:
        return [f"{server}: {failure.message}" for (server, _, _), failure in self._failures.items()]

    def begin(self, server: str, path: str, body: bytes) -> None:
        self._failures[server, path, body] = InfraError(f"{path}: has not answered", kind="unanswered")

    def end(self, server: str, path: str, body: bytes, failure: PaddockError | None) -> None:
        """`failure` None: the request was answered."""
        if failure is None:
            self._failures.pop((server, path, body), None)
        else:
            self._failures[server, path, body] = failure


class LoopbackRelay:
    """What it is asked for without its secret is not found. `answer` gets requests with `server` and `path` as
    parameters of their path."""

    def __init__(self, name: str, answer: Answer) -> None:
        self._name = name
        self._answer = answer
        self._secret = secrets.token_hex(16)
        self._port = 0
        self._server: HttpServer | None = None

    async def start(self) -> None:
        sock, _ = bind(self._name, Address(LOOPBACK, 0))
        self._port = sock.getsockname()[1]
        route = WebRoute(f"/{self._secret}/{{server}}{{path:path}}", self._answer, methods=["POST"])
        self._server = HttpServer(Starlette(routes=[route]), sock)
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop()

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self._port}/{self._secret}"

    def block(self, server: str, their_kind: str) -> JsonObject:
        """A block of NeMo-Gym's by which it finds a server of ours."""
        place = {"host": LOOPBACK, "port": f"{self._port}/{self._secret}/{server}"}
        return {their_kind: {"paddock": {"entrypoint": "app.py", "domain": "other", **place}}}


async def ask_model(peer: Peer, path: str, body: bytes, call: Call) -> ModelReply:
    """Ask a model server outside of any rollout. Raises RequestError for what is none of its requests."""
    route = ROUTES.get(path)
    if route is None:
        raise RequestError(f"{path}: no route of a model server", kind="no_route")
    try:
        wire = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RequestError(f"no JSON: {error}", kind="request_invalid") from error
    return await peer.call(route, wire, call)


def model_response(reply: ModelReply) -> Response:
    return (
        json_response(reply)
        if isinstance(reply, dict)
        else StreamingResponse(reply.events, media_type="text/event-stream")
    )


def error_response(path: str, error: PaddockError) -> Response:
    reply = error_reply(path, error)
    return json_response(reply.body, reply.status)


def json_response(body: JsonObject, status: int = 200) -> Response:
    return Response(orjson.dumps(body), status_code=status, media_type="application/json")
