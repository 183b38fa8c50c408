"""Claims about whose doing a sandbox's end is, told by its wait statuses and its cgroup: what is done from outside is
the machine's, what nobody can name is in doubt, and nothing that runs inside ends it."""

import asyncio
import errno
import os
import random
import signal
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from paddock.conformance.sandboxes.fixture import namespace_init, processes_marked
from paddock.sandbox import (
    BudgetExceeded,
    ExecRequest,
    ExecResult,
    SandboxError,
    SandboxGone,
    SandboxLimits,
    SandboxSettings,
    SandboxSpec,
    ShellRequest,
)
from paddock.sandbox.cgroups import find_cgroups
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.runtimes import ContainerRuntime
from paddock.sandbox.sandbox import Sandbox
from paddock.sandbox.watchdog import HostMemory, Watchdog, WatchdogSettings

Sh = Callable[..., Awaitable[ExecResult]]
pytestmark = pytest.mark.sandbox
TERMINALS = """
import os, time
held = []
try:
    while len(held) < 300:
        held.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
except OSError:
    pass
print(len(held), flush=True)
time.sleep(100)
"""
"""At most as many as no sandbox with a bound of its own has."""
DESCRIPTORS = """
import os, time
held = []
try:
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    print(len(held), flush=True)
time.sleep(100)
"""
HOLD = """
import os
held = [os.memfd_create("m") for _ in range(2)]
while True:
    for one in held:
        os.write(one, bytes(1 << 20))
"""
LEASE = """
import fcntl, os, signal, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
try:
    program = os.open("/tmp/program", os.O_RDWR)
    fcntl.fcntl(program, fcntl.F_SETLEASE, fcntl.F_WRLCK)
except OSError as error:
    os.close(program)
    print(error.errno, flush=True)
else:
    print("leased", flush=True)
time.sleep(100)
"""
"""Whoever starts the program waits for its writer."""
LIMITER = """
import os, resource, time
while True:
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in (1, os.getpid()):
            try:
                resource.prlimit(int(name), resource.RLIMIT_NOFILE, (0, 0))
            except OSError:
                pass
"""
"""Takes all descriptors from whatever starts."""


def sandbox_of(provider: LocalProvider, sandbox: str) -> Sandbox:
    return provider._sandboxes[sandbox]


async def failure(provider: LocalProvider, sandbox: str, words: list[str] | None = None) -> SandboxError:
    """Of a command that runs while something else is done."""
    with pytest.raises(SandboxError) as error_of:
        await provider.exec(sandbox, ExecRequest(argv=words or ["sleep", "60"]), request_id=uuid.uuid4().hex)
    return error_of.value


async def ended_by(provider: LocalProvider, sandbox: str, act: Callable[[], None]) -> SandboxError:
    running = asyncio.ensure_future(failure(provider, sandbox))
    await asyncio.sleep(0.2)
    act()
    return await asyncio.wait_for(running, 30)


async def test_a_keeper_that_is_killed_is_the_machines_doing(provider: LocalProvider, sandbox: str) -> None:
    keeper = sandbox_of(provider, sandbox).keeper._keeper.pid
    gone = await ended_by(provider, sandbox, lambda: os.kill(keeper, signal.SIGKILL))
    assert isinstance(gone, SandboxGone)
    assert (gone.doubtful, "its keeper ended (Killed)" in gone.message) == (False, True)


async def test_a_keeper_that_breaks_is_in_doubt(provider: LocalProvider, sandbox: str) -> None:
    keeper = sandbox_of(provider, sandbox).keeper._keeper.pid
    gone = await ended_by(provider, sandbox, lambda: os.kill(keeper, signal.SIGSEGV))
    assert isinstance(gone, SandboxGone)
    assert (gone.doubtful, "its keeper ended (Segmentation fault)" in gone.message) == (True, True)


async def test_a_first_process_that_is_killed_is_the_machines_doing(
    provider: LocalProvider, sandbox: str, sh: Sh
) -> None:
    mark = f"1{random.randrange(10**8, 10**9)}"
    await sh(f"sleep {mark} >/dev/null 2>&1 &")
    while not (found := processes_marked(mark)):
        await asyncio.sleep(0.02)
    first = namespace_init(found[0])
    gone = await ended_by(provider, sandbox, lambda: os.kill(first, signal.SIGKILL))
    assert isinstance(gone, SandboxGone)
    assert (gone.doubtful, "its first process ended (Killed)" in gone.message) == (False, True), gone.message


