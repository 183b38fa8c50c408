"""However a sandbox or its owner ends: nothing is left, and the living are left alone."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from paddock.sandbox import ExecResult, SandboxSettings, SandboxSpec
from paddock.sandbox.cgroups import find_cgroups
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.owner import is_alive, owners, sandboxes
from paddock.sandbox.processes import Process, started_at
from paddock.sandbox.runtimes import ContainerRuntime
from paddock.sandbox.sweep import sweep

Sh = Callable[..., Awaitable[ExecResult]]
pytestmark = pytest.mark.sandbox
OWNER = """
import asyncio, sys
from pathlib import Path
from paddock.sandbox import ExecRequest, SandboxSettings, SandboxSpec
from paddock.sandbox.cgroups import find_cgroups
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.runtimes import RUNTIMES

async def main(home, image, name):
    runtime = next(make() for make in RUNTIMES if make.name == name)
    provider = LocalProvider(SandboxSettings(home=Path(home)), runtime, find_cgroups())
    handle = await provider.create(SandboxSpec(image=image), request_id="1")
    script = "trap '' TERM HUP INT; (setsid sleep 1000 &) >/dev/null 2>&1; readlink /proc/self/ns/pid"
    result = await provider.exec(handle.sandbox_id, ExecRequest(argv=["sh", "-c", script]), request_id="2")
    print(bytes(result.stdout).decode().strip(), flush=True)
    await asyncio.sleep(1000)

asyncio.run(main(*sys.argv[1:]))
"""

PATCHER = """
import asyncio, sys
from pathlib import Path
from paddock.sandbox import SandboxSettings, SandboxSpec
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.runtimes import RUNTIMES

async def main(home, image, name):
    runtime = next(make() for make in RUNTIMES if make.name == name)
    provider = LocalProvider(SandboxSettings(home=Path(home)), runtime, None)
    handle = await provider.create(SandboxSpec(image=image), request_id="1")
    await provider.write(handle.sandbox_id, "/tmp/new", b"1")
    await provider.patch(handle.sandbox_id, "/tmp")

asyncio.run(main(*sys.argv[1:]))
"""


def processes_of(pid_namespace: str) -> list[Process]:
    """Those in it now: its number may be another's as soon as it has ended."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            inside = str((folder / "ns/pid").readlink()) == pid_namespace
        except OSError:
            continue
        if inside and (started := started_at(int(folder.name))) is not None:
            found.append(Process(int(folder.name), started))
    return found


def living(processes: list[Process]) -> list[Process]:
    return [process for process in processes if started_at(process.pid) == process.started]


def keepers() -> set[int]:
    """Children of this process's zygotes; sandboxes of other tests that go on have theirs among them."""
    zygotes = [child for child in psutil.Process().children() if "zygote" in " ".join(child.cmdline())]
    return {keeper.pid for zygote in zygotes for keeper in zygote.children()}


def mounts_naming(text: str) -> list[str]:
    return [line for line in Path("/proc/mounts").read_text().splitlines() if text in line]


async def gone(processes: list[Process], timeout_s: float = 60.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while living(processes):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.02)
    return True


async def test_destroy_leaves_no_process_no_mount_and_no_folder(
    sh: Sh, provider: LocalProvider, sandbox: str, home: Path
) -> None:
    result = await sh("(setsid sleep 1000 &) >/dev/null 2>&1; readlink /proc/self/ns/pid")
    processes = processes_of(bytes(result.stdout).decode().strip())
    assert len(processes) >= 2
    before = set(mounts_naming("overlay"))
    await provider.destroy(sandbox)
    assert living(processes) == []
    assert set(mounts_naming("overlay")) <= before
    assert mounts_naming(str(home / "state")) == []
    assert [path for owner in owners(home) for path in sandboxes(owner)] == []


