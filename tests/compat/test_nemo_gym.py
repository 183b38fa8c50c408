"""Claims about servers of ours and of NeMo-Gym's package: each takes what the other sends, rewards are the same.

Source  `nemo-gym` 0.4.0 as published, in an environment of its own (`scripts/setup_nemo_gym.sh`).
Pairs   an expected action and what the model does, made by seed. No more than one call each: 0.4.0 knows no batches,
        and of several calls reads the first.
"""

import asyncio
import json
import os
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import pytest
from tests.support.processes import running

from paddock.agents.single_step import SingleStepAgent
from paddock.http import RUN, Call, HttpPeer, read_row
from paddock.http.transport import make_client
from paddock.models_servers.openai import OpenAIServer
from paddock.resources_servers.pivot import PivotServer
from paddock.resources_servers.pivot.compat import CompatOptions, compare
from paddock.resources_servers.pivot.task import read_expected
from paddock.server import AgentConfig
from paddock.testing.transports import over
from paddock.testing.upstream import ScriptedAnswer, ScriptedUpstream
from paddock.types import JsonObject

pytestmark = [pytest.mark.long]

VARIABLE = "PADDOCK_NEMO_GYM_PYTHON"
HERE = Path(__file__).parent
START_TIMEOUT_S = 300.0
N_PAIRS = 80
THRESHOLD = 0.1
THEIR_VERIFIER = "resources_servers.single_step_tool_use_with_argument_comparison.app"
TOOLS = [
    {
        "type": "function",
        "name": name,
        "description": "One of two.",
        "parameters": {"type": "object", "properties": {}, "additionalProperties": True},
        "strict": False,
    }
    for name in ("bash", "edit")
]


class Pair(NamedTuple):
    expected: JsonObject
    said: ScriptedAnswer


VALUES: tuple[Any, ...] = (
    *("ls", "Ls", "", "pytest -q tests", "tests  Pytest -q", "cat a b c d", "cat a x y z", "é è"),
    *(0, 1, 1.0, 1.0000001, 1.1, True, False, None),
    *([], [1, "two words"], [1, "other words"], [1], {"path": "a.py"}, {"path": "b.py"}, {"path": "a.py", "line": 3}),
)


def value(chance: random.Random, like: Any = None) -> Any:
    """Of the kind of `like`, mostly."""
    alike = [one for one in VALUES if type(one) is type(like)]
    return chance.choice(alike if like is not None and chance.random() < 0.7 else VALUES)


def pair(chance: random.Random) -> Pair:
    """Often alike."""
    if chance.random() < 0.15:
        expected: JsonObject = {"type": "message", "content": "Done."}
    else:
        arguments = {key: value(chance) for key in chance.sample(["command", "timeout", "path"], chance.randint(0, 3))}
        expected = {"type": "function_call", "name": "bash", "arguments": json.dumps(arguments)}
    kind = chance.random()
    if kind < 0.15 or (kind < 0.8 and expected["type"] == "message"):
        return Pair(expected, ScriptedAnswer(chance.choice(["Done.", "I can't do that."])))
    actual = json.loads(expected.get("arguments", "{}"))
    for key in list(actual):
        if chance.random() < 0.35:
            actual[key] = value(chance, actual[key])
    if chance.random() < 0.15:
        actual["extra"] = value(chance)
    if actual and chance.random() < 0.1:
        actual.pop(next(iter(actual)))
    raw = chance.choice(['{"command": ', "[]", "null", ""]) if chance.random() < 0.1 else json.dumps(actual)
    text = "Let me see." if chance.random() < 0.3 else ""
    return Pair(expected, ScriptedAnswer(text, calls=((chance.choice(["bash", "bash", "bash", "edit"]), raw),)))


PAIRS = [pair(random.Random(seed)) for seed in range(N_PAIRS)]


def row(index: int) -> JsonObject:
    params = {"input": [{"role": "user", "content": f"pair {index}"}], "tools": TOOLS, "temperature": 1.0}
    return {"responses_create_params": params, "expected_action": PAIRS[index].expected, "note": {"kept": index}}


def reply(body: JsonObject, _: int) -> ScriptedAnswer:
    """Of the model: what the row's pair says."""
    asked = next(one for one in body["messages"] if one["role"] == "user")["content"]
    text = asked if isinstance(asked, str) else asked[0]["text"]
    return PAIRS[int(text.removeprefix("pair "))].said


def ours(index: int, response: JsonObject, threshold: float) -> tuple[float, str]:
    options = CompatOptions(word_count_similarity_threshold=threshold)
    found = compare(read_expected({"expected_action": PAIRS[index].expected}), response, options)
    return found.reward, found.extras["category"]


@pytest.fixture
def python() -> str:
    found = os.environ.get(VARIABLE)
    if not found:
        pytest.skip(f"{VARIABLE} names no interpreter: scripts/setup_nemo_gym.sh makes one")
    return found


