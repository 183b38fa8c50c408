"""Claims about the keepers' parent: it is replaced when it has ended, and its last words are quoted."""

import asyncio
import gc
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import psutil
import pytest

from paddock.sandbox import (
    ExecRequest,
    SandboxError,
    SandboxGone,
    SandboxSettings,
    SandboxSpec,
    open_local_provider,
)
from paddock.sandbox.images import ImageStore
from paddock.sandbox.images.tiny import tiny_image
from paddock.sandbox.keeper import messages
from paddock.sandbox.keeper_client import RunningCommand
from paddock.sandbox.keeper_factory import STARTS, KeeperFactory
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.sandbox import Sandbox

FEW_PROCESSES = """
import os, resource, socket, sys
from paddock.sandbox.keeper import zygote
if os.geteuid() == 0:
    os.setresuid(65533, 65533, 65533)
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
zygote.serve(int(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """Where the payload's user can pass, unlike pytest's own folders."""
    if shutil.which("bwrap") is None:
        pytest.skip("no bubblewrap on this machine")
    folder = Path(tempfile.mkdtemp(prefix="paddock-keepers-", dir="/var/tmp"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


others: set[int] = set()
"""Keepers' parents of other tests' providers, which live longer than a test."""


@pytest.fixture
async def provider(home: Path) -> AsyncIterator[LocalProvider]:
    others.clear()
    others.update(parents())
    opened = await open_local_provider(SandboxSettings(home=home))
    yield opened
    await opened.close()


@pytest.fixture
def image(home: Path) -> str:
    return tiny_image(ImageStore(home, payload_id=SandboxSettings().payload_id))


def parents() -> list[int]:
    """The keepers' parents that this process has, without those of others."""
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            told = " ".join(child.cmdline())
            if child.pid not in others and "zygote" in told and child.status() != psutil.STATUS_ZOMBIE:
                found.append(child.pid)
    return found


async def parent() -> int:
    """The only one; one that has just been started has no words yet."""
    async with asyncio.timeout(30):
        while not parents():
            await asyncio.sleep(0.01)
    (found,) = parents()
    return found


async def started(provider: LocalProvider, image: str) -> str:
    return (await provider.create(SandboxSpec(image=image), request_id=uuid.uuid4().hex)).sandbox_id


async def says(provider: LocalProvider, sandbox_id: str) -> bytes:
    request = ExecRequest(argv=["echo", "here"])
    return (await provider.exec(sandbox_id, request, request_id=uuid.uuid4().hex)).stdout.head


@pytest.mark.slow
@pytest.mark.sandbox
async def test_a_parent_that_is_killed_is_replaced_and_its_sandboxes_go_on(provider: LocalProvider, image: str) -> None:
    before = await started(provider, image)
    first = await parent()
    os.kill(first, signal.SIGKILL)
    after = await started(provider, image)
    assert await says(provider, after) == b"here\n"
    assert await says(provider, before) == b"here\n"
    assert await parent() != first


@pytest.mark.sandbox
async def test_many_that_ask_while_it_is_dead_all_get_their_sandbox(provider: LocalProvider, image: str) -> None:
    os.kill(await parent(), signal.SIGKILL)
    made = await asyncio.gather(*(started(provider, image) for _ in range(4)))
    assert await says(provider, made[-1]) == b"here\n"
    assert await parent()


@pytest.mark.sandbox
async def test_a_wish_that_was_cancelled_leaves_the_next_its_own_keeper(provider: LocalProvider, image: str) -> None:
    stopped = await parent()
    os.kill(stopped, signal.SIGSTOP)
    creation = asyncio.ensure_future(started(provider, image))
    await asyncio.sleep(0.05)
    creation.cancel()
    await asyncio.gather(creation, return_exceptions=True)
    os.kill(stopped, signal.SIGCONT)
    assert await says(provider, await started(provider, image)) == b"here\n"


async def test_a_command_that_is_cancelled_twice_as_its_sandbox_goes_leaves_no_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = asyncio.get_running_loop()

    async def kill(_command: object) -> None:
        await asyncio.sleep(0.05)
        raise SandboxGone("one")

    sandbox, command = (
        cast(Sandbox, SimpleNamespace(_kill=kill)),
        cast(RunningCommand, SimpleNamespace(exited=loop.create_future())),
    )
    finishing = asyncio.ensure_future(Sandbox._finish(sandbox, command, 600.0))
    for _ in range(2):
        await asyncio.sleep(0.01)
        finishing.cancel()
    await asyncio.gather(finishing, return_exceptions=True)
    await asyncio.sleep(0.1)
    del finishing
    gc.collect()
    assert caplog.messages == []


