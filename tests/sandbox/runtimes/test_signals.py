"""What a host's process has ignored or blocked is nothing to what runs inside."""

import signal
import uuid
from pathlib import Path

import pytest

from paddock.sandbox import ExecRequest, SandboxSettings, SandboxSpec
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.runtimes import ContainerRuntime

pytestmark = pytest.mark.sandbox


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGUSR1])
async def test_a_signal_that_the_host_ignores_or_blocks_ends_a_command(
    runtime: ContainerRuntime, home: Path, image: str, number: signal.Signals
) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    try:
        provider = LocalProvider(SandboxSettings(home=home), runtime, None)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(number, before)
    handle = await provider.create(SandboxSpec(image=image), request_id=uuid.uuid4().hex)
    kill = ExecRequest(argv=["sh", "-c", f"kill -{number} $$"])
    result = await provider.exec(handle.sandbox_id, kill, request_id="1")
    await provider.close()
    assert result.exit_code == 128 + number
