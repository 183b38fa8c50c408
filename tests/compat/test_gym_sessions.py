"""Claims about tool environments of NeMo-Gym's package, unmodified: our agent and theirs come to the same reward.

Source  `nemo-gym` 0.4.0 (`scripts/setup_nemo_gym.sh`): `example_session_state_mgmt`, over rows made by seed, and
        `workplace_assistant`, over the rows that are published with it.
Answers are scripts of tool calls, one a turn: right ones, and ones with calls that are missing, doubled or wrong.
"""

import asyncio
import json
import random
import subprocess
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

COUNTER = "resources_servers.example_session_state_mgmt.app:StatefulCounterResourcesServer"
WORKPLACE = "resources_servers.workplace_assistant.app:WorkbenchResourcesServer"
AGENT = "responses_api_agents.simple_agent.app:SimpleAgent"
N_COUNTER = 100
N_WORKPLACE = 120
COUNTER_TOOLS = [
    {
        "type": "function",
        "name": name,
        "description": "",
        "strict": True,
        "parameters": {"type": "object", "properties": arguments, "required": [*arguments]},
    }
    for name, arguments in (("increment_counter", {"count": {"type": "integer"}}), ("get_counter_value", {}))
]
WRONG_CALLS = (
    ("increment_counter", '{"count": '),
    ("increment_counter", '{"count": "many"}'),
    ("increment_counter", "[]"),
    ("decrement_counter", '{"count": 1}'),
)


class GymTask(NamedTuple):
    """A row, and the calls that the model makes in it."""

    row: JsonObject
    calls: Sequence[tuple[str, str]]
    text: str = "Done."
    """The message after them."""


def counter_task(seed: int) -> GymTask:
    draw = random.Random(seed)
    steps = [draw.randint(-3, 9) for _ in range(draw.randint(1, 4))]
    calls = [("increment_counter", json.dumps({"count": step})) for step in steps]
    for wrong in draw.sample(WRONG_CALLS, draw.randint(0, 2)):
        calls.insert(draw.randint(0, len(calls)), wrong)
    calls.append(("get_counter_value", "{}"))
    start, off = draw.randint(0, 5), draw.choice([0, 0, 1])
    row = {
        "responses_create_params": {"input": [{"role": "user", "content": f"script {seed}"}], "tools": COUNTER_TOOLS},
        "initial_count": start,
        "expected_count": start + sum(steps) + off,
    }
    return GymTask(row, calls)


def workplace_task(rows: Sequence[JsonObject], seed: int) -> GymTask:
    draw = random.Random(seed)
    row = rows[seed % len(rows)]
    calls = [(str(one["name"]), str(one["arguments"])) for one in row["ground_truth"]]
    change = draw.choice(["none", "none", "drop", "double", "shuffle", "value"])
    nth = draw.randrange(len(calls))
    if change == "drop":
        del calls[nth]
    elif change == "double":
        calls.insert(nth, calls[nth])
    elif change == "shuffle":
        draw.shuffle(calls)
    elif change == "value":
        arguments = json.loads(calls[nth][1])
        arguments[draw.choice(sorted(arguments))] = "something else"
        calls[nth] = (calls[nth][0], json.dumps(arguments))
    params = row["responses_create_params"]
    named = [*params["input"][:-1], {"role": "user", "content": f"script {seed}"}]
    return GymTask({**row, "responses_create_params": {**params, "input": named}}, calls)


class ScriptPlayer(ModelServer[ServerConfig]):
    """Makes the calls of the task that the conversation names, one a turn, by what was answered so far."""

    def __init__(self, tasks: Sequence[GymTask], peers: dict[str, Peer]) -> None:
        super().__init__(ServerConfig(), name="policy_model", peers=peers)
        self._tasks = tasks

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        items = body["input"]
        named = next(one for one in reversed(items) if one.get("role") == "user")
        task = self._tasks[int(content_text(named["content"]).removeprefix("script "))]
        done = sum(one.get("type") == "function_call_output" for one in items)
        turn = call_item(*task.calls[done]) if done < len(task.calls) else message_item(task.text)
        return make_response([turn], body, model="script")

    async def turns(self, secret: str) -> TurnRecord:
        return TurnRecord(engine="text", turns=[])

    async def forget(self, secret: str) -> None:
        return None


