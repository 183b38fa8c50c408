"""Who asks a sandbox for something and goes away leaves no descriptor in the provider's process."""

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from paddock.sandbox import ShellRequest
from paddock.sandbox.local import LocalProvider

pytestmark = pytest.mark.sandbox
NAME = "read-by-nobody"


@pytest.mark.slow
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
    # The watchdog opens some for a moment: what is left stays.
    async with asyncio.timeout(30):
        while _descriptors() > before:
            await asyncio.sleep(0.05)


async def test_a_file_whose_reader_goes_before_a_thread_is_free_leaves_no_descriptor(
    provider: LocalProvider, sandbox: str
) -> None:
    await provider.write(sandbox, f"/tmp/{NAME}", b"text")
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    free = threading.Event()
    busy = loop.run_in_executor(None, free.wait)
    reading = asyncio.create_task(provider.read(sandbox, f"/tmp/{NAME}"))
    try:
        async with asyncio.timeout(30):
            while not _is_open():
                await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
    finally:
        free.set()
        await busy
    async with asyncio.timeout(30):
        while _is_open():
            await asyncio.sleep(0.05)


def _is_open() -> bool:
    return any(link.endswith(NAME) for link in map(_link, Path("/proc/self/fd").iterdir()))


def _link(descriptor: Path) -> str:
    with contextlib.suppress(FileNotFoundError):
        return str(descriptor.readlink())
    return ""


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
