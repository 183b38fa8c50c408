"""A rollout's model behind a tunnel: a peer of the agent, called with the rollout's secret.

Peers   one in this process is called directly, its stream passed on event by event; one behind HTTP is forwarded byte
        by byte. `GET /v1/models` is answered here: the one model there is.
Errors  a PaddockError of the model server is an answer with its status; everything else is raised.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import orjson

from paddock.errors import PaddockError, RequestError
from paddock.http import CHAT, MESSAGES, RESPONSES, Call, EventStream, HttpPeer, ModelReply, Peer, Route
from paddock.sandbox.tunnel import ModelRequest, UpstreamAnswer
from paddock.server.dialects import error_reply
from paddock.types import JsonObject

_ROUTES: dict[str, Route[JsonObject, ModelReply]] = {
    "/v1/responses": RESPONSES,
    "/v1/chat/completions": CHAT,
    "/v1/messages": MESSAGES,
}
_JSON = {"content-type": "application/json"}
_PASSED_HEADERS = ("content-type", "retry-after", "x-should-retry")
_EVENTS = {"content-type": "text/event-stream"}


class PeerUpstream:
    """Answers the calls of one rollout."""

    def __init__(self, peer: Peer, call: Call, *, secret: str, model: str) -> None:
        """`call`: its deadline is that of every call; `model`: the name that clients inside use."""
        self._peer = peer
        self._call = call
        self._secret = secret
        self._model = model

    @asynccontextmanager
    async def __call__(self, request: ModelRequest) -> AsyncIterator[UpstreamAnswer]:
        if request.path == "/v1/models":
            yield _whole_answer(
                200, {"object": "list", "data": [{"id": self._model, "object": "model", "owned_by": "paddock"}]}
            )
        elif isinstance(self._peer, HttpPeer):
            path = f"/r/{self._secret}{request.path}"
            async with self._peer.relay(path, request.body, request.headers, self._new_call()) as reply:
                headers = {name: value for name, value in reply.headers.items() if name in _PASSED_HEADERS}
                yield UpstreamAnswer(reply.status_code, headers, reply.aiter_bytes())
        else:
            yield await self._direct(request)

    async def _direct(self, request: ModelRequest) -> UpstreamAnswer:
        try:
            route = _ROUTES.get(request.path)
            if route is None:
                raise RequestError(f"{request.path}: this model server does not speak it", kind="no_route")
            body = orjson.loads(request.body)
            if not isinstance(body, dict):
                raise RequestError("body: needs a JSON object", kind="body_invalid")
            reply = await self._peer.call(route, body, self._new_call(), secret=self._secret)
        except orjson.JSONDecodeError as error:
            return _error_answer(request.path, RequestError(f"body is no JSON: {error}", kind="body_invalid"))
        except PaddockError as error:
            return _error_answer(request.path, error)
        if isinstance(reply, EventStream):
            return UpstreamAnswer(200, _EVENTS, reply.events)
        return _whole_answer(200, reply)

    def _new_call(self) -> Call:
        return Call(deadline=self._call.deadline)


def _error_answer(path: str, error: PaddockError) -> UpstreamAnswer:
    reply = error_reply(path, error)
    return _whole_answer(reply.status, reply.body, reply.headers)


def _whole_answer(status: int, body: JsonObject, headers: Mapping[str, str] | None = None) -> UpstreamAnswer:
    async def parts() -> AsyncIterator[bytes]:
        yield orjson.dumps(body)

    return UpstreamAnswer(status, {**_JSON, **(headers or {})}, parts())