@asynccontextmanager
async def our_agent(tasks: Sequence[GymTask], url: str) -> AsyncIterator[Peer]:
    peers: dict[str, Peer] = {}
    places = {
        "resources_server": {"type": "resources_servers", "name": "gym"},
        "model_server": {"type": "models_servers", "name": "policy_model"},
    }
    agent = ToolsAgent(ToolsAgentConfig.model_validate({**places, "max_turns": 50}), name="agent", peers=peers)
    gym = ExternalServer(ExternalConfig(base_url=url), name="gym", peers=peers)
    async with over("direct", agent, gym, ScriptPlayer(tasks, peers)) as at:
        yield at["agent"]


async def rewards_of_ours(tasks: Sequence[GymTask], url: str) -> list[Rollout]:
    async with our_agent(tasks, url) as agent:
        return await rollouts_of(agent, tasks)


async def rollouts_of(agent: Peer, tasks: Sequence[GymTask]) -> list[Rollout]:
    slots = asyncio.Semaphore(8)

    async def run(task: GymTask) -> Rollout:
        async with slots:
            return await agent.call(RUN, read_row(task.row), Call())

    return list(await asyncio.gather(*(run(task) for task in tasks)))


async def rewards_of_theirs(
    python: str, tasks: Sequence[GymTask], gym: str, settings: JsonObject | None = None
) -> list[float]:
    config = {
        **(settings or {}),
        "name": "agent",
        "resources_server": {"type": "resources_servers", "name": "gym"},
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
    }
    peers: dict[str, Peer] = {}
    async with over("http", ScriptPlayer(tasks, peers)) as at:
        model = at["policy_model"]
        assert isinstance(model, HttpPeer)
        with ExitStack() as stack:
            places = {"gym": gym, "policy_model": model.base_url}
            url = await asyncio.to_thread(stack.enter_context, theirs(python, AGENT, config, places))
            async with make_client() as client:
                found = []
                for task in tasks:
                    reply = await client.post(f"{url}/run", json=task.row, timeout=60)
                    reply.raise_for_status()
                    found.append(float(reply.json()["reward"]))
                return found


def published(python: str, server: str) -> list[JsonObject]:
    """The example rows that come with a server."""
    where = f"import resources_servers.{server} as s; print(next(iter(s.__path__)))"
    folder = subprocess.run([python, "-c", where], capture_output=True, text=True, check=True, cwd="/").stdout.strip()
    with open(f"{folder}/data/example.jsonl") as lines:  # noqa: PTH123 - of another environment
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("server", [COUNTER, WORKPLACE], ids=["session_state", "workplace_assistant"])
async def test_rewards_are_those_of_their_own_agent(python: str, server: str) -> None:
    if server == COUNTER:
        tasks = [counter_task(seed) for seed in range(N_COUNTER)]
    else:
        rows = published(python, "workplace_assistant")
        tasks = [workplace_task(rows, seed) for seed in range(N_WORKPLACE)]
    config: Any = {"name": "gym", "domain": "agent"}
    with ExitStack() as stack:
        url = await asyncio.to_thread(stack.enter_context, theirs(python, server, config, {}))
        ours = await rewards_of_ours(tasks, url)
        expected = await rewards_of_theirs(python, tasks, url)
    assert [rollout.failure for rollout in ours if rollout.failure] == []
    assert [rollout.reward for rollout in ours] == expected
    assert {0.0, 1.0} <= set(expected)


async def test_a_server_that_is_gone_is_no_reward(python: str) -> None:
    tasks = [counter_task(0)]
    with ExitStack() as stack:
        config = {"name": "gym", "domain": "agent"}
        url = await asyncio.to_thread(stack.enter_context, theirs(python, COUNTER, config, {}))
    (rollout,) = await rewards_of_ours(tasks, url)
    assert (rollout.outcome, rollout.reward) == ("infra", None)