async def test_a_keeper_that_is_stopped_is_the_machines_doing(
    runtime: ContainerRuntime, home: Path, image: str
) -> None:
    settings = SandboxSettings(home=home, answer_timeout_s=1.0)
    provider = LocalProvider(settings, runtime, await asyncio.to_thread(find_cgroups))
    sandbox = (await provider.create(SandboxSpec(image=image), request_id="1")).sandbox_id
    os.kill(sandbox_of(provider, sandbox).keeper._keeper.pid, signal.SIGSTOP)
    gone = await failure(provider, sandbox)
    await provider.close()
    assert (gone.doubtful, "did not answer `exec`" in gone.message) == (False, True)


async def test_one_that_was_destroyed_is_not_in_doubt(provider: LocalProvider, sandbox: str) -> None:
    running = asyncio.ensure_future(failure(provider, sandbox))
    await asyncio.sleep(0.1)
    await provider.destroy(sandbox)
    assert not (await running).doubtful


async def test_memory_that_ran_out_above_it_is_the_machines_and_never_told_as_the_commands(
    provider: LocalProvider, sandbox: str, sh: Sh
) -> None:
    cgroup = sandbox_of(provider, sandbox).cgroup
    if cgroup is None:
        pytest.skip("no cgroup with a memory limit can be made here (version 1 needs root, version 2 delegation)")
    above = cgroup.folders[0].parent  # its owner's
    [limit] = [path for name in ("memory.limit_in_bytes", "memory.max") if (path := above / name).exists()]
    limit.write_text(str(100 << 20))
    with pytest.raises(SandboxError, match="not for its own limit") as error_of:  # the command's, or the next
        await sh("python3 -c 'bytearray(b\"x\") * (200 << 20)'")
        await provider.kills(sandbox)
    assert (error_of.value.kind, error_of.value.doubtful) == ("host_memory", False)
    assert (await failure(provider, sandbox)).kind == "host_memory"


async def test_memory_that_ran_out_at_its_own_limit_is_its_own(provider: LocalProvider, image: str) -> None:
    if provider.cgroups is None:
        pytest.skip("no cgroup with a memory limit can be made here (version 1 needs root, version 2 delegation)")
    limits = SandboxLimits(memory_mib=64)
    sandbox = (await provider.create(SandboxSpec(image=image, limits=limits), request_id=uuid.uuid4().hex)).sandbox_id
    request = ExecRequest(argv=["python3", "-c", HOLD])
    for _ in range(3):
        try:
            await provider.exec(sandbox, request, request_id=uuid.uuid4().hex)
            killed = [killed.by for killed in await provider.kills(sandbox)]
        except BudgetExceeded as over:  # the kernel took its first process along, or its memory is no process's
            assert over.budget == "memory"
            return
        assert killed in (["kernel"], ["watchdog"])


async def test_the_machines_own_memory_is_its_failure(runtime: ContainerRuntime, home: Path, image: str) -> None:
    provider = LocalProvider(SandboxSettings(home=home), runtime, await asyncio.to_thread(find_cgroups))
    await provider._watchdog.close()
    settings = WatchdogSettings(period_s=0.1, host_floor_mib=40)
    provider._watchdog = Watchdog(settings, host=lambda: HostMemory(1 << 30, 30 << 20, 0))
    provider._watchdog.start()
    sandbox = (await provider.create(SandboxSpec(image=image), request_id="1")).sandbox_id
    gone = await failure(
        provider, sandbox, ["python3", "-c", "x = bytearray(b'x') * (30 << 20); input = __import__('time').sleep(60)"]
    )
    await provider.close()
    assert (gone.kind, gone.doubtful) == ("host_memory", False)


@pytest.mark.parametrize("signal_name", ["KILL", "TERM", "STOP", "SEGV"])
async def test_signals_from_inside_end_neither_it_nor_its_next_command(sh: Sh, signal_name: str) -> None:
    await sh(f"kill -{signal_name} 1; kill -{signal_name} -1", timeout_s=2)
    assert bytes((await sh("echo alive")).stdout) == b"alive\n"