@contextmanager
def theirs(python: str, server: str, config: JsonObject, peers: dict[str, str]) -> Iterator[str]:
    """A server of theirs; where it listens."""
    places = {name: [urlsplit(url).hostname, urlsplit(url).port] for name, url in peers.items()}
    given = json.dumps({"server": server, "config": config, "peers": places})
    # Their packages alone; a Ray or a tracker that started would be looked for in vain.
    env = {"PYTHONPATH": "", "WANDB_MODE": "disabled", "RAY_ADDRESS": "127.0.0.1:1"}
    with running("serve_nemo_gym", given, python=python, cwd=HERE, env=env) as command:
        yield command.line("listening at ", timeout_s=START_TIMEOUT_S).removeprefix("listening at ")


def verifier(python: str, threshold: float) -> Any:
    config = {
        "name": "verifier",
        "domain": "agent",
        "tool_call_comparator_config": {"word_count_similarity_threshold": threshold},
    }
    return theirs(python, f"{THEIR_VERIFIER}:SingleStepToolUseArgumentComparisonResourcesServer", config, {})


@asynccontextmanager
async def model_and_pivot(threshold: float) -> AsyncIterator[dict[str, HttpPeer]]:
    """Ours, on ports of their own."""
    async with ScriptedUpstream(reply) as upstream:
        asked = OpenAIServer.config_type(base_url=upstream.url, model="scripted", attempts=1)
        judged = PivotServer.config_type(
            comparator="compat", compat=CompatOptions(word_count_similarity_threshold=threshold)
        )
        servers = OpenAIServer(asked, name="policy_model", peers={}), PivotServer(judged, name="pivot", peers={})
        async with over("http", *servers) as peers:
            found = {name: peer for name, peer in peers.items() if isinstance(peer, HttpPeer)}
            assert len(found) == len(peers)
            yield found


def check_mixed(rewards: list[float]) -> None:
    """Both kinds are there, or nothing is shown."""
    assert len(rewards) == N_PAIRS
    assert N_PAIRS / 6 < sum(rewards) < N_PAIRS * 5 / 6


@pytest.mark.parametrize(
    ("agent", "more"),
    [
        ("responses_api_agents.tool_simulation_agent.app:ToolSimulationAgent", {}),
        ("responses_api_agents.simple_agent.app:SimpleAgent", {"max_steps": 1}),
    ],
    ids=["tool_simulation_agent", "simple_agent"],
)
async def test_their_agent_over_our_model_and_our_pivot(python: str, agent: str, more: JsonObject) -> None:
    """And their own verifier judges what their agent recorded over ours as ours does."""
    rewards = []
    async with model_and_pivot(THRESHOLD) as peers:
        urls = {name: peer.base_url for name, peer in peers.items()}
        config = {
            "name": "agent",
            "resources_server": {"type": "resources_servers", "name": "pivot"},
            "model_server": {"type": "responses_api_models", "name": "policy_model"},
            **more,
        }
        with ExitStack() as stack:
            url = await asyncio.to_thread(stack.enter_context, theirs(python, agent, config, urls))
            judge = await asyncio.to_thread(stack.enter_context, verifier(python, THRESHOLD))
            async with httpx.AsyncClient(timeout=120) as client:
                for index in range(N_PAIRS):
                    answer = await client.post(f"{url}/run", json=row(index))
                    assert answer.status_code == 200, answer.text
                    rollout = answer.json()
                    assert rollout["note"] == {"kept": index}
                    expected = ours(index, rollout["response"], THRESHOLD)
                    assert (rollout["reward"], rollout["category"]) == expected, PAIRS[index]
                    recorded = {key: one for key, one in rollout.items() if key not in ("reward", "category")}
                    again = (await client.post(f"{judge}/verify", json=recorded)).json()
                    assert (again["reward"], again["category"]) == expected, PAIRS[index]
                    rewards.append(rollout["reward"])
    check_mixed(rewards)


@pytest.mark.parametrize("threshold", [0.0, 0.1, 0.51])
async def test_our_agent_over_their_verifier(python: str, threshold: float) -> None:
    """And what our agent's rollouts hold is, as a body, judged by both verifiers alike."""
    rewards = []
    with ExitStack() as stack:
        url = await asyncio.to_thread(stack.enter_context, verifier(python, threshold))
        async with model_and_pivot(threshold) as peers, make_client() as client:
            refers = {
                "resources_server": {"type": "resources_servers", "name": "verifier"},
                "model_server": {"type": "models_servers", "name": "policy_model"},
            }
            config = SingleStepAgent.config_type.model_validate(refers)
            assert isinstance(config, AgentConfig)
            known = {"verifier": HttpPeer("verifier", client, url), "policy_model": peers["policy_model"]}
            async with over("direct", SingleStepAgent(config, name="agent", peers=known)) as agents:
                for index in range(N_PAIRS):
                    rollout = await agents["agent"].call(RUN, read_row(row(index)), Call())
                    assert rollout.verdict is not None, rollout.failure
                    assert rollout.response is not None
                    expected = ours(index, rollout.response, threshold)
                    assert (rollout.reward, rollout.verdict.extras["category"]) == expected, PAIRS[index]
                    body = {**row(index), "response": rollout.response}
                    for verify in (url, peers["pivot"].base_url):
                        answer = (await client.post(f"{verify}/verify", json=body)).json()
                        assert (answer["reward"], answer["category"]) == expected, PAIRS[index]
                    rewards.append(expected[0])
    check_mixed(rewards)
