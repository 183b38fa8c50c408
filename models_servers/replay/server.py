"""Plays turns that are there already: scripts, known-good turns of an environment, or recorded rollouts.

Law     a call that can't be answered plays nothing and records nothing. Recorded turns have no ids: engine `text`.
Errors  RequestError: `no_rollout` for a call outside a rollout, those of `scripts` and `recorded`, `frozen`.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from paddock.errors import BugError, RequestError
from paddock.http import SCRIPT, Call, ModelReply, Peer, Route, Script
from paddock.models_servers.replay.config import ReplayConfig
from paddock.models_servers.replay.recorded import Recorded
from paddock.models_servers.replay.scripts import Scripts
from paddock.server import Handler, ModelServer
from paddock.server.dialects import Answer, Dialect, whole_reply
from paddock.tokens import Told, TurnStore, continued_turn, request_hash, rollout_of
from paddock.types import FinishReason, JsonObject, Turn, TurnRecord
from paddock.types.responses import calls, new_id


class ReplayServer(ModelServer[ReplayConfig]):
    config_type = ReplayConfig

    def __init__(self, config: ReplayConfig, *, name: str, peers: Mapping[str, Peer]) -> None:
        super().__init__(config, name=name, peers=peers)
        self._scripts = Scripts(config.max_scripts)
        self._recorded: Recorded | None = None
        self._opened: TurnStore | None = None

    async def start(self) -> None:
        self._recorded = Recorded(self.config.rollouts) if self.config.rollouts else None
        self._opened = self.config.turn_store.open(self.name, "text")

    async def stop(self) -> None:
        if self._opened is not None:
            self._opened.close()

    @property
    def _store(self) -> TurnStore:
        if self._opened is None:
            raise BugError(f"{self.name} was not started", kind="not_started")
        return self._opened

    def handlers(self) -> Mapping[Route[Any, Any], Handler]:
        return {**super().handlers(), SCRIPT: self._put_script}

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        return await self._play("responses", body, call)

    async def chat(self, body: JsonObject, call: Call) -> ModelReply:
        return await self._play("chat", body, call)

    async def turns(self, secret: str) -> TurnRecord:
        return self._store.freeze(secret)

    async def forget(self, secret: str) -> None:
        self._scripts.forget(secret)
        self._store.forget(secret)

    async def _put_script(self, script: Script, call: Call) -> JsonObject:
        self._scripts.put(call.path["secret"], script)
        return {}

    async def _play(self, dialect: Dialect, body: JsonObject, call: Call) -> ModelReply:
        secret = rollout_of(call)
        if secret is None:
            raise RequestError(
                "replay answers within rollouts only: call /r/<secret>/v1/..., or bring the secret as API key",
                kind="no_rollout",
            )
        self._store.require_open(secret)
        asked, told = request_hash(body), Told.of(body)
        if self.config.delay_s:
            await asyncio.sleep(self.config.delay_s)
        output = self._recorded.play(asked) if self._recorded else self._scripts.play(secret)
        finish_reason: FinishReason = "tool_calls" if calls(output) else "stop"
        self._store.append(
            secret,
            Turn(
                id=new_id("turn"),
                parent=continued_turn(self._store.turns(secret), self._store.histories(secret), told),
                prompt_ids=None,
                sampled_ids=None,
                log_probs=None,
                weight_version=None,
                finish_reason=finish_reason,
                request_hash=asked,
                output=output,
            ),
            told.digest,
        )
        return whole_reply(dialect, Answer(output, finish_reason), body, model=self.config.model)
