"""A resources server of NeMo-Gym's, unmodified: its process is started here, and each call is passed on to it.

Law     it judges as it does with its own agent; a hang, a crash, a death or a judge that gave no answer is an outcome,
        never a reward. A server that was started again has lost its sessions: theirs end with `session_lost`.
Ray     is started for a server whose files import it, on loopback, and ends with it; no other has one.
"""

from collections.abc import Mapping, Sequence

from paddock.errors import InfraError, VerifierError
from paddock.http import Call, HttpPeer, Peer, SessionStep, SessionStepResult, VerifyRequest
from paddock.resources_servers.nemo_gym.config import NemoGymConfig
from paddock.resources_servers.nemo_gym.judges import JudgeRelay
from paddock.server.gym_steps import SteppedSession
from paddock.server.nemo_gym.calls import GymCall, GymCallReply
from paddock.server.nemo_gym.environment import find_command
from paddock.server.nemo_gym.process import GymProcess, RestartLimits
from paddock.server.nemo_gym.settings import in_their_words
from paddock.server.relay_server import Destination, ForwardingServer
from paddock.types import JsonObject, Verdict

BAD_ANSWERS = ("peer_status", "timeout", "reply_unreadable", "reply_too_large")
"""Kinds of failures of a server that was there to judge."""


class NemoGymServer(ForwardingServer[NemoGymConfig]):
    SHARED = True
    config_type = NemoGymConfig

    def __init__(self, config: NemoGymConfig, *, name: str, peers: Mapping[str, Peer]) -> None:
        super().__init__(config, name=name, peers=peers)
        self._judges = JudgeRelay(name, peers, config.models, timeout_s=config.judge_timeout_s)
        self._process: GymProcess | None = None

    async def start(self) -> None:
        await super().start()
        config = self.config
        command = await find_command(config)
        await self._judges.start()
        handover = {
            "config": self._their_config(),
            "name": self.name,
            "entry": config.entrypoint,
            "relay_url": self._judges.url,
            "model_url": "",
            "ray": config.ray_options(),
        }
        limits = RestartLimits(config.max_restarts, config.restart_wait_s, config.serve_timeout_s)
        self._process = GymProcess(self.name, command, handover, config.env, limits, self.forget_sessions)
        await self._process.start()

    async def stop(self) -> None:
        try:
            if self._process is not None:
                await self._process.stop()
        finally:
            await self._judges.stop()
            await super().stop()

    async def why_not_ready(self) -> str | None:
        return None if self._process is not None and self._process.is_up else "its process is down"

    @property
    def pid(self) -> int:
        """Of the supervisor of its process; 0: there is none."""
        return self._process.pid if self._process is not None else 0

    def destination(self) -> Destination:
        if self._process is None:
            raise InfraError(f"{self.name}: was not started", kind="server_down", retryable=False)
        return Destination(self._process.url, None)

    async def judge(self, peer: HttpPeer, request: VerifyRequest, call: Call) -> Verdict:
        with self._judges.judged(call.request_id) as requests:
            try:
                verdict = await super().judge(peer, request, call.within(self.config.verify_timeout_s))
            except InfraError as error:
                if error.kind not in BAD_ANSWERS and not requests.texts:
                    raise
                texts = "; ".join([*requests.texts, error.message])
                raise VerifierError(f"{self.name}: {texts}", kind="verify_failed", stage="verify") from error
        self._require_judges(requests.texts, stage="verify")
        return verdict

    async def take_step(self, session: SteppedSession, request: SessionStep, call: Call) -> SessionStepResult:
        with self._judges.judged(call.request_id) as requests:
            result = await super().take_step(session, request, call)
        self._require_judges(requests.texts, stage="tools")
        return result

    async def pass_gym_call(self, request: GymCall, call: Call) -> GymCallReply:
        """Also for their verdict, which has the time of one."""
        is_verdict = request.path == "/verify"
        with self._judges.judged(call.request_id) as requests:
            reply = await super().pass_gym_call(
                request, call.within(self.config.verify_timeout_s) if is_verdict else call
            )
        self._require_judges(requests.texts, stage="verify" if is_verdict else "tools")
        return reply

    def _require_judges(self, failures: Sequence[str], *, stage: str) -> None:
        if failures:
            text = f"{self.name}: a judge gave no answer: {'; '.join(failures)}"
            raise VerifierError(text, kind="judge_failed", stage=stage)

    def _their_config(self) -> JsonObject:
        urls = {key: f"{self._judges.url}/{one.name}/v1" for key, one in self.config.model_urls.items()}
        block = {"domain": "other", **in_their_words(self.config.config), **urls, "entrypoint": self.config.entrypoint}
        block.pop("num_workers", None)
        return {
            "head_server": {"host": "127.0.0.1", "port": 0},
            "dry_run": False,
            self.name: {"resources_servers": {self.config.server: block}},
            **self._judges.blocks(),
        }
