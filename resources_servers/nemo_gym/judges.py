"""Model servers of ours for a server of NeMo-Gym's: what it asks of one by its name is passed on to it.

Place   NeMo-Gym makes `http://<host>:<port>` of a server's block: the path with the secret is part of our `port`.
Law     a request that failed, and did not succeed another time, is held against the verdict for which it was made,
        whatever becomes of it there: a judge that gave no answer is no reward. Where it is not known which verdict that
        is, it is held against all that are being made.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route as WebRoute

from paddock.errors import BugError, PaddockError, RequestError
from paddock.http import PLAIN_CHAT, PLAIN_RESPONSES, Call, ModelReply, Peer, Route
from paddock.http.client import REQUEST_ID
from paddock.server.dialects import error_reply
from paddock.server.http_server import HttpServer
from paddock.server.sockets import LOOPBACK, Address, bind
from paddock.types import JsonObject

ROUTES: dict[str, Route[JsonObject, ModelReply]] = {
    "/v1/responses": PLAIN_RESPONSES,
    "/v1/chat/completions": PLAIN_CHAT,
}


class JudgeFailures:
    """What went wrong with requests that were made for one verdict."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, bytes], str] = {}

    @property
    def texts(self) -> list[str]:
        return list(self._texts.values())

    def note(self, model: str, body: bytes, failure: str | None) -> None:
        """`failure` None: the request was answered."""
        if failure is None:
            self._texts.pop((model, body), None)
        else:
            self._texts[model, body] = f"{model}: {failure}"


class JudgeRelay:
    """Listens on loopback; what it is asked for without its secret is not found."""

    def __init__(self, name: str, peers: Mapping[str, Peer], models: Sequence[str], *, timeout_s: float) -> None:
        self._name = name
        self._peers = peers
        self._models = models
        self._timeout_s = timeout_s
        self._secret = secrets.token_hex(16)
        self._port = 0
        self._server: HttpServer | None = None
        self._judged: dict[str, JudgeFailures] = {}

    async def start(self) -> None:
        sock, _ = bind(self._name, Address(LOOPBACK, 0))
        self._port = sock.getsockname()[1]
        routes = [WebRoute(f"/{self._secret}/{{model}}{path}", self._answer, methods=["POST"]) for path in ROUTES]
        self._server = HttpServer(Starlette(routes=routes), sock)
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop()

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self._port}/{self._secret}"

    def blocks(self) -> JsonObject:
        """The model servers as blocks of NeMo-Gym's."""
        return {
            name: {
                "responses_api_models": {
                    "paddock": {
                        "entrypoint": "app.py",
                        "host": LOOPBACK,
                        "port": f"{self._port}/{self._secret}/{name}",
                    }
                }
            }
            for name in self._models
        }

    @contextmanager
    def judged(self, request_id: str) -> Iterator[JudgeFailures]:
        """While a verdict is made, by the id of its request."""
        failures = self._judged[request_id] = JudgeFailures()
        try:
            yield failures
        finally:
            self._judged.pop(request_id, None)

    async def _answer(self, request: Request) -> Response:
        model, path, body = request.path_params["model"], request.url.path, await request.body()
        known = self._judged.get(request.headers.get(REQUEST_ID, ""))
        for_verdicts = [known] if known is not None else list(self._judged.values())
        failure: str | None = None
        try:
            reply = await self._ask(model, "/v1/" + path.rpartition("/v1/")[2], body)
        except PaddockError as error:
            failure = error.message
            refused = error_reply(path, error)
            return _json(refused.body, refused.status)
        finally:
            for failures in for_verdicts:
                failures.note(model, body, failure)
        return (
            _json(reply) if isinstance(reply, dict) else StreamingResponse(reply.events, media_type="text/event-stream")
        )

    async def _ask(self, model: str, path: str, body: bytes) -> ModelReply:
        peer = self._peers.get(model)
        if peer is None or model not in self._models:
            raise BugError(f"{self._name}: no model server {model!r}", kind="no_route")
        try:
            wire = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise RequestError(f"no JSON: {error}", kind="request_invalid") from error
        return await peer.call(ROUTES[path], wire, Call().within(self._timeout_s))


def _json(body: JsonObject, status: int = 200) -> Response:
    return Response(orjson.dumps(body), status_code=status, media_type="application/json")
