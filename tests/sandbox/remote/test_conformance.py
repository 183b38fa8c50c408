"""A provider over HTTP does what sandboxes do: the whole suite, with real sandboxes behind a node."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.conformance import Behaviour, run_behaviour
from paddock.conformance.sandboxes import SUITE, SandboxTarget, find_sandbox
from paddock.sandbox import SandboxSettings

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]


@pytest.fixture(scope="module")
def target() -> Iterator[SandboxTarget]:
    """Where the payload's user can pass, unlike pytest's own folders."""
    if not shutil.which("bwrap"):
        pytest.skip("no bwrap")
    folder = Path(tempfile.mkdtemp(prefix="paddock-remote-", dir="/var/tmp"))
    folder.chmod(0o711)
    yield find_sandbox("sandbox:remote", settings=SandboxSettings(home=folder, runtime="bubblewrap"))
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    "behaviour",
    [
        pytest.param(behaviour, id=behaviour.name, marks=pytest.mark.long if number % 9 else ())
        for number, behaviour in enumerate(SUITE)
    ],
)
async def test_a_remote_provider_does_what_sandboxes_do(
    behaviour: Behaviour[SandboxTarget], target: SandboxTarget
) -> None:
    result = await run_behaviour(behaviour, target)
    if result.outcome == "skipped":
        pytest.skip(result.detail)
    assert result.outcome == "passed", result.detail
