"""Plays turns that are there already: scripts, known-good turns of an environment, or recorded rollouts.

Law     that of `paddock.server.recording_server`: the same request again gets the same turn, while nothing continues
        it. A call that can't be answered plays nothing. Recorded turns have no ids: engine `text`. A turn of a script
        is played once; its items get fresh ids, so that one script may serve any number of rollouts.
Errors  RequestError: `no_rollout` for a call outside a rollout, `no_script` without a script, `script_ended` past its
        end (asking again would not help), those of `recordings`, `frozen`.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from paddock.errors import RequestError
from paddock.http import SCRIPT, Call, Peer, ReplayScript, Route
from paddock.models_servers.replay.config import ReplayConfig
from paddock.models_servers.replay.recordings import Recordings
from paddock.server import Handler
from paddock.server.dialects import Answer, ItemClosed, with_ids
from paddock.server.exchange import Batch
from paddock.server.recording_server import PendingCall, RecordingServer
from paddock.types import Engine, JsonObject
from paddock.types.responses import calls


class Scripts:
    """Scripts by rollout secret, at most `limit` of them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._scripts: OrderedDict[str, tuple[ReplayScript, int]] = OrderedDict()

    def put(self, secret: str, script: ReplayScript) -> None:
        """Replaces an earlier script; the next call plays its first turn."""
        self._scripts[secret] = (script, 0)
        self._scripts.move_to_end(secret)
        while len(self._scripts) > self._limit:
            self._scripts.popitem(last=False)

    def play(self, secret: str) -> list[JsonObject]:
        """The next turn's output items."""
        if secret not in self._scripts:
            raise RequestError("this rollout has no script: PUT /r/<secret>/script comes first", kind="no_script")
        script, next_turn = self._scripts[secret]
        if next_turn >= len(script.turns):
            raise RequestError(
                f"this rollout's script has {len(script.turns)} turns, and all are played", kind="script_ended"
            )
        self._scripts[secret] = (script, next_turn + 1)
        self._scripts.move_to_end(secret)
        return [with_ids(item, fresh=True) for item in script.turns[next_turn]]

    def forget(self, secret: str) -> None:
        self._scripts.pop(secret, None)


class ReplayServer(RecordingServer[ReplayConfig]):
    config_type = ReplayConfig

    def __init__(self, config: ReplayConfig, *, name: str, peers: Mapping[str, Peer]) -> None:
        super().__init__(config, name=name, peers=peers)
        self._scripts = Scripts(config.max_scripts)
        self._recorded: Recordings | None = None

    @property
    def engine_kind(self) -> Engine:
        return "text"

    @property
    def model_name(self) -> str:
        return self.config.model

    async def start(self) -> None:
        await super().start()
        self._recorded = Recordings(self.config.rollouts) if self.config.rollouts else None

    def handlers(self) -> Mapping[Route[Any, Any], Handler]:
        return {**super().handlers(), SCRIPT: self._put_script}

    async def forget(self, secret: str) -> None:
        await super().forget(secret)
        self._scripts.forget(secret)

    async def _put_script(self, script: ReplayScript, call: Call) -> JsonObject:
        self._scripts.put(call.path["secret"], script)
        return {}

    async def sample(self, pending: PendingCall) -> AsyncGenerator[Batch, None]:
        if pending.secret is None:
            raise RequestError(
                "replay answers within rollouts only: call /r/<secret>/v1/..., or bring the secret as API key",
                kind="no_rollout",
            )
        if self.config.delay_s:
            await asyncio.sleep(self.config.delay_s)
        output = self._recorded.play(pending.hash) if self._recorded else self._scripts.play(pending.secret)
        items = [ItemClosed(nth, item) for nth, item in enumerate(output)]
        yield [*items, Answer(output, "tool_calls" if calls(output) else "stop")]
