"""A sandbox can't use up the terminals of the machine, which all sandboxes share."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from paddock.sandbox import ExecResult, ShellRequest
from paddock.sandbox.local import LocalProvider

pytestmark = pytest.mark.sandbox
OPEN = """python3 -c "
import os
try:
    held = []
    while len(held) < 600:
        held.append(os.open('/dev/ptmx', os.O_RDWR))
except OSError as error:
    print(len(held), error.strerror)
"
"""


async def test_terminals_are_bounded(sh: Callable[..., Awaitable[ExecResult]], provider: LocalProvider) -> None:
    if provider.runtime.name == "docker":
        pytest.skip("docker makes the file system of terminals itself")
    result = await sh(OPEN)
    assert bytes(result.stdout) == b"256 No space left on device\n"


async def test_a_shell_whose_asker_goes_while_it_opens_leaves_no_descriptor(
    provider: LocalProvider, sandbox: str
) -> None:
    await provider.close_shell(sandbox, await provider.open_shell(sandbox, ShellRequest()))
    before = _descriptors()
    for nth in range(60):
        opening = asyncio.create_task(provider.open_shell(sandbox, ShellRequest()))
        await asyncio.sleep(nth * 0.0005)
        opening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await provider.close_shell(sandbox, await opening)
    async with asyncio.timeout(30):
        while _descriptors() > before:
            await asyncio.sleep(0.05)


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
