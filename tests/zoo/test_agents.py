"""Agents that look where they must not, or bend what comes after them, from row to verdict in real sandboxes.

Each file of `agents/` is what one agent runs; those with `shows: canary` find the hidden text in an image as published
ones have been found to be, and nothing in the one that an agent gets. None is paid.
"""

from collections.abc import Callable
from typing import Any

import pytest

from paddock.sandbox.images.prepare import prepare_image

pytestmark = [pytest.mark.sandbox, pytest.mark.asyncio(loop_scope="session")]
CANARY = "zoo-canary-5f4dcc3b5aa765d61d8327deb882cf99"
HIDDEN = ["/r2e_tests", "/testbed/r2e_tests", "/testbed/run_tests.sh"]


@pytest.mark.slow
async def test_a_reader_finds_what_is_hidden_in_an_image_as_published(
    finder: Any, leaky: str, shell: Callable[..., Any]
) -> None:
    assert CANARY in await shell(leaky, finder.blocks[0][2])


async def test_a_reader_finds_nothing_in_the_image_that_an_agent_gets(
    reader: Any, leaky: str, shell: Callable[..., Any], provider: Any
) -> None:
    image = await prepare_image(provider, leaky, "/testbed", HIDDEN)
    assert CANARY not in await shell(image, reader.blocks[0][2])


@pytest.mark.slow
async def test_an_agent_that_cheats_is_not_paid(agent: Any, leaky: str, live: Callable[..., Any], images: Any) -> None:
    options = {"agent_timeout_s": float(agent.keys.get("timeout_s", "60"))}
    rollout = await live(leaky, agent.blocks[0][2], **options)
    assert (rollout.reward or 0.0) <= 0.0, rollout
    assert rollout.outcome in agent.keys.get("outcome", "completed").split(", "), rollout.failure
    seen = str(rollout.response)
    assert CANARY not in seen
    assert str(images.home) not in seen
    assert "REACHED" not in seen


@pytest.mark.slow
async def test_an_honest_agent_is_paid(worker: Any, leaky: str, live: Callable[..., Any], provider: Any) -> None:
    image = await prepare_image(provider, leaky, "/testbed", HIDDEN)
    rollout = await live(image, worker.blocks[0][2])
    assert (rollout.outcome, rollout.reward) == ("completed", 1.0), (rollout.verdict, rollout.failure)
