"""Budgets: what uses up its own is stopped and told as that; the host and the others go on."""

import asyncio
import time

from paddock.conformance.behaviours import Behaviour, expect
from paddock.conformance.sandboxes.fixture import (
    SandboxTarget,
    ShellFixture,
    create_sandbox,
    error_of,
    provider_of,
    sandbox_fixture,
)
from paddock.sandbox import BudgetExceeded, SandboxLimits

HOG = "import time; data = bytearray(400 << 20); time.sleep(3); print(len(data))"
SPINNERS = "while :; do :; done"


async def memory_hogs_are_killed_and_told(target: SandboxTarget) -> None:
    async with sandbox_fixture(target, limits=SandboxLimits(memory_mib=128)) as sandbox:
        result = await sandbox.python(HOG, timeout_s=30)
        expect((result.exit_code, result.killed_by) == (137, "memory"), f"it ended as {result}")
        kills = await sandbox.provider.kills(sandbox.id)
        expect(len(kills) == 1 and kills[0].limit_mib == 128, f"its kill is told as {kills}")
        expect("python" in kills[0].command or "(" in kills[0].command, f"its command is told as {kills[0].command}")
        expect(not await sandbox.provider.kills(sandbox.id), "a kill is told twice")
        stats = await sandbox.provider.stats(sandbox.id)
        expect(stats.memory_kills == 1, f"{stats.memory_kills} kills are counted")
        shell = await sandbox.shell()
        await shell.out("cd /tmp")
        result_in_shell = await shell.run(
            "python3 -c 'x = bytearray(400 << 20); import time; time.sleep(3)'", timeout_s=30
        )
        expect((result_in_shell.exit_code, result_in_shell.killed_by) == (137, None), f"in a shell: {result_in_shell}")
        expect(await shell.out("pwd") == "/tmp", "a hog took its shell with it")
        expect(len(await sandbox.provider.kills(sandbox.id)) == 1, "a kill in a shell is not told")


async def shared_memory_counts(target: SandboxTarget) -> None:
    async with sandbox_fixture(target, limits=SandboxLimits(memory_mib=1024, shm_mib=16)) as sandbox:
        result = await sandbox.sh("dd if=/dev/zero of=/dev/shm/x bs=1M count=100")
        expect(not result.ok, "/dev/shm took more than its size")
        expect(int(await sandbox.out("wc -c < /dev/shm/x")) <= 16 << 20, "/dev/shm is larger than asked for")
        stats = await sandbox.provider.stats(sandbox.id)
        expect(stats.memory_mib >= 15, f"16 MiB of shared memory are told as {stats.memory_mib:.1f}")


async def shared_memory_is_bounded(target: SandboxTarget) -> None:
    async with sandbox_fixture(target, limits=SandboxLimits(memory_mib=64, shm_mib=1024)) as sandbox:
        error = await error_of(sandbox.sh("dd if=/dev/zero of=/dev/shm/x bs=1M count=500; sleep 20", timeout_s=30))
        if error is None:
            # The writer alone was killed: what it wrote stays under the limit, or the next command finds out.
            error = await error_of(sandbox.sh("test $(wc -c < /dev/shm/x) -le $((64 << 20)) || sleep 20", timeout_s=30))
        memory = isinstance(error, BudgetExceeded) and error.budget == "memory"
        expect(error is None or memory, f"500 MiB of shared memory with a limit of 64 MiB: {error!r}")
        if error is None:
            used = (await sandbox.provider.stats(sandbox.id)).memory_mib
            expect(used <= 65, f"{used:.0f} MiB are in use with a limit of 64 MiB")


