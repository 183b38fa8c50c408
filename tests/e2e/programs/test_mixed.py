"""The claim that native harnesses and programs mix in one run: each group has one of them, and all are paid."""

from collections import defaultdict
from pathlib import Path

import pytest
from tests.e2e.programs import calc_fixture

from paddock.testing.engines import scripted_server

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]
GROUPS, MEMBERS = 8, 2
MIX = ("codex_cli", "codex", "codeact")


async def test_members_of_a_group_have_one_harness_and_groups_have_all(home: Path, tmp_path: Path) -> None:
    calc_fixture.require("codex_cli")
    server = scripted_server(tmp_path, lambda _prompt: "I am done.")
    overrides = [{"harness": harness, "weight": 1.0} for harness in MIX]
    drawn = defaultdict(list)
    async with calc_fixture.open_fixture(
        "codeact", home, server, agent_prompt_overrides=overrides, agent_max_turns=3
    ) as fixture:
        for group in range(GROUPS):
            for member in range(MEMBERS):
                rollout = await fixture.run(group, member=member, size=MEMBERS)
                assert rollout.outcome in ("completed", "truncated"), rollout.failure
                assert rollout.response is not None
                drawn[group].append((rollout.response["harness"]["name"], rollout.turns[0].prompt_ids))
    assert all(one == other for one, other in drawn.values())
    assert {name for members in drawn.values() for name, _ in members} == set(MIX)
