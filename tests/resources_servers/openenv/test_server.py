"""Claims about episodes over a real OpenEnv server: state per rollout, rewards, the model's mistakes, failures."""

import asyncio
import json
import os
import random
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from paddock.errors import InfraError
from paddock.resources_servers.openenv import OpenEnvServer
from paddock.resources_servers.openenv.server import OpenEnvConfig
from paddock.server import ToolMistake
from paddock.types import JsonObject, Row, Verdict
from paddock.types.responses import call_item

PYTHON = os.environ.get("PADDOCK_OPENENV_PYTHON")
PROGRAM = Path(__file__).with_name("counting_server.py")
pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(PYTHON is None, reason="PADDOCK_OPENENV_PYTHON: no environment with openenv and uvicorn"),
]


@contextmanager
def served(sessions: int) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """A real server, and its process."""
    assert PYTHON is not None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([PYTHON, str(PROGRAM), str(port), str(sessions)]) as process:
        try:
            deadline = time.monotonic() + 240
            while True:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                assert time.monotonic() < deadline
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}", process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(8) as (url, _):
        yield url


@asynccontextmanager
async def environment(url: str, **settings: Any) -> AsyncIterator[OpenEnvServer]:
    server = OpenEnvServer(OpenEnvConfig(base_url=url, **settings), name="counting", peers={})
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def row(seed: int) -> Row:
    return Row.from_wire({"responses_create_params": {"input": "Count."}, "reset": {"seed": seed}})


async def play(server: OpenEnvServer, seed: int, adds: list[int]) -> tuple[list[JsonObject], Verdict]:
    """What the tool `step` gives for each number, and the verdict of the calls over an episode of their own."""
    given = row(seed)
    task = server.read_task(given)
    episode = await server.open_state(task, given)
    seen = [await server.step(episode, {"add": add}) for add in adds]
    await server.close_state(episode)
    calls = [call_item("step", orjson.dumps({"action": {"add": add}}).decode()) for add in adds]
    return seen, await server.verify(task, given, {"output": calls})


async def test_an_episode_keeps_its_state_and_is_paid_the_sum(url: str) -> None:
    async with environment(url) as server:
        seen, verdict = await play(server, 7, [3, 2, 2])
        assert [step["observation"]["count"] for step in seen] == [3, 5, 7]
        assert (verdict.reward, verdict.reason, verdict.metrics) == (1.5, "done", {"steps": 3.0, "done": 1.0})
        _, short = await play(server, 7, [3])
        assert (short.reward, short.reason) == (0.25, "not_done")
        _, beyond = await play(server, 7, [50])
        assert (beyond.reward, beyond.reason) == (-1.0, "done")
        _, nothing = await play(server, 7, [])
        assert (nothing.reward, nothing.reason) == (0.0, "no_step")


async def test_the_last_reward_alone_where_the_block_says_so(url: str) -> None:
    async with environment(url, reward="last") as server:
        _, verdict = await play(server, 7, [3, 4])
        assert verdict.reward == 1.0


async def test_the_model_is_shown_the_environments_schema_and_its_own_mistakes(url: str) -> None:
    async with environment(url) as server:
        session = await server.seed_session(server.read_task(row(5)), row(5))
        shown = {definition["name"]: definition["parameters"] for definition in session.tools}
        assert shown["step"]["properties"]["action"]["properties"]["add"]["maximum"] == 99
        state = await server.open_state(server.read_task(row(5)), row(5))
        assert (await server.observe(state))["observation"]["count"] == 0
        for action in ({"add": 500}, {"subtract": 1}, {}):
            with pytest.raises(Exception, match=r"add|subtract") as mistake:
                await server.step(state, action)
            assert type(mistake.value).__name__ == "ToolMistake"
        await server.step(state, {"add": 5})
        with pytest.raises(Exception, match="over"):
            await server.step(state, {"add": 1})
        await server.close_state(state)


async def test_an_environment_that_fails_is_infra(url: str) -> None:
    async with environment(url) as server:
        state = await server.open_state(server.read_task(row(5)), row(5))
        with pytest.raises(InfraError, match="cued to fail") as failure:
            await server.step(state, {"add": 66})
        assert failure.value.kind == "environment_error"
        await server.close_state(state)


async def test_a_full_server_and_one_that_dies_are_infra() -> None:
    with served(1) as (url, process):
        async with environment(url, answer_timeout_s=10) as server:
            state = await server.open_state(server.read_task(row(5)), row(5))
            with pytest.raises(InfraError) as full:
                await server.open_state(server.read_task(row(5)), row(5))
            assert full.value.kind == "environment_full"
            process.kill()
            with pytest.raises(InfraError) as lost:
                await server.step(state, {"add": 1})
            assert lost.value.kind == "connection"


def scripts(count: int) -> list[tuple[int, list[int]]]:
    """Seeds and numbers to add: some hit the seed, some go beyond, some stop short, some are no action."""
    draw = random.Random(11)
    return [
        (draw.randint(1, 60), [draw.choice((1, 2, 3, 5, 9, 20, 100, -1)) for _ in range(draw.randint(1, 9))])
        for _ in range(count)
    ]


async def by_tools(server: OpenEnvServer, seed: int, adds: list[int]) -> tuple[list[Any], Verdict]:
    """The same as `play_actions` has it, until the end of the episode, and the verdict of those calls."""
    given = row(seed)
    episode = await server.open_state(server.read_task(given), given)
    steps: list[Any] = []
    calls = []
    for add in adds:
        calls.append(call_item("step", json.dumps({"action": {"add": add}})))
        try:
            seen = await server.step(episode, {"add": add})
        except ToolMistake:
            steps.append(None)
            continue
        steps.append([seen["observation"], seen["reward"], seen["done"]])
        if seen["done"]:
            break
    await server.close_state(episode)
    return steps, await server.verify(server.read_task(given), given, {"output": calls})


@pytest.mark.long
async def test_200_scripted_episodes_are_those_of_its_own_client(url: str) -> None:
    given = scripts(200)
    command = [str(PYTHON), str(PROGRAM.with_name("play_actions.py")), url]
    done = await asyncio.to_thread(
        subprocess.run, command, input=json.dumps(given).encode(), check=True, capture_output=True
    )
    theirs = json.loads(done.stdout)
    ends = set()
    async with environment(url) as server:
        for (seed, adds), expected in zip(given, theirs, strict=True):
            steps, verdict = await by_tools(server, seed, adds)
            assert steps == expected, (seed, adds)
            taken = [step for step in expected if step is not None]
            assert verdict.reward == pytest.approx(sum(reward for _, reward, _ in taken)), (seed, adds)
            is_done = bool(taken) and taken[-1][2]
            assert verdict.reason == ("no_step" if not taken else "done" if is_done else "not_done")
            ends.add((verdict.reason, None in expected, verdict.reward > 0))
    assert len(ends) > 6