async def fork_bombs_are_bounded(target: SandboxTarget) -> None:
    async with provider_of(target) as provider:
        sandbox = await create_sandbox(provider, target, limits=SandboxLimits(pids=64))
        other = await create_sandbox(provider, target)
        started = time.monotonic()
        error = await error_of(sandbox.sh("f() { f | f & }; f; sleep 30", timeout_s=2))
        took = time.monotonic() - started
        expect(error is None or isinstance(error, BudgetExceeded), f"it raised {error!r}")
        expect(took < 15, f"a fork bomb with a time limit of 2 s took {took:.0f} s")
        expect(await other.out("echo here") == "here", "a fork bomb broke another sandbox")
        if error is None:
            error = await error_of(sandbox.out("echo here"))
            expect(error is None or isinstance(error, BudgetExceeded), f"afterwards: {error!r}")


async def disk_is_bounded(target: SandboxTarget) -> None:
    async with sandbox_fixture(target, limits=SandboxLimits(disk_mib=20)) as sandbox:
        result = await sandbox.sh("dd if=/dev/zero of=/tmp/x bs=1M count=10")
        expect(result.ok, f"10 MiB of 20: {bytes(result.stderr)!r}")
        script = "for i in 1 2 3 4 5 6 7 8; do dd if=/dev/zero of=/root/$i bs=1M count=10 2>/dev/null; done; sleep 30"
        error = await error_of(sandbox.sh(script, timeout_s=40))
        expect(isinstance(error, BudgetExceeded) and error.budget == "disk", f"90 MiB of 20: {error!r}")
        error = await error_of(sandbox.sh("true"))
        expect(isinstance(error, BudgetExceeded) and error.budget == "disk", f"the next command: {error!r}")
        paths = {change.path for change in await sandbox.provider.changes(sandbox.id, "/root")}
        expect("/root/1" in paths, f"what it wrote before is told as {sorted(paths)}")


async def deleted_files_count(target: SandboxTarget) -> None:
    async with sandbox_fixture(target, limits=SandboxLimits(disk_mib=20)) as sandbox:
        shell = await sandbox.shell()
        await shell.out("exec 3>/tmp/a; rm /tmp/a; head -c 6000000 /dev/zero >&3")
        stats = await sandbox.provider.stats(sandbox.id)
        expect(5.5 <= stats.disk_mib < 8, f"5.7 MiB in a deleted file that is open are told as {stats.disk_mib:.1f}")
        script = (
            "exec 4>/tmp/b 5>/tmp/c; rm /tmp/b /tmp/c; for i in 4 5; do head -c 9000000 /dev/zero >&$i; done; sleep 30"
        )
        error = await error_of(sandbox.sh(script, timeout_s=40))
        expect(isinstance(error, BudgetExceeded) and error.budget == "disk", f"23 MiB of 20: {error!r}")


async def output_until(shell: ShellFixture, command: str, word: bytes) -> None:
    """Run `command` in `shell` until it has written `word`; a machine may hold up what writes to its disk for long."""
    text = bytes((await shell.run(command, wait_s=0.1)).output)
    for _ in range(600):
        if word in text:
            break
        text += bytes((await shell.poll(0.1)).output)
    expect(word in text, f"{command!r} did not write {word!r} in a minute: {text[-300:]!r}")


async def memory_is_no_disk(target: SandboxTarget) -> None:
    async with sandbox_fixture(target, limits=SandboxLimits(disk_mib=20, shm_mib=64)) as sandbox:
        await sandbox.needs("python3")
        code = (
            "import os, sys; m = os.memfd_create('m'); os.write(m, bytes(20 << 20));"
            "s = open('/dev/shm/s', 'wb+', 0); s.write(bytes(20 << 20)); os.unlink('/dev/shm/s');"
            "print('held', flush=True); sys.stdin.read()"
        )
        await output_until(await sandbox.shell(), f'python3 -c "{code}"', b"held")
        stats = await sandbox.provider.stats(sandbox.id)
        expect(stats.disk_mib < 10, f"40 MiB in files that are memory are told as {stats.disk_mib:.0f} MiB on disk")


