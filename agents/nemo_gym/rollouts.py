"""What an agent of NeMo-Gym's asks of servers of ours in its rollouts, beside the policy's model, and what failed.

Law     a request that failed, and did not succeed another time, or has no answer when the rollout ends, is its failure,
        whatever the agent makes of it. A request that names no rollout that runs is refused.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus

import orjson
from starlette.requests import Request
from starlette.responses import Response

from paddock.agents.nemo_gym.config import NemoGymAgentConfig
from paddock.errors import BugError, PaddockError, RequestError
from paddock.http import Call, Peer
from paddock.http.client import REQUEST_ID
from paddock.server.nemo_gym.calls import GYM_CALL, GymCall
from paddock.server.nemo_gym.relay import LoopbackRelay, OpenRequests, ask_model, error_response, model_response
from paddock.server.rollout import Stage
from paddock.types import JsonObject


class GymRollout:
    """One rollout of the agent's while it runs."""

    def __init__(self, call: Call) -> None:
        self.call = call
        """Of its `/run`: the deadline is that of all it asks for."""
        self.seconds: dict[Stage, float] = {"tools": 0.0, "verify": 0.0}
        """What its requests to the resources server took."""
        self.epoch: int | None = None
        self.requests = OpenRequests()


class RolloutRelay:
    """The way to the servers, by the names that the agent's block has for them."""

    def __init__(self, name: str, peers: Mapping[str, Peer], config: NemoGymAgentConfig) -> None:
        self._name = name
        self._peers = peers
        self._config = config
        self._relay = LoopbackRelay(name, self._answer)
        self._running: dict[str, GymRollout] = {}

    async def start(self) -> None:
        await self._relay.start()

    async def stop(self) -> None:
        await self._relay.stop()

    @property
    def url(self) -> str:
        return self._relay.url

    @property
    def model_url(self) -> str:
        """Where it asks for the policy's answers, before its process puts the rollout's own endpoint in that place."""
        return f"{self.url}/{self._config.model_server.name}"

    def blocks(self) -> JsonObject:
        """The servers as blocks of NeMo-Gym's."""
        config = self._config
        models = dict.fromkeys([config.model_server.name, *config.models])
        return {
            config.resources_server.name: self._relay.block(config.resources_server.name, "resources_servers"),
            **{name: self._relay.block(name, "responses_api_models") for name in models},
        }

    @contextmanager
    def running(self, call: Call) -> Iterator[GymRollout]:
        """While a rollout runs, by the id of its `/run`."""
        rollout = self._running[call.request_id] = GymRollout(call)
        try:
            yield rollout
        finally:
            del self._running[call.request_id]

    async def _answer(self, request: Request) -> Response:
        server, path, body = request.path_params["server"], request.path_params["path"], await request.body()
        rollout = self._running.get(request.headers.get(REQUEST_ID, ""))
        if rollout is None:
            text = f"{self._name}: {server}{path}: asked for in no rollout that runs"
            return error_response(path, BugError(text, kind="no_rollout"))
        rollout.requests.begin(server, path, body)
        try:
            response = await self._reply(rollout, request, body)
        except PaddockError as error:
            rollout.requests.end(server, path, body, error)
            return error_response(path, error)
        rollout.requests.end(server, path, body, None)
        return response

    async def _reply(self, rollout: GymRollout, request: Request, body: bytes) -> Response:
        server, path = request.path_params["server"], request.path_params["path"]
        if server == self._config.resources_server.name:
            return await self._of_resources(rollout, path, body, request.headers.get("cookie", ""))
        if server not in self._config.models:
            raise BugError(f"{self._name}: no server {server!r} for it", kind="no_route")
        call = Call(deadline=rollout.call.deadline).within(self._config.model_timeout_s)
        return model_response(await ask_model(self._peers[server], path, body, call))

    async def _of_resources(self, rollout: GymRollout, path: str, body: bytes, cookies: str) -> Response:
        try:
            wire = orjson.loads(body) if body else {}
        except orjson.JSONDecodeError as error:
            raise RequestError(f"no JSON: {error}", kind="request_invalid") from error
        asked = GymCall(path=path, body=wire, cookies=_read_cookies(cookies), epoch=rollout.epoch)
        peer, started = self._peers[self._config.resources_server.name], time.monotonic()
        try:
            reply = await peer.call(GYM_CALL, asked, Call(deadline=rollout.call.deadline))
        finally:
            rollout.seconds["verify" if path == "/verify" else "tools"] += time.monotonic() - started
        rollout.epoch = reply.epoch
        response = Response(reply.body, status_code=HTTPStatus(reply.status), media_type="application/json")
        for name, value in reply.cookies.items():
            response.headers.append("set-cookie", f"{name}={value}; Path=/")
        return response


def _read_cookies(header: str) -> dict[str, str]:
    """Names and values as they stand in the header: a signed value must not change."""
    pairs = (part.strip().partition("=") for part in header.split(";"))
    return {name: value for name, equals, value in pairs if equals}
