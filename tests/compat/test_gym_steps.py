"""Claims about stepped servers of NeMo-Gym's form, unmodified: our agent and theirs come to the same episodes.

Source  `nemo-gym` 0.4.0 (`scripts/setup_nemo_gym.sh`): its `gymnasium_agent`, its `example_multi_turn_gymnasium`, and a
        game on its base of stepped servers (`stepped_game.py`), with calls, refusals and ends of each kind.
Answers are scripts, one answer a turn, made by seed.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from typing import Any, NamedTuple

import pytest
from tests.compat.test_nemo_gym import python, theirs

from paddock.agents.tools import ToolsAgent
from paddock.agents.tools.config import ToolsAgentConfig
from paddock.http import RUN, Call, HttpPeer, ModelReply, Peer, read_row
from paddock.http.transport import make_client
from paddock.resources_servers.external import ExternalServer
from paddock.resources_servers.external.server import ExternalConfig
from paddock.server import ModelServer, ServerConfig
from paddock.testing.transports import over
from paddock.types import JsonObject, Rollout, TurnRecord
from paddock.types.responses import call_item, content_text, make_response, message_item

__all__ = ["python"]

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

GAME = "stepped_game:CountingGame"
TALK = "resources_servers.example_multi_turn_gymnasium.app:ExampleMultiTurnEnv"
AGENT = "responses_api_agents.gymnasium_agent.app:GymnasiumAgent"
N_TASKS = 120
MAX_TURNS = 5
REFUSED = "I would rather not."


class EpisodeTask(NamedTuple):
    """A row, and what the model answers in it, turn by turn."""

    row: JsonObject
    turns: Sequence[Sequence[JsonObject]]


def task(seed: int, row: JsonObject, turns: Sequence[Sequence[JsonObject]]) -> EpisodeTask:
    params = {"input": [{"role": "system", "content": f"script {seed}"}, {"role": "user", "content": "Begin."}]}
    return EpisodeTask({"responses_create_params": params, **row}, turns)


def game_task(seed: int) -> EpisodeTask:
    draw = random.Random(seed)
    turns: list[list[JsonObject]] = []
    for _ in range(MAX_TURNS + 3):
        by = [draw.randint(1, 4) for _ in range(draw.choice([1, 1, 2]))]
        said = [message_item(str(by[0]))]
        turns.append(draw.choice([said, [call_item("add", f'{{"by": {one}}}', f"call_{seed}_{one}") for one in by]]))
    return task(seed, {"goal": draw.randint(2, 16), "speaks": draw.random() < 0.5}, turns)


def talk_task(seed: int) -> EpisodeTask:
    draw = random.Random(seed)
    row = {"follow_ups": [f"And {n}?" for n in range(draw.randint(0, 6))], "expected_answer": "seven"}
    answers = [draw.choice(["Seven.", "It is eight.", "sevenfold", ""]) for _ in range(8)]
    return task(seed, row, [[message_item(text)] for text in answers])


class EpisodePlayer(ModelServer[ServerConfig]):
    """Answers as the task says that the conversation names."""

    def __init__(self, tasks: Sequence[EpisodeTask], peers: dict[str, Peer]) -> None:
        super().__init__(ServerConfig(), name="policy_model", peers=peers)
        self.seen: dict[int, list[str]] = {}
        """By task: the texts of the last request's items."""
        self._tasks = tasks
        self._answered: dict[int, int] = {}

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        number = int(content_text(body["input"][0]["content"]).removeprefix("script "))
        turn = self._answered[number] = self._answered.get(number, -1) + 1
        self.seen[number] = [_text(item) for item in body["input"]]
        return make_response(self._tasks[number].turns[turn], body, model="script")

    async def turns(self, secret: str) -> TurnRecord:
        return TurnRecord(engine="text", turns=[])

    async def forget(self, secret: str) -> None:
        return None


def _text(item: JsonObject) -> str:
    return str(item.get("output") or item.get("arguments") or content_text(item.get("content")))


class Episode(NamedTuple):
    reward: float | None
    truncated: bool
    seen: list[str]