async def files_are_bounded(target: SandboxTarget) -> None:
    async with sandbox_fixture(target, limits=SandboxLimits(disk_files=300)) as sandbox:
        make = "i=0; while [ $i -lt {} ]; do : > /root/{}$i; i=$((i+1)); done"
        await sandbox.out(make.format(200, "few"))
        stats = await sandbox.provider.stats(sandbox.id)
        expect(200 <= stats.disk_files <= 250, f"200 files are told as {stats.disk_files}")
        error = await error_of(sandbox.sh(f"{make.format(200, 'many')}; sleep 30", timeout_s=40))
        expect(isinstance(error, BudgetExceeded) and error.budget == "disk", f"400 files of 300: {error!r}")


async def cpu_time_is_bounded(target: SandboxTarget) -> None:
    async with sandbox_fixture(target, limits=SandboxLimits(cpu_s=0.5)) as sandbox:
        error = await error_of(sandbox.sh(f"({SPINNERS}) & {SPINNERS}", timeout_s=40))
        expect(isinstance(error, BudgetExceeded) and error.budget == "cpu", f"it ended with {error!r}")


async def descriptors_are_bounded(target: SandboxTarget) -> None:
    async with sandbox_fixture(target, limits=SandboxLimits(open_files=100)) as sandbox:
        shell = await sandbox.shell()
        for who, text in (
            ("a command", await sandbox.out("ulimit -n; ulimit -c")),
            ("a shell", await shell.out("ulimit -n; ulimit -c")),
        ):
            expect(text.split() == ["100", "0"], f"{who} may have {text.split()} descriptors and core bytes")


async def use_is_told(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        before = await sandbox.provider.stats(sandbox.id)
        await sandbox.needs("python3")
        program = (
            "x = bytearray(b'1') * (100 << 20); open('/tmp/f', 'wb').write(x[:30 << 20]); sum(range(10**7));"
            "print('used', flush=True); input()"
        )
        shell = await sandbox.shell()
        await output_until(shell, f'python3 -c "{program}; print(1)"', b"used")
        now = before
        for _ in range(50):
            now = await sandbox.provider.stats(sandbox.id)
            if now.memory_mib > before.memory_mib + 90 and now.cpu_s > before.cpu_s + 0.1 and now.disk_mib >= 29:
                break
            await asyncio.sleep(0.1)
        expect(now.memory_mib > before.memory_mib + 90, f"100 MiB of memory are told as {now.memory_mib:.0f}")
        expect(now.cpu_s > before.cpu_s + 0.1, f"CPU time is told as {now.cpu_s:.2f} s after {before.cpu_s:.2f} s")
        expect(now.disk_mib >= 29, f"30 MiB on disk are told as {now.disk_mib:.1f}")
        expect(now.pids > before.pids, f"{now.pids} processes are told, {before.pids} before")
        await shell.type(b"\n")
        await shell.poll(10)
        after = await sandbox.provider.stats(sandbox.id)
        expect(after.memory_mib < now.memory_mib - 90, f"freed memory is told as {after.memory_mib:.0f}")
        expect(after.peak_memory_mib >= now.memory_mib - 1, f"the peak is told as {after.peak_memory_mib:.0f}")


SUITE = [
    Behaviour("a memory hog is killed and told, its sandbox lives", memory_hogs_are_killed_and_told),
    Behaviour("/dev/shm has the size asked for, and counts as memory", shared_memory_counts),
    Behaviour("shared memory can't grow over the memory limit", shared_memory_is_bounded),
    Behaviour("a fork bomb harms only its own sandbox", fork_bombs_are_bounded),
    Behaviour("who writes more than the disk limit has used up the budget", disk_is_bounded),
    Behaviour("what is deleted and still open counts to the disk limit", deleted_files_count),
    Behaviour("memory that looks like files is no disk", memory_is_no_disk),
    Behaviour("who makes more files than the limit has used up the budget", files_are_bounded),
    Behaviour("who uses more CPU time than the limit has used up the budget", cpu_time_is_bounded),
    Behaviour("descriptors are limited, core files are not written", descriptors_are_bounded),
    Behaviour("what a sandbox uses is told", use_is_told),
]
