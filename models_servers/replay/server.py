"""Plays scripted turns: an engine that is right on cue. Validates environments without a model.

Script  `PUT /r/<secret>/script` says what one rollout's calls are answered with: output items, one list per turn.
        A call past the script's end, or in a rollout without one, is RequestError (kinds `script_ended`, `no_script`).
Record  each answer is a turn, without ids (engine `text`); ids of items are minted afresh at every answer.
"""

import asyncio
import hashlib
import tempfile
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from pydantic import Field

from paddock.errors import RequestError
from paddock.http import SCRIPT, Call, ModelReply, Route, Script
from paddock.server import Handler, ModelServer, ServerConfig
from paddock.tokens import TurnStore, TurnStoreConfig
from paddock.types import JsonObject, Turn, TurnRecord
from paddock.types.responses import make_response, new_id

ID_PREFIX = {"message": "msg", "function_call": "fc", "reasoning": "rs", "custom_tool_call": "ctc"}


class ReplayConfig(ServerConfig):
    model: str = "replay"
    """The model name in its answers."""
    delay_s: float = Field(default=0.0, ge=0)
    """Seconds before each answer."""
    max_scripts: int = Field(default=100_000, ge=1)
    """Scripts kept; the oldest go first."""
    turn_store: TurnStoreConfig = TurnStoreConfig()


class ReplayServer(ModelServer[ReplayConfig]):
    config_type = ReplayConfig

    async def start(self) -> None:
        self._scripts: OrderedDict[str, list[list[JsonObject]]] = OrderedDict()
        self._temporary = tempfile.TemporaryDirectory(prefix="paddock-turns-")
        folder = Path(self.config.turn_store.folder or self._temporary.name)
        self._store = TurnStore(folder, engine="text", config=self.config.turn_store)

    async def stop(self) -> None:
        if hasattr(self, "_temporary"):
            self._temporary.cleanup()

    def handlers(self) -> Mapping[Route[Any, Any], Handler]:
        return {**super().handlers(), SCRIPT: self.script}

    async def script(self, script: Script, call: Call) -> JsonObject:
        """Replaces the rollout's script."""
        self._scripts[call.path["secret"]] = script.turns
        while len(self._scripts) > self.config.max_scripts:
            self._scripts.popitem(last=False)
        return {"turns": len(script.turns)}

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        secret = call.path.get("secret") or call.bearer or ""
        items = [_fresh(item) for item in self._next(secret)]
        if self.config.delay_s:
            await asyncio.sleep(self.config.delay_s)
        turns = self._store.turns(secret)
        turn = Turn(
            id=new_id("turn"),
            parent=turns[-1].id if turns else None,
            prompt_ids=None,
            sampled_ids=None,
            log_probs=None,
            weight_version=None,
            finish_reason="tool_calls" if any("call_id" in item for item in items) else "stop",
            request_hash=hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest(),
            output=items,
        )
        self._store.append(secret, turn)
        return make_response(items, body, model=self.config.model)

    async def turns(self, secret: str) -> TurnRecord:
        return self._store.freeze(secret)

    async def forget(self, secret: str) -> None:
        self._scripts.pop(secret, None)
        self._store.forget(secret)

    def _next(self, secret: str) -> list[JsonObject]:
        script = self._scripts.get(secret)
        if script is None:
            raise RequestError("this rollout has no script: PUT /r/<secret>/script gives it one", kind="no_script")
        played = len(self._store.turns(secret))
        if played >= len(script):
            raise RequestError(f"the script has {len(script)} turns, all of them played", kind="script_ended")
        return script[played]


def _fresh(item: JsonObject) -> JsonObject:
    """The item under an id of this answer; a call keeps its call id when it has one."""
    kind = str(item.get("type", "message"))
    fresh = {**item, "id": new_id(ID_PREFIX.get(kind, "item"))}
    if kind in ("function_call", "custom_tool_call") and not item.get("call_id"):
        fresh["call_id"] = new_id("call")
    return fresh