async def test_terminals_and_descriptors_that_are_all_held_are_no_failure_of_the_machines(
    provider: LocalProvider, sandbox: str, sh: Sh
) -> None:
    for name, script in (("terminals", TERMINALS), ("descriptors", DESCRIPTORS)):
        await provider.write(sandbox, f"/tmp/{name}.py", script.encode())
        await sh(f"python3 /tmp/{name}.py > /tmp/{name} 2>&1 &")
        while not (await sh(f"cat /tmp/{name}")).stdout.head:
            await asyncio.sleep(0.05)
    assert bytes((await sh("echo alive")).stdout) == b"alive\n"
    if int((await sh("cat /tmp/terminals")).stdout.head) == 300:
        pytest.skip("with this runtime terminals are the machine's: holding all of them would harm others")
    with pytest.raises(SandboxError) as error_of:
        await provider.open_shell(sandbox, ShellRequest())
    assert error_of.value.doubtful


async def test_a_command_that_is_kept_from_starting_is_in_doubt(provider: LocalProvider, sandbox: str, sh: Sh) -> None:
    await provider.write(sandbox, "/tmp/limiter.py", LIMITER.encode())
    await sh("python3 /tmp/limiter.py > /dev/null 2>&1 &")
    failures = []
    for _ in range(60):
        try:
            await sh("true")
        except SandboxError as error:
            failures.append(error)
            break
    assert [(error.kind, error.doubtful) for error in failures] == [("keeper_call", True)]


async def test_nothing_inside_holds_up_the_start_of_a_program_by_a_lease(
    provider: LocalProvider, sandbox: str, sh: Sh
) -> None:
    await sh("cp /bin/cat /tmp/program")
    await provider.write(sandbox, "/tmp/lease.py", LEASE.encode())
    await sh("python3 /tmp/lease.py > /tmp/said 2>&1 &")
    while not (said := (await sh("cat /tmp/said")).stdout.head):
        await asyncio.sleep(0.05)
    assert int(said) == errno.EINVAL
    request = ExecRequest(argv=["/tmp/program", "/tmp/said"])
    async with asyncio.timeout(10):
        assert (await provider.exec(sandbox, request, request_id="program")).ok


async def test_a_shell_whose_program_is_gone_ends_its_line(provider: LocalProvider, sandbox: str) -> None:
    shell = await provider.open_shell(sandbox, ShellRequest())
    await provider.shell_run(sandbox, shell, "rm -f /bin/sh /usr/bin/sh; exit")
    result = await provider.shell_run(sandbox, shell, "echo never", timeout_s=10)
    assert (result.exit_code, result.closed, b"No such file" in bytes(result.output)) == (126, True, True)
    with pytest.raises(SandboxError) as error_of:
        await provider.open_shell(sandbox, ShellRequest())
    assert (error_of.value.kind, error_of.value.doubtful) == ("shell_unavailable", True)


async def test_a_full_shared_memory_behind_a_link_is_no_full_disk_for_certain(
    provider: LocalProvider, sandbox: str, sh: Sh
) -> None:
    await sh("dd if=/dev/zero of=/dev/shm/all bs=1M; : > /dev/shm/new; ln -s /dev/shm/new /tmp/link")
    with pytest.raises(SandboxError, match=os.strerror(errno.ENOSPC)) as error_of:
        await provider.write(sandbox, "/tmp/link", bytes(1 << 20))
    assert (error_of.value.kind, error_of.value.doubtful) == ("disk_failed", True)


async def test_budgets_are_told_as_that_when_the_sandbox_is_gone(
    runtime: ContainerRuntime, home: Path, image: str
) -> None:
    settings = SandboxSettings(home=home, watchdog=WatchdogSettings(disk_period_s=0.2))
    provider = LocalProvider(settings, runtime, await asyncio.to_thread(find_cgroups))
    limits = SandboxLimits(disk_mib=2)
    sandbox = (await provider.create(SandboxSpec(image=image, limits=limits), request_id="1")).sandbox_id
    many = "for n in 1 2 3 4 5 6; do head -c 1000000 /dev/zero > /var/tmp/$n; done; sleep 60"
    with pytest.raises(BudgetExceeded):
        await provider.exec(sandbox, ExecRequest(argv=["sh", "-c", many]), request_id="2")
    with pytest.raises(BudgetExceeded):
        await provider.kills(sandbox)
    await provider.close()