async def test_a_killed_keeper_takes_its_sandbox_along(sh: Sh, provider: LocalProvider, image: str) -> None:
    others = keepers()
    sandbox = (await provider.create(SandboxSpec(image=image), request_id=uuid.uuid4().hex)).sandbox_id
    script = "(setsid sleep 1000 &) >/dev/null 2>&1; readlink /proc/self/ns/pid"
    result = await sh(script, sandbox_id=sandbox)
    processes = processes_of(bytes(result.stdout).decode().strip())
    assert len(processes) >= 2
    [keeper] = keepers() - others
    os.kill(keeper, signal.SIGKILL)
    if provider.runtime.name == "docker":
        await provider.destroy(sandbox)  # its container is the daemon's, not the keeper's
    assert await gone(processes)


async def test_sigkill_of_an_owner_leaves_nothing_running_and_the_next_start_removes_the_rest(
    runtime: ContainerRuntime, provider: LocalProvider, image: str, home: Path
) -> None:
    mine = await provider.create(SandboxSpec(image=image), request_id=uuid.uuid4().hex)
    other = subprocess.Popen(  # noqa: ASYNC220 - it has to outlive this loop
        [sys.executable, "-c", OWNER, str(home), image, runtime.name], stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    with other.stdout:
        processes = processes_of((await asyncio.to_thread(other.stdout.readline)).strip())
    assert len(processes) >= 2
    other.kill()
    other.wait()
    assert await gone(processes)
    assert mounts_naming(str(home / "state")) == []

    dead = [owner for owner in owners(home) if not is_alive(owner)]
    assert [len(sandboxes(owner)) for owner in dead] == [1]
    cgroups = await asyncio.to_thread(find_cgroups)
    swept = await asyncio.to_thread(sweep, home, cgroups)
    assert [one.owner_id for one in swept if one.complete] == [owner.name for owner in dead]
    assert not any(owner.exists() for owner in dead)
    assert any("container" in what for one in swept for what in one.removed) == (runtime.name == "docker")
    if cgroups:
        assert not {owner.name for owner in dead} & set(cgroups.owners())
    assert [handle.sandbox_id for handle in provider.live()] == [mine.sandbox_id]
    assert await provider.changes(mine.sandbox_id) == []


@pytest.mark.slow
async def test_an_owner_that_is_killed_while_it_makes_a_patch_leaves_nothing_elsewhere(
    runtime: ContainerRuntime, image: str, home: Path, tmp_path: Path
) -> None:
    temporary, git = tmp_path / "tmp", tmp_path / "bin/git"
    temporary.mkdir()
    git.parent.mkdir()
    git.write_text("#!/bin/sh\nkill -KILL $PPID\n")
    git.chmod(0o755)
    env = {**os.environ, "TMPDIR": str(temporary), "PATH": f"{git.parent}:{os.environ['PATH']}"}
    words = [sys.executable, "-c", PATCHER, str(home), image, runtime.name]
    done = await asyncio.to_thread(subprocess.run, words, env=env, check=False)
    assert done.returncode == -signal.SIGKILL
    assert list(temporary.iterdir()) == []
    dead = [owner for owner in owners(home) if not is_alive(owner)]
    assert list(dead[0].glob("*/paddock-git-*")) != []
    await asyncio.to_thread(sweep, home, None)
    assert not any(owner.exists() for owner in dead)


async def test_a_provider_removes_what_dead_owners_left_when_it_opens(runtime: ContainerRuntime, home: Path) -> None:
    left = home / "state/1-dead"
    (left / "somebox/upper").mkdir(parents=True)
    (left / "lock").touch()
    made = LocalProvider(SandboxSettings(home=home), runtime, None)
    deadline = time.monotonic() + 60
    while left.exists() and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    assert not left.exists()
    assert any(is_alive(owner) for owner in owners(home))
    await made.close()


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("losetup"), reason="needs root and losetup")
def test_loop_devices_over_a_dead_owners_files_are_detached(home: Path) -> None:
    left = home / "state/2-dead"
    left.mkdir(parents=True)
    (left / "lock").touch()
    disk = left / "disk"
    disk.write_bytes(bytes(1 << 20))
    done = subprocess.run(["losetup", "--find", "--show", disk], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no loop device: {done.stderr}")
    swept = sweep(home, None)
    assert done.stdout.strip() in [what for one in swept for what in one.removed]
    listed = subprocess.run(["losetup", "--list", "--noheadings"], capture_output=True, text=True, check=True).stdout
    assert str(disk) not in listed
    assert not left.exists()