@asynccontextmanager
async def our_agent(tasks: Sequence[EpisodeTask], url: str) -> AsyncIterator[tuple[Peer, EpisodePlayer]]:
    peers: dict[str, Peer] = {}
    config = ToolsAgentConfig.model_validate(
        {
            "resources_server": {"type": "resources_servers", "name": "gym"},
            "model_server": {"type": "models_servers", "name": "policy_model"},
            "environment_steps": True,
            "max_turns": MAX_TURNS,
        }
    )
    gym, player = ExternalServer(ExternalConfig(base_url=url), name="gym", peers=peers), EpisodePlayer(tasks, peers)
    async with over("direct", ToolsAgent(config, name="agent", peers=peers), gym, player) as at:
        yield at["agent"], player


async def episodes_of_ours(tasks: Sequence[EpisodeTask], url: str) -> list[Episode]:
    async with our_agent(tasks, url) as (agent, player):
        rollouts = await asyncio.gather(*(agent.call(RUN, read_row(one.row), Call()) for one in tasks))
    assert [rollout.failure for rollout in rollouts if rollout.failure] == []
    return [_episode(rollout, player.seen[nth]) for nth, rollout in enumerate(rollouts)]


def _episode(rollout: Rollout, seen: list[str]) -> Episode:
    assert rollout.verdict is not None
    truncated = rollout.verdict.extras["truncated"]
    assert (rollout.outcome == "truncated") == truncated
    assert rollout.verdict.metrics == {"steps": rollout.response["harness"]["turns"]} if rollout.response else False
    return Episode(rollout.reward, truncated, seen)


async def episodes_of_theirs(python: str, tasks: Sequence[EpisodeTask], gym: str) -> list[Episode]:
    config: Any = {
        "name": "agent",
        "resources_server": {"type": "resources_servers", "name": "gym"},
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
        "max_steps": MAX_TURNS,
    }
    player = EpisodePlayer(tasks, {})
    async with over("http", player) as at:
        model = at["policy_model"]
        assert isinstance(model, HttpPeer)
        with ExitStack() as stack:
            places = {"gym": gym, "policy_model": model.base_url}
            url = await asyncio.to_thread(stack.enter_context, theirs(python, AGENT, config, places))
            async with make_client() as client:
                replies = [(await client.post(f"{url}/run", json=one.row, timeout=60)).json() for one in tasks]
    return [Episode(one["reward"], one["truncated"], player.seen[nth]) for nth, one in enumerate(replies)]


@pytest.mark.parametrize("server", [GAME, TALK])
async def test_episodes_are_those_of_their_own_agent(python: str, server: str) -> None:
    tasks = [(game_task if server == GAME else talk_task)(seed) for seed in range(N_TASKS)]
    with ExitStack() as stack:
        url = await asyncio.to_thread(
            stack.enter_context, theirs(python, server, {"name": "gym", "domain": "games"}, {})
        )
        ours = await episodes_of_ours(tasks, url)
        assert ours == await episodes_of_theirs(python, tasks, url)
    assert {True, False} == {one.truncated for one in ours}
    assert len({one.reward for one in ours}) > (1 if server == TALK else 5)


async def test_an_answer_that_is_no_action_is_told_to_the_model(python: str) -> None:
    turns = [[message_item(REFUSED)], [message_item("3")]]
    with ExitStack() as stack:
        url = await asyncio.to_thread(stack.enter_context, theirs(python, GAME, {"name": "gym", "domain": "games"}, {}))
        async with our_agent([task(0, {"goal": 3, "speaks": True}, turns)], url) as (agent, player):
            rollout = await agent.call(RUN, read_row(task(0, {"goal": 3, "speaks": True}, turns).row), Call())
    assert (rollout.outcome, rollout.reward) == ("completed", 0.9)
    assert player.seen[0] == ["script 0", "Begin.", "Count to 3.", REFUSED, '{"detail":"Say a number, or call `add`."}']
    assert rollout.response is not None
    assert rollout.response["harness"]["malformed"] == {"bad_arguments": 1}
