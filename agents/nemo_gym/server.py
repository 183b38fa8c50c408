"""An agent of NeMo-Gym's, unmodified: its process is started here, and plays each rollout by its own code.

Model   the policy's is an endpoint of the rollout's own on loopback, so all calls are turns of the rollout; `serve.py`
        puts it in the place of the model server that the agent's block names.
Reward  the agent's own answer to `/run`, which is that of its resources server, or what it makes of it.
Outcome a row that it refuses (400, 422) is a RowError. What the model, the resources server or a judge failed with is
        the rollout's, whatever the agent made of it. Another failure of its own is an InfraError in doubt: the policy
        may have caused it.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import httpx
import orjson

from paddock.agents.nemo_gym.config import NemoGymAgentConfig
from paddock.agents.nemo_gym.rollouts import RolloutRelay
from paddock.errors import BugError, ConfigError, InfraError, RequestError, RowError, VerifierError
from paddock.http import VERIFY, Call, HttpPeer, ModelReply, Peer, VerifyRequest
from paddock.http.transport import make_client
from paddock.server import AgentServer, Server
from paddock.server.gym_session import GymReply, post
from paddock.server.nemo_gym.environment import find_command
from paddock.server.nemo_gym.process import GymProcess, RestartLimits
from paddock.server.nemo_gym.serve import ENDPOINT
from paddock.server.nemo_gym.settings import in_their_words
from paddock.server.relay_server import ForwardingServer
from paddock.server.rollout import RolloutRun, require_answer
from paddock.server.seat_endpoints import SeatEndpoint, SeatModel, open_endpoint
from paddock.types import JsonObject, Rollout, Row
from paddock.types.responses import is_cut

REFUSED = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)


class NemoGymAgent(AgentServer[NemoGymAgentConfig]):
    config_type = NemoGymAgentConfig
    OPEN_FILES = 10

    def __init__(self, config: NemoGymAgentConfig, *, name: str, peers: Mapping[str, Peer]) -> None:
        super().__init__(config, name=name, peers=peers)
        self._relay = RolloutRelay(name, peers, config)
        self._client: httpx.AsyncClient | None = None
        self._process: GymProcess | None = None

    @classmethod
    def check_references(cls, config: NemoGymAgentConfig, classes: Mapping[str, type[Server[Any]]]) -> None:
        named = config.resources_server.name
        if not issubclass(classes[named], ForwardingServer):
            raise ConfigError(
                f"resources_server: {named} ({classes[named].__name__}) has none of the routes that an agent of "
                "NeMo-Gym's calls: name one of NeMo-Gym's servers",
                kind="reference_invalid",
            )

    async def start(self) -> None:
        config = self.config
        command = await find_command(config)
        await self._relay.start()
        self._client = make_client()
        handover = {
            "config": self._their_config(),
            "name": self.name,
            "entry": config.entrypoint,
            "relay_url": self._relay.url,
            "model_url": self._relay.model_url,
            "ray": config.ray_options(),
        }
        limits = RestartLimits(config.max_restarts, config.restart_wait_s, config.serve_timeout_s)
        self._process = GymProcess(self.name, command, handover, config.env, limits, lambda: None)
        await self._process.start()

    async def stop(self) -> None:
        try:
            if self._process is not None:
                await self._process.stop()
        finally:
            await self._relay.stop()
            if self._client is not None:
                await self._client.aclose()

    async def why_not_ready(self) -> str | None:
        return None if self._process is not None and self._process.is_up else "its process is down"

    @property
    def pid(self) -> int:
        """Of the supervisor of its process; 0: there is none."""
        return self._process.pid if self._process is not None else 0

    async def run(self, row: Row, call: Call) -> Rollout:
        run = RolloutRun(row, call, self.model, timeout_s=self.config.rollout_timeout_s)
        return await run.execute(self._run_stages)

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        raise RequestError("this agent works on rows: a request alone is no task", kind="rows_only")

    async def _run_stages(self, run: RolloutRun) -> None:
        model = SeatModel(self.model, self.config.model_server.name)
        call = Call(deadline=run.call.deadline)
        with self._relay.running(call) as rollout:
            async with open_endpoint(model, run.call, run.secret, self.config.tunnel) as seat:
                with run.stage("model"):
                    reply = await self._ask(run.row, call, seat)
            for stage, seconds in rollout.seconds.items():
                run.shift(seconds, "model", stage)
            failure = next(iter(rollout.requests.failures), seat.tunnel.failure)
            if failure is not None:
                raise failure
        wire = self._read(reply)
        run.response = require_answer(wire["response"])
        run.truncated = is_cut(run.response) or seat.tunnel.overflowed
        read = VERIFY.reply_from_wire
        assert read is not None
        run.verdict = read(VerifyRequest(row=run.row, response=run.response), wire)

    async def _ask(self, row: Row, call: Call, seat: SeatEndpoint) -> GymReply:
        if self._process is None or self._client is None:
            raise BugError(f"{self.name}: was not started", kind="not_started")
        peer = HttpPeer(self.name, self._client, self._process.url, max_reply_bytes=self.config.max_reply_mib << 20)
        base_url = seat.tunnel.base_url.removesuffix("/v1")
        headers = {ENDPOINT: f"{base_url} {seat.key}"}
        return await post(
            peer, {}, "/run", orjson.dumps(row.to_wire()), call, what=f"{self.name}: /run", headers=headers
        )

    def _read(self, reply: GymReply) -> JsonObject:
        said = f"{self.name}: /run: {reply.status_code}: {reply.text[:500]}"
        if reply.status_code in REFUSED:
            raise RowError(said, kind="row_refused")
        if reply.status_code != HTTPStatus.OK:
            raise InfraError(said, kind="agent_failed", doubtful=True)
        try:
            wire = orjson.loads(reply.text)
        except orjson.JSONDecodeError as error:
            raise InfraError(f"{self.name}: /run: no JSON: {error}", kind="reply_unreadable") from error
        if not isinstance(wire, dict) or not isinstance(wire.get("response"), dict):
            raise VerifierError(f"{said}: no answer with a `response`", kind="reply_invalid", stage="verify")
        return wire

    def _their_config(self) -> JsonObject:
        config = self.config
        block = {
            **in_their_words(config.config),
            "entrypoint": config.entrypoint,
            "resources_server": {"type": "resources_servers", "name": config.resources_server.name},
            "model_server": {"type": "responses_api_models", "name": config.model_server.name},
        }
        block.pop("num_workers", None)
        return {
            "head_server": {"host": "127.0.0.1", "port": 0},
            "dry_run": False,
            self.name: {"responses_api_agents": {config.agent: block}},
            **self._relay.blocks(),
        }