@pytest.mark.parametrize("serving", [False, True])
async def test_an_interrupt_of_a_parent_is_its_end_without_a_trace(
    caplog: pytest.LogCaptureFixture, serving: bool
) -> None:
    others.clear()
    others.update(parents())
    keepers = KeeperFactory(30.0)
    if serving:
        (await keepers.fork()).close()
    os.kill(await parent(), signal.SIGINT)
    (await keepers.fork()).close()
    await keepers.close()
    assert caplog.messages == ["the keepers' parent was killed by signal 2; it is replaced"]


async def test_parents_that_end_again_and_again_are_an_error_that_quotes_the_last_words() -> None:
    script = "import sys; sys.exit('x' * 9000 + 'no library of that name')"
    keepers = KeeperFactory(10.0, [sys.executable, "-S", "-c", script])
    with pytest.raises(SandboxError) as caught:
        await keepers.fork()
    await keepers.close()
    assert caught.value.kind == "keeper_lost"
    assert "ended with exit code 1; it said: xxx" in caught.value.message
    assert f"no library of that name; {STARTS} more ended too" in caught.value.message
    assert len(caught.value.message) < 5000


async def test_a_parent_that_hangs_is_an_error_too() -> None:
    keepers = KeeperFactory(0.05, [sys.executable, "-S", "-c", "import time; time.sleep(600)"])
    with pytest.raises(SandboxError, match=r"did not answer in 0.05 s") as caught:
        await keepers.fork()
    await keepers.close()
    assert caught.value.kind == "keeper_lost"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, None])
async def test_it_tells_how_each_keeper_ended(number: signal.Signals | None) -> None:
    keepers = KeeperFactory(30.0)
    several = [await keepers.fork() for _ in range(3)]
    for one in several:
        assert one.status is not None and not one.status.done()
    if number is not None:
        os.kill(several[1].pid, number)
    else:
        several[1].channel.close()
    assert several[1].status is not None
    assert await asyncio.wait_for(several[1].status, 30) == (0 if number is None else -number)
    assert [one.status.done() for one in (several[0], several[2]) if one.status] == [False, False]
    for one in several:
        one.close()
    await keepers.close()


async def test_of_a_parent_that_ended_no_keepers_end_is_known() -> None:
    keepers = KeeperFactory(30.0)
    keeper = await keepers.fork()
    assert keeper.status is not None
    os.kill(psutil.Process(keeper.pid).ppid(), signal.SIGKILL)
    assert await asyncio.wait_for(keeper.status, 30) is None
    keeper.close()
    await keepers.close()


async def test_a_machine_that_gives_no_process_is_told_and_the_parent_lives() -> None:
    keepers = KeeperFactory(30.0, [sys.executable, "-c", FEW_PROCESSES])
    for _ in range(2):
        with pytest.raises(SandboxError) as caught:
            await keepers.fork()
        assert caught.value.kind == "keeper_refused"
        assert "too few processes allowed (`ulimit -u` is 0; or pids.max of a cgroup)" in caught.value.message
    await keepers.close()


def test_a_descriptor_that_there_is_no_room_for_is_told() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        messages.send(theirs, {}, [0, 1, 2])
        highest = os.dup(0)
        os.close(highest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, limits[1]))
        try:
            with pytest.raises(OSError, match="could not be taken"):
                messages.receive(ours)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert os.dup(0) == highest  # none of those that came is left open
        os.close(highest)


@pytest.mark.slow
@pytest.mark.sandbox
def test_commands_start_where_few_files_may_be_open(home: Path, image: str) -> None:
    """Fewer than a command's own limit: it is then what there is."""
    script = f"""
import asyncio, resource
from pathlib import Path
from paddock.sandbox import ExecRequest, SandboxSettings, SandboxSpec, open_local_provider
async def main():
    provider = await open_local_provider(SandboxSettings(home=Path({str(home)!r})))
    resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))
    try:
        handle = await provider.create(SandboxSpec(image={image!r}), request_id="1")
        request = ExecRequest(argv=["sh", "-c", "ulimit -n"])
        print((await provider.exec(handle.sandbox_id, request, request_id="2")).stdout.head.decode())
    finally:
        await provider.close()
resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "48", done.stderr[-2000:]
