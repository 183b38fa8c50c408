"""The claim that many programs at once all end, in the room that this machine has: who finds none free waits."""

import asyncio
import json
from pathlib import Path

import pytest
from tests.e2e.programs import calc_fixture

from paddock.conformance.harnesses.scripted_model import ConversationServer, ScriptedConversation, ScriptedReply
from paddock.harness import harness_class
from paddock.http import new_secret
from paddock.types.responses import call_item, message_item

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]
ROLLOUTS, ROOMS = 16, 5
HARNESS = "codex_cli"


async def test_sixteen_at_once_all_end_and_their_memory_is_admitted(home: Path) -> None:
    calc_fixture.require(HARNESS)
    each = calc_fixture.MEMORY_MIB[HARNESS]
    model, most = ConversationServer(), 0
    lab = harness_class(HARNESS).lab
    room = {"admission": {"memory_mib": ROOMS * each, "cores_per_sandbox": 0.1}}
    async with calc_fixture.open_fixture(HARNESS, home, model, **room) as fixture:

        async def look() -> None:
            nonlocal most
            most = max(most, len(fixture.live))

        running = []
        for member in range(ROLLOUTS):
            secret = new_secret()
            lines = ("cat calc.py", calc_fixture.FIX, f"echo {member} > /tmp/mine && cat /tmp/mine")
            calls = [[call_item(lab.tool, json.dumps(lab.line(line)))] for line in lines]
            replies = [ScriptedReply(items, before=look) for items in (*calls, [message_item("Done.")])]
            model.conversations[secret] = ScriptedConversation(replies)
            running.append(fixture.run(3, member=member, size=ROLLOUTS, secret=secret))
        done = await asyncio.gather(*running)
        assert fixture.live == []
    assert [(one.outcome, one.reward) for one in done] == [("completed", 1.0)] * ROLLOUTS
    assert [len(one.turns) for one in done] == [4] * ROLLOUTS
    assert 1 < most <= ROOMS
