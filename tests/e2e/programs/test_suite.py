"""What holds for every harness holds for real programs too: the conformance suite over each, in real sandboxes."""

import asyncio

import pytest
from tests.e2e.programs import calc_fixture

from paddock.conformance import Behaviour, run_behaviour
from paddock.conformance.harnesses import SUITE, HarnessTarget, find_harness
from paddock.errors import ConfigError
from paddock.sandbox import SandboxError

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]


QUICK = "codex_cli"
"""The others take minutes each, most of it for starting some sixty times."""
EACH = [pytest.param(name, marks=() if name == QUICK else pytest.mark.long) for name in calc_fixture.PROGRAMS]


@pytest.fixture(scope="module", params=EACH)
def target(request: pytest.FixtureRequest) -> HarnessTarget:
    calc_fixture.require(request.param)
    try:
        found = find_harness(f"harness:{request.param}")
        asyncio.run(found.ready())
    except (ConfigError, SandboxError) as error:
        pytest.skip(str(error))
    return found


@pytest.mark.parametrize(
    "behaviour",
    [
        pytest.param(behaviour, id=behaviour.name, marks=pytest.mark.long if number % 3 else ())
        for number, behaviour in enumerate(SUITE)
    ],
)
async def test_it_behaves_as_a_harness(target: HarnessTarget, behaviour: Behaviour[HarnessTarget]) -> None:
    result = await run_behaviour(behaviour, target)
    assert result.outcome != "failed", result
