"""For tests of the real OpenCode: a fixture for it, in the three dialects that it speaks."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from paddock.conformance.harnesses import find_harness
from paddock.conformance.harnesses.fixture import HarnessFixture, harness_fixture
from paddock.errors import ConfigError
from paddock.harness.programs.catalogue import program_of
from paddock.harness.programs.store import ProgramStore
from paddock.sandbox import SandboxError

OpenFixture = Callable[..., Awaitable[HarnessFixture]]


@pytest.fixture
async def open_fixture() -> AsyncIterator[OpenFixture]:
    """Skips where OpenCode is not installed, or sandboxes do not work."""
    async with AsyncExitStack() as stack:

        async def opened(**block: Any) -> HarnessFixture:
            try:
                target = find_harness("harness:opencode_cli")
                ProgramStore(target.settings.programs_home).find(program_of("opencode_cli"))
                await target.ready()
            except (ConfigError, SandboxError) as missing:
                pytest.skip(str(missing))
            return await stack.enter_async_context(harness_fixture(target._replace(block=block)))

        yield opened
