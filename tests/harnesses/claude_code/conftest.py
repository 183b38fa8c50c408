"""For tests of the real Claude Code: a stage for it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from paddock.conformance.harnesses import find_harness
from paddock.conformance.harnesses.stage import Stage, staged
from paddock.errors import ConfigError
from paddock.harness.programs.catalogue import program_of
from paddock.harness.programs.store import ProgramStore
from paddock.sandbox import SandboxError

OpenStage = Callable[..., Awaitable[Stage]]


@pytest.fixture
async def open_stage() -> AsyncIterator[OpenStage]:
    """Skips where Claude Code is not installed, or sandboxes do not work."""
    async with AsyncExitStack() as stack:

        async def opened(**block: Any) -> Stage:
            try:
                subject = find_harness("harness:claude_code")
                ProgramStore(subject.settings.programs_home).find(program_of("claude_code"))
                await subject.ready()
            except (ConfigError, SandboxError) as missing:
                pytest.skip(str(missing))
            return await stack.enter_async_context(staged(subject._replace(block=block)))

        yield opened
