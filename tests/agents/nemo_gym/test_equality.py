"""Claims about NeMo-Gym's own agent in its own process: it comes to the rewards that ours has at the same server.

Source  `nemo-gym` 0.4.0 (`scripts/setup_nemo_gym.sh`): `simple_agent` and `example_session_state_mgmt`, unmodified,
        over rows made by seed.
"""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from tests.compat.test_gym_sessions import GymTask, ScriptPlayer, counter_task, rollouts_of

from paddock.agents.nemo_gym import NemoGymAgent
from paddock.agents.nemo_gym.config import NemoGymAgentConfig
from paddock.agents.tools import ToolsAgent
from paddock.agents.tools.config import ToolsAgentConfig
from paddock.config.nemo_gym import PYTHON_VARIABLE
from paddock.http import Peer
from paddock.resources_servers.nemo_gym import NemoGymServer
from paddock.resources_servers.nemo_gym.config import NemoGymConfig
from paddock.testing.transports import over
from paddock.types import JsonObject, Rollout

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

N_ROWS = 200
PLACES = {
    "resources_server": {"type": "resources_servers", "name": "gym"},
    "model_server": {"type": "models_servers", "name": "policy_model"},
}


@asynccontextmanager
async def both_agents(tasks: Sequence[GymTask]) -> AsyncIterator[tuple[Peer, Peer]]:
    """Ours, then theirs."""
    peers: dict[str, Peer] = {}
    ours = ToolsAgent(ToolsAgentConfig.model_validate({**PLACES, "max_turns": 50}), name="ours", peers=peers)
    block = {"agent": "simple_agent", "config": {"max_steps": 50}, **PLACES}
    theirs = NemoGymAgent(NemoGymAgentConfig.model_validate(block), name="theirs", peers=peers)
    gym = NemoGymServer(NemoGymConfig(server="example_session_state_mgmt"), name="gym", peers=peers)
    async with over("direct", ours, theirs, gym, ScriptPlayer(tasks, peers)) as at:
        yield at["ours"], at["theirs"]


def actions(rollout: Rollout) -> list[JsonObject]:
    """What the model did and read, without ids."""
    assert rollout.response is not None
    keys = ("type", "name", "arguments", "output", "content")
    return [
        {key: item[key] for key in keys if key in item and item["type"] != "message"}
        for item in rollout.response["output"]
    ]


async def test_the_same_rows_have_the_same_rewards() -> None:
    if not os.environ.get(PYTHON_VARIABLE):
        pytest.skip(f"{PYTHON_VARIABLE} names no interpreter: scripts/setup_nemo_gym.sh makes one")
    tasks = [counter_task(seed) for seed in range(N_ROWS)]
    async with both_agents(tasks) as (ours, theirs):
        own, their = await rollouts_of(ours, tasks), await rollouts_of(theirs, tasks)
    assert [one.failure for one in their if one.failure is not None] == []
    assert [one.reward for one in own] == [one.reward for one in their]
    assert {one.reward for one in their} == {0.0, 1.0}
    assert len([1 for a, b in zip(own, their, strict=True) if len(actions(a)) == len(actions(b))]) == N_ROWS
