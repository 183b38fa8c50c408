"""Model servers of ours for a server of NeMo-Gym's: what it asks of one by its name is passed on to it.

Law     a request that failed, and did not succeed another time, or has no answer yet, is held against the verdict for
        which it was made, whatever becomes of it there: a judge that gave no answer is no reward. Where it is not known
        which verdict that is, it is held against all that are being made.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from starlette.requests import Request
from starlette.responses import Response

from paddock.errors import BugError, PaddockError
from paddock.http import Call, ModelReply, Peer
from paddock.http.client import REQUEST_ID
from paddock.server.nemo_gym.relay import LoopbackRelay, OpenRequests, ask_model, error_response, model_response
from paddock.types import JsonObject


class JudgeRelay:
    """The way to the judges, and what of it failed."""

    def __init__(self, name: str, peers: Mapping[str, Peer], models: Sequence[str], *, timeout_s: float) -> None:
        self._name = name
        self._peers = peers
        self._models = models
        self._timeout_s = timeout_s
        self._relay = LoopbackRelay(name, self._answer)
        self._judged: dict[str, OpenRequests] = {}

    async def start(self) -> None:
        await self._relay.start()

    async def stop(self) -> None:
        await self._relay.stop()

    @property
    def url(self) -> str:
        return self._relay.url

    def blocks(self) -> JsonObject:
        """The model servers as blocks of NeMo-Gym's."""
        return {name: self._relay.block(name, "responses_api_models") for name in self._models}

    @contextmanager
    def judged(self, request_id: str) -> Iterator[OpenRequests]:
        """While a verdict is made, by the id of its request."""
        requests = self._judged[request_id] = OpenRequests()
        try:
            yield requests
        finally:
            self._judged.pop(request_id, None)

    async def _answer(self, request: Request) -> Response:
        model, path, body = request.path_params["server"], request.path_params["path"], await request.body()
        known = self._judged.get(request.headers.get(REQUEST_ID, ""))
        for_verdicts = [known] if known is not None else list(self._judged.values())
        for requests in for_verdicts:
            requests.begin(model, path, body)
        try:
            reply = await self._ask(model, path, body)
        except PaddockError as error:
            for requests in for_verdicts:
                requests.end(model, path, body, error)
            return error_response(path, error)
        for requests in for_verdicts:
            requests.end(model, path, body, None)
        return model_response(reply)

    async def _ask(self, model: str, path: str, body: bytes) -> ModelReply:
        peer = self._peers.get(model)
        if peer is None or model not in self._models:
            raise BugError(f"{self._name}: no model server {model!r}", kind="no_route")
        return await ask_model(peer, path, body, Call().within(self._timeout_s))
