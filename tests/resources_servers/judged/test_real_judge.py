"""A judge of random weights, served by a real vLLM: what it says has no verdict, and pays nobody."""

from pathlib import Path
from typing import Any

import pytest
from tests.models_servers.vllm.conftest import SmallVllm

from paddock.agents.single_step import SingleStepAgent
from paddock.agents.single_step.server import SingleStepConfig
from paddock.http import RUN, Call, DirectPeer, ModelReply, Peer, Route, read_row
from paddock.models_servers.vllm.server import VllmServer
from paddock.resources_servers.judged import JudgedServer
from paddock.resources_servers.judged.make_rows import make_rows
from paddock.resources_servers.judged.server import JudgedConfig
from paddock.server import ModelServer, ServerConfig
from paddock.testing import over
from paddock.types import JsonObject, TurnRecord
from paddock.types.responses import make_response, message_item

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(900)]
TRIES = 3


class FixedAnswer(ModelServer[ServerConfig]):
    """A policy that always says the same."""

    text = ""

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        return make_response([message_item(self.text)], body, model="m")

    async def turns(self, secret: str) -> TurnRecord:
        return TurnRecord(engine="text", turns=[])

    async def forget(self, secret: str) -> None:
        return None


class NotedPeer:
    """A peer whose requests and answers are noted."""

    def __init__(self, peer: Peer) -> None:
        self.name = peer.name
        self.noted: list[tuple[JsonObject, JsonObject]] = []
        self._peer = peer

    async def call(self, route: Route[Any, Any], request: Any, call: Call, **path: str) -> Any:
        reply = await self._peer.call(route, request, call, **path)
        self.noted.append((request, reply))
        return reply


async def test_nonsense_is_asked_for_again_and_then_the_verifiers_failure(vllm_python: str, tmp_path: Path) -> None:
    vllm = SmallVllm(tmp_path, vllm_python)
    peers: dict[str, Peer] = {}
    launch = {"kv_cache_gib": 1, "max_model_len": 8192, "max_num_seqs": 8, "dtype": "float32", "enforce_eager": True}
    engine = {"model": str(vllm.model), "launch": {**launch, "python": vllm_python, "folder": tmp_path / "logs"}}
    judge = VllmServer(VllmServer.config_type.model_validate(engine), name="judge", peers=peers)
    asked = {"model_server": {"type": "models_servers", "name": "judge"}, "max_unusable": TRIES - 1}
    config = JudgedConfig.model_validate({"judge": {**asked, "max_output_tokens": 48}})
    places = {
        "resources_server": {"type": "resources_servers", "name": "judged"},
        "model_server": {"type": "models_servers", "name": "policy"},
    }
    agent = SingleStepAgent(SingleStepConfig.model_validate(places), name="agent", peers=peers)
    policy = FixedAnswer(ServerConfig(), name="policy", peers=peers)
    async with over("direct", JudgedServer(config, name="judged", peers=peers), judge, policy, agent) as found:
        peers.update(found)
        noted = peers["judge"] = NotedPeer(DirectPeer("judge", judge.handlers))
        for line, text in zip(make_rows(4, 3), ("It may be.", "[[A=B]]", "x\n[[A=B]]\n[[A=B]]", "Equal."), strict=True):
            policy.text = text
            rollout = await found["agent"].call(RUN, read_row(line), Call())
            assert rollout.failure is not None
            assert (rollout.outcome, rollout.reward, rollout.failure.kind) == ("verifier", None, "judge_unusable")
            tries = [(request.get("metadata") or {}).get("try") for request, _ in noted.noted]
            assert tries == [None, "1", "2"]
            assert any(reply["usage"]["output_tokens"] > 1 for _, reply in noted.noted), "a real model has answered"
            noted.noted.clear()
        policy.text = str(next(iter(make_rows(1, 3)))["expected_answer"])
        rollout = await found["agent"].call(RUN, read_row(next(iter(make_rows(1, 3)))), Call())
        assert (rollout.outcome, rollout.reward, noted.noted) == ("completed", 1.0, [])
