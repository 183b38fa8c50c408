"""A SWE agent whose sandboxes are on a node: the same rollouts, the model reached through the node's tunnel."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.agents.swe.test_life import ASK, FIX, script, until

from paddock.sandbox import SandboxSettings
from paddock.sandbox.local import LocalProvider
from paddock.sandbox_server import serve_node
from paddock.server.access import Access
from paddock.server.sockets import LOOPBACK, Address, bind
from paddock.types import Stamp
from paddock.types.responses import output_items

pytestmark = pytest.mark.sandbox


class NodeStand(NamedTuple):
    settings: SandboxSettings
    """Of its clients."""
    provider: LocalProvider
    stop: Callable[[], Awaitable[None]]


@pytest.fixture
async def node(home: Path, tmp_path: Path) -> AsyncIterator[NodeStand]:
    token_file = tmp_path / "token"
    token_file.write_text("of-the-node\n")
    settings = SandboxSettings(home=home, runtime="bubblewrap")
    bound = bind("node", Address(LOOPBACK, 0))
    async with AsyncExitStack() as stack:
        provider = await stack.enter_async_context(serve_node(settings, bound, access=Access("of-the-node")))
        own = settings.model_copy(
            update={"nodes": (bound.url,), "node_token_file": token_file, "lease_ttl_s": 10.0, "answer_margin_s": 2.0}
        )
        yield NodeStand(own, provider, stack.aclose)


@pytest.mark.slow
async def test_a_fix_is_made_there_and_its_patch_is_judged_here(standing: Any, node: NodeStand) -> None:
    # This machine's own room, which is too little, does not count.
    async with standing(sandbox=node.settings, admission={"memory_mib": 1}, **script(FIX, ASK)) as stand:
        rollout = await stand.run()
        assert not node.provider.live()
    assert (rollout.outcome, rollout.reward) == ("completed", 1.0)
    assert "yes" in output_items(rollout.response)[3]["output"]
    assert len(rollout.turns) == stand.model.n_calls == 1
    assert stand.kept("patch.diff").decode() == rollout.response["model_patch"]


@pytest.mark.slow
async def test_a_node_that_stops_under_a_command_is_infra(standing: Any, node: NodeStand) -> None:
    async with standing(sandbox=node.settings, **script(FIX, "sleep 50")) as stand:
        running = asyncio.ensure_future(stand.run())
        await until(node.provider.live)
        await asyncio.sleep(1)
        await node.stop()
        rollout = await asyncio.wait_for(running, 40)
    assert (rollout.outcome, rollout.reward) == ("infra", None)
    assert stand.world.judged == []


async def test_a_node_is_told_which_sandboxes_are_of_one_group(standing: Any, node: NodeStand) -> None:
    stamps = [Stamp(run_id="r", group_id=0, cohort=cohort, member=0, attempt=0) for cohort in ("a", "a", "b")]
    async with standing(sandbox=node.settings, **script("sleep 50")) as stand:
        running = [asyncio.ensure_future(stand.run(stamp=stamp)) for stamp in stamps]
        await until(lambda: len(node.provider.live()) == len(stamps))
        groups = Counter(handle.spec.group for handle in node.provider.live())
        for one in running:
            one.cancel()
        await asyncio.wait(running)
    assert sorted(groups.values()) == [1, 2]
    assert None not in groups
