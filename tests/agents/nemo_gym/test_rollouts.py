"""Claims about rollouts of an agent of NeMo-Gym's in its own process. Runs NeMo-Gym's package.

The resources server is one of NeMo-Gym's form, too, and does what a row's `ask` says.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.resources_servers.nemo_gym.test_outcomes import FOLDER as MISBEHAVING
from tests.resources_servers.nemo_gym.test_outcomes import VARIABLE, JudgeOnCue, is_alive

from paddock.agents.nemo_gym import NemoGymAgent
from paddock.agents.nemo_gym.config import NemoGymAgentConfig
from paddock.errors import ConfigError
from paddock.http import RUN, Call, Peer, read_row
from paddock.models_servers.openai import OpenAIServer
from paddock.resources_servers.nemo_gym import NemoGymServer
from paddock.resources_servers.nemo_gym.config import NemoGymConfig
from paddock.resources_servers.pivot import PivotServer
from paddock.testing.transports import over
from paddock.testing.upstream import ErrorStatus, ScriptedAnswer, ScriptedUpstream
from paddock.types import JsonObject, Rollout

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

FOLDER = Path(__file__).parent / "curious"
N_AT_ONCE = 24
N_PIDS = 4
"""Of the agent, of the resources server, and of a child of each."""
PLACES = {
    "resources_server": {"type": "resources_servers", "name": "gym"},
    "model_server": {"type": "models_servers", "name": "policy"},
}


def last_text(body: JsonObject) -> str:
    content = next(one["content"] for one in body["messages"] if one["role"] == "user")
    return content if isinstance(content, str) else str(content[0]["text"])


def reply(body: JsonObject, _: int) -> ScriptedAnswer:
    """Of the model: what the row said, and how many answers there were before."""
    return ScriptedAnswer(f"{last_text(body)} {len(body['messages'])}")


class CuriousCase:
    """The servers of a test."""

    def __init__(self, children: Path, upstream: ScriptedUpstream) -> None:
        self.peers: dict[str, Peer] = {}
        self.children = children
        self.upstream = upstream
        judged = {"judge_model_server": {"type": "models_servers", "name": "judge"}}
        config = {"children": str(children), **judged}
        block = {
            "agent": "curious",
            "folder": FOLDER,
            "config": config,
            "restart_wait_s": 0.1,
            "rollout_timeout_s": 8,
            **PLACES,
        }
        self.agent = NemoGymAgent(NemoGymAgentConfig.model_validate(block), name="agent", peers=self.peers)
        gym = {"server": "misbehaving", "folder": MISBEHAVING, "config": config, "verify_timeout_s": 2}
        self.gym = NemoGymServer(NemoGymConfig.model_validate(gym), name="gym", peers=self.peers)
        self.judge = JudgeOnCue("judge", self.peers)
        policy = OpenAIServer(
            OpenAIServer.config_type.model_validate({"base_url": upstream.url, "model": "m", "attempts": 1}),
            name="policy",
            peers=self.peers,
        )
        self.servers = (self.agent, self.judge, policy)

    def pids(self) -> list[int]:
        return [int(line) for line in self.children.read_text().split()]

    async def run(self, act: str = "play", text: str = "hello", *, ask: str = "right") -> Rollout:
        row = read_row(
            {"responses_create_params": {"input": [{"role": "user", "content": text}]}, "act": act, "ask": ask}
        )
        return await self.peers["agent"].call(RUN, row, Call())


@pytest.fixture
async def case(tmp_path: Path) -> AsyncIterator[CuriousCase]:
    if not os.environ.get(VARIABLE):
        pytest.skip(f"{VARIABLE} names no interpreter: scripts/setup_nemo_gym.sh makes one")
    async with ScriptedUpstream(reply) as upstream:
        case = CuriousCase(tmp_path / "children", upstream)
        async with over("direct", case.gym), over("direct", *case.servers):
            yield case
    assert [pid for pid in case.pids() if is_alive(pid)] == []


async def test_rollouts_at_once_have_their_own_turns(case: CuriousCase) -> None:
    texts = [f"text {number}" for number in range(N_AT_ONCE)]
    rollouts = await asyncio.gather(*(case.run(text=text) for text in texts))
    for text, rollout in zip(texts, rollouts, strict=True):
        assert (rollout.outcome, rollout.reward) == ("completed", 1.0), rollout.failure
        assert len(rollout.turns) == 2
        assert rollout.response is not None
        assert rollout.response["output"][0]["content"][0]["text"] == f"{text} 3"
        assert rollout.timing.verify_s > 0


OUTCOMES: list[tuple[dict[str, Any], str, str]] = [
    ({"act": "refuse"}, "row", "row_refused"),
    ({"act": "raise"}, "infra", "agent_failed"),
    ({"act": "nan"}, "verifier", "reply_invalid"),
    ({"act": "no_response"}, "verifier", "reply_invalid"),
    ({"act": "die"}, "infra", "connection"),
    ({"act": "hang"}, "infra", "timeout"),
    ({"act": "impatient", "ask": "hang"}, "infra", "unanswered"),
    ({"ask": "refuse"}, "verifier", "verify_failed"),
    ({"ask": "raise"}, "verifier", "verify_failed"),
    ({"ask": "hang"}, "verifier", "verify_failed"),
    ({"ask": "nan"}, "verifier", "reply_invalid"),
]


async def test_each_misdeed_is_an_outcome_and_the_agent_comes_back(case: CuriousCase) -> None:
    for how, outcome, kind in OUTCOMES:
        rollout = await case.run(**how)
        assert rollout.failure is not None, how
        assert (how, rollout.outcome, rollout.failure.kind) == (how, outcome, kind)
        assert rollout.reward is None
        if how.get("act") == "die":
            while len(case.pids()) < N_PIDS + 2 or await case.agent.why_not_ready() is not None:
                await asyncio.sleep(0.05)
    assert (await case.run()).reward == 1.0


async def test_what_failed_beside_the_agent_is_paid_by_nothing_it_makes_of_it(case: CuriousCase) -> None:
    case.upstream.faults = lambda _: ErrorStatus()
    for act in ("swallow", "play"):
        rollout = await case.run(act)
        assert (rollout.outcome, rollout.reward) == ("infra", None)
        assert rollout.failure is not None
        assert "503" in rollout.failure.message
    case.upstream.faults = None
    assert (await case.run("judge")).reward == 1.0
    case.judge.is_down = True
    rollout = await case.run("judge")
    assert rollout.failure is not None
    assert (rollout.reward, rollout.failure.kind) == (None, "engine_down")


def test_a_block_that_can_not_work_is_refused() -> None:
    with pytest.raises(ValueError, match="every rollout is verified here"):
        NemoGymAgentConfig.model_validate({"agent": "a", "config": {"skip_verification": True}, **PLACES})
    config = NemoGymAgentConfig.model_validate({"agent": "a", **PLACES})
    with pytest.raises(ConfigError, match="name one of NeMo-Gym's servers"):
        NemoGymAgent.check_references(config, {"gym": PivotServer})
