"""Claims about one episode over a server that answers nonsense, or is asked for several steps at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from websockets.asyncio.server import ServerConnection, serve

from paddock.errors import InfraError
from paddock.resources_servers.openenv.episode import OpenEnvEpisode

MAX_REPLY_BYTES = 1 << 16


@asynccontextmanager
async def episode_of(*rewards: Any) -> AsyncIterator[OpenEnvEpisode]:
    """An episode whose steps have these rewards, and which is over after the last."""

    async def answer(connection: ServerConnection) -> None:
        left = list(rewards)
        async for text in connection:
            asked = orjson.loads(text)
            reward = left.pop(0) if asked["type"] == "step" else None
            await asyncio.sleep(0.02)
            data = {"observation": asked["data"], "reward": reward, "done": not left}
            await connection.send(orjson.dumps({"type": "observation", "data": data}).decode())

    async with serve(answer, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        episode = await OpenEnvEpisode.begin(f"ws://127.0.0.1:{port}", {}, 5.0, MAX_REPLY_BYTES)
        try:
            yield episode
        finally:
            await episode.close()


@pytest.mark.parametrize("nonsense", ["1.0", [1.0], {"value": 1.0}, ""])
async def test_a_reward_that_is_no_number_is_no_part_of_a_sum(nonsense: Any) -> None:
    async with episode_of(0.5, nonsense, 0.5) as episode:
        await episode.step({})
        with pytest.raises(InfraError, match="no finite number"):
            await episode.step({})


async def test_steps_at_once_are_taken_one_after_the_other() -> None:
    async with episode_of(0.5, None, 0.25) as episode:
        seen = await asyncio.gather(*(episode.step({"n": n}) for n in range(5)))
        assert [one and one["observation"]["n"] for one in seen] == [0, 1, 2, None, None]
        assert (episode.rewards, episode.steps, episode.done) == ([0.5, 0.25], 3, True)


async def test_an_answer_that_is_too_long_is_infra() -> None:
    async with episode_of(0.5, 0.5) as episode:
        await episode.step({"text": "x" * (MAX_REPLY_BYTES // 2)})
        with pytest.raises(InfraError) as failure:
            await episode.step({"text": "x" * MAX_REPLY_BYTES})
        assert failure.value.kind == "reply_too_large"
