"""For tests of the real Claude Code: a fixture for it."""

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
    """Skips where Claude Code is not installed, or sandboxes do not work."""
    async with AsyncExitStack() as stack:

        async def opened(**block: Any) -> HarnessFixture:
            try:
                target = find_harness("harness:claude_code")
                ProgramStore(target.settings.programs_home).find(program_of("claude_code"))
                await target.ready()
            except (ConfigError, SandboxError) as missing:
                pytest.skip(str(missing))
            return await stack.enter_async_context(harness_fixture(target._replace(block=block)))

        yield opened
