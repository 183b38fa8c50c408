"""vLLM as an exact model server: prompts built from recorded ids, answers recorded as ids with their log-probs.

Law     that of `paddock.server.exact`. In a process of its own, under the interpreter of the environment that has vLLM
        (`python`): what reads its answers is vLLM's own code. Rollout workers have theirs in process (`worker_server`).
Routes  those of every model server, and those of a trainer, which ask for the server's token like the others:
        `GET /replicas`, and `/replicas/NAME/CALL` for the calls of vLLM that go with new weights. So vLLMs of our own,
        whose routes for weights ask for no key, listen on loopback alone, wherever the trainer is. `GET /engines` is
        for other model servers on this machine (`shared_replicas`).
Errors  those of `engine`, `replicas`, `parsing`; ConfigError for a tokenizer or chat template that can't be used.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal

from paddock.errors import InfraError, RequestError
from paddock.http import Call, Route
from paddock.models_servers.vllm.config import VllmConfig
from paddock.models_servers.vllm.engine import VllmEngine
from paddock.models_servers.vllm.parsing import VllmParsers
from paddock.models_servers.vllm.shared_replicas import ENGINES_PATH
from paddock.server.base import Handler
from paddock.server.exact import Equipment, ExactServer
from paddock.server.exact.language import load_language
from paddock.types import JsonObject

REPLICAS: Route[JsonObject, JsonObject] = Route(
    "GET",
    "/replicas",
    "The vLLM servers: where a trainer sends weights, and which they have; no key of theirs is shown",
)
ENGINES: Route[JsonObject, JsonObject] = Route(
    "GET",
    ENGINES_PATH,
    "The vLLM servers, where they are and in what state, for model servers that ask them too",
)
CALLS = {
    "GET": ("health", "get_world_size"),
    "POST": (
        *(
            "sleep",
            "wake_up",
            "pause",
            "resume",
            "update_weight_version",
            "init_weight_transfer_engine",
            "start_weight_update",
        ),
        *("update_weights", "finish_weight_update", "shutdown_weight_transfer_engine"),
    ),
}
"""The calls of vLLM that are passed on."""
CALL_TIMEOUT_S = 3600.0
"""For one of them; the trainer's own limits are shorter."""


def _passed_on(method: Literal["GET", "POST"]) -> Route[JsonObject, JsonObject]:
    return Route(
        method,
        "/replicas/{name}/{call}",
        "A trainer's call of one vLLM, passed on; the body of a pause, a sleep and a waking as its query",
        replayable=False,
    )


CONTROL = [_passed_on("GET"), _passed_on("POST")]


class VllmServer(ExactServer[VllmConfig]):
    OWN_PROCESS: ClassVar[bool] = True
    SHARED: ClassVar[bool] = True
    config_type = VllmConfig
    _engine: VllmEngine | None = None

    @property
    def model_name(self) -> str:
        return self.config.model

    async def equip(self) -> Equipment:
        config = self.config
        language = load_language(config, self.name)
        parsers = await asyncio.to_thread(
            VllmParsers,
            config.tokenizer_folder,
            tool_parser=config.tool_parser,
            reasoning_parser=config.reasoning_parser,
            chat_template_kwargs=config.chat_template_kwargs,
        )
        self._engine = VllmEngine(config, name=self.name)
        return Equipment(self._engine, language.vocabulary, language.prompter, parsers)

    def handlers(self) -> Mapping[Route[Any, Any], Handler]:
        passed_on = {route: partial(self._control, route.method) for route in CONTROL}
        return {**super().handlers(), REPLICAS: self._replicas, ENGINES: self._engines, **passed_on}

    async def _replicas(self, _body: JsonObject, _call: Call) -> JsonObject:
        return {"replicas": await self._engine.replicas.describe() if self._engine is not None else []}

    async def _engines(self, _body: JsonObject, _call: Call) -> JsonObject:
        replicas = self._engine.replicas.all if self._engine is not None else []
        return {"engines": [replica.place() for replica in replicas]}

    async def _control(self, method: str, body: JsonObject, call: Call) -> JsonObject:
        name, path = call.path["name"], call.path["call"]
        if path not in CALLS[method]:
            raise RequestError(f"{method} {path}: not a call for new weights", kind="control_unknown")
        if self._engine is None:
            raise InfraError(f"{self.name} has not started", kind="not_started")
        replica = self._engine.replicas.named(name)
        return await replica.control(method, path, body, CALL_TIMEOUT_S)
