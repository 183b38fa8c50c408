"""Claims about environments of NeMo-Gym's package that are started from their own published files, unmodified: rollouts
of the agent in the file come to the rewards of their own agent, asked for the same answers.

Source  `nemo-gym` 0.4.0 (`scripts/setup_nemo_gym.sh`), its files `<server>/configs/<server>.yaml` and example rows.
"""

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest
from tests.compat.test_gym_sessions import (
    GymTask,
    ScriptPlayer,
    published,
    rewards_of_theirs,
    rollouts_of,
    workplace_task,
)
from tests.compat.test_nemo_gym import python

from paddock.config import load
from paddock.http import Peer
from paddock.resources_servers.nemo_gym import NemoGymServer
from paddock.server.lifecycle import build_servers
from paddock.testing.transports import over
from paddock.types import JsonObject

__all__ = ["python"]

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

MODEL = {"policy_model": {"models_servers": {"openai": {"base_url": "http://127.0.0.1:1/v1", "model": "m"}}}}
N_CHOICES = 60
N_WORKPLACE = 80


class OwnBlock(NamedTuple):
    """The servers of a published file, over a model that plays scripts."""

    agent: Peer
    url: str
    """Of NeMo-Gym's server, which is asked by their agent too."""


@asynccontextmanager
async def own_block(server: str, tasks: Sequence[GymTask]) -> AsyncIterator[OwnBlock]:
    config = load([f"resources_servers/{server}/configs/{server}.yaml"], extra=MODEL)
    names = [server, f"{server}_simple_agent"]
    peers: dict[str, Peer] = {}
    built = build_servers(config, peers, names)
    gym = built[server]
    assert isinstance(gym, NemoGymServer)
    async with over("direct", *built.values(), ScriptPlayer(tasks, peers)) as at:
        yield OwnBlock(at[names[1]], gym.destination().url)


def choice_task(rows: Sequence[JsonObject], seed: int) -> GymTask:
    draw = random.Random(seed)
    row = rows[seed % len(rows)]
    right = row["expected_answer"]
    letter = draw.choice([right, right, *"ABCDEFGHIJ"])
    form = draw.choice(["Answer: \\boxed{%s}", "Answer: %s", "\\boxed{%s}", "It is %s.", "<answer>%s</answer>", "%s"])
    params = row["responses_create_params"]
    named = [*params["input"][:-1], {"role": "user", "content": f"script {seed}"}]
    return GymTask({**row, "responses_create_params": {**params, "input": named}}, [], form % letter)


@pytest.mark.parametrize("server", ["mcqa", "workplace_assistant"])
async def test_rewards_are_those_of_their_own_agent(server: str, python: str) -> None:
    rows = published(python, server)
    if server == "mcqa":
        tasks, settings = [choice_task(rows, seed) for seed in range(N_CHOICES)], {}
    else:
        tasks, settings = [workplace_task(rows, seed) for seed in range(N_WORKPLACE)], {"max_steps": 6}
    async with own_block(server, tasks) as block:
        ours = await rollouts_of(block.agent, tasks)
        expected = await rewards_of_theirs(python, tasks, block.url, settings)
    assert [rollout.failure for rollout in ours if rollout.failure] == []
    assert [rollout.reward for rollout in ours] == expected
    assert {0.0, 1.0} <= set(expected)
