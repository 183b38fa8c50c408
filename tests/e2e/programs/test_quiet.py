"""The claim that a program asks its model for the task and nothing else: no title, no update, no telemetry."""

import json

import pytest
from tests.e2e.programs import calc_fixture
from tests.sampling import few

from paddock.conformance.harnesses import find_harness
from paddock.conformance.harnesses.fixture import harness_fixture
from paddock.errors import ConfigError
from paddock.harness import harness_class
from paddock.types.responses import call_item

FEW = ("claude_code",)
"""The one with most that it might ask besides."""
pytestmark = [pytest.mark.slow, pytest.mark.sandbox]


@pytest.mark.parametrize("harness", few(calc_fixture.PROGRAMS, FEW, pytest.mark.long))
async def test_each_request_is_a_turn_and_none_had_to_be_refused(harness: str) -> None:
    calc_fixture.require(harness)
    lab = harness_class(harness).lab
    try:
        target = find_harness(f"harness:{harness}")
    except ConfigError as error:
        pytest.skip(error.message)
    async with harness_fixture(target) as fixture:
        run = await fixture.run([call_item(lab.tool, json.dumps(lab.line("cat calc.py")))])
    exit_ = run.expect_exit("finished")
    tunnel = run.tunnel
    assert tunnel is not None
    assert tunnel.calls == exit_.turns == len(run.bodies) == 2
    assert tunnel.refusals == 0
