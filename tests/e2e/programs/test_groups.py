"""The claim that members of a group are asked the same, token by token, whenever and wherever they are started.

The date where one half is started is never that of the other half: their clocks are 26 hours apart.
"""

import asyncio
from pathlib import Path

import pytest
from tests.e2e.programs import calc_fixture
from tests.sampling import few

from paddock.testing.engines import scripted_server
from paddock.tokens import inline
from paddock.training.nemo_rl.checks import check_results
from paddock.types import Rollout

MEMBERS = 16
AHEAD, BEHIND = "Etc/GMT-14", "Etc/GMT+12"
pytestmark = [pytest.mark.slow, pytest.mark.sandbox]


@pytest.mark.long
@pytest.mark.parametrize("harness", calc_fixture.EACH)
async def test_members_of_a_group_send_one_first_prompt(harness: str, home: Path, tmp_path: Path) -> None:
    calc_fixture.require(harness)
    rollouts: list[Rollout] = []
    for nth, zone in enumerate((AHEAD, BEHIND)):
        rollouts += await members_of(harness, home, tmp_path / str(nth), zone, range(nth, MEMBERS, 2))
    prompts = [rollout.turns[0].prompt_ids for rollout in rollouts]
    assert len(prompts) == MEMBERS
    assert all(prompt == prompts[0] for prompt in prompts)
    assert list(check_results(map(inline, rollouts))) == []


async def members_of(harness: str, home: Path, folder: Path, zone: str, members: range) -> list[Rollout]:
    """Started where the clocks show `zone`'s time."""
    server = scripted_server(folder, lambda _prompt: "I am done.")
    slots = asyncio.Semaphore(4)
    block = {"harness_config": {"env": {"TZ": zone}}, "agent_max_turns": 1}
    async with calc_fixture.open_fixture(harness, home, server, **block) as fixture:

        async def run(member: int) -> Rollout:
            async with slots:
                rollout = await fixture.run(7, member=member, size=MEMBERS)
            assert rollout.turns, rollout.failure
            assert rollout.turns[0].prompt_ids
            return rollout

        return list(await asyncio.gather(*map(run, members)))


@pytest.mark.parametrize("harness", few(calc_fixture.INSIDE, ["codex_cli"], pytest.mark.long))
async def test_another_group_has_another_prompt(harness: str, home: Path, tmp_path: Path) -> None:
    calc_fixture.require(harness)
    server = scripted_server(tmp_path, lambda _prompt: "I am done.")
    async with calc_fixture.open_fixture(harness, home, server, agent_max_turns=1) as fixture:
        one, other = await fixture.run(1), await fixture.run(2)
    assert one.turns[0].prompt_ids != other.turns[0].prompt_ids
