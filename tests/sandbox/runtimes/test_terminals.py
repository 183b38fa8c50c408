"""A sandbox can't use up the terminals of the machine, which all sandboxes share."""

from collections.abc import Awaitable, Callable

import pytest

from paddock.sandbox import ExecResult
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
