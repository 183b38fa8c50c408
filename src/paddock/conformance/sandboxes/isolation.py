"""Isolation: nothing inside has rights over the host, sees it, or reaches it.

Checks made by the host's view (`/proc` of its processes) need the sandboxes to be on this machine.
"""

import asyncio
import os
import re
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from paddock.conformance.behaviours import Behaviour, expect
from paddock.conformance.sandboxes.fixture import (
    SandboxFixture,
    SandboxTarget,
    create_sandbox,
    namespace_of,
    neighbours,
    processes_marked,
    provider_of,
    sandbox_fixture,
)

NAMESPACES = ("pid", "mnt", "net", "ipc", "uts", "user")
DEVICES = "console core fd full fuse mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero"
MAX_VISIBLE = 12
"""Processes of the runtime and of the check itself."""
OPEN_FOR_WRITING = """
cd /proc
for file in $(find sys/kernel sys/vm sys/fs sys/dev sysrq-trigger irq -type f 2>/dev/null); do
  ( : >> "$file" ) 2>/dev/null && echo "$file"
done; true
"""
OWN = re.compile(r"sys/kernel/(auto_msgmni|msg\w+|sem\w*|shm\w+|ns_last_pid|pid_max)$|sys/fs/mqueue/")
"""Settings of a namespace, its own."""
WRITABLE_SYS = """
for file in /sys/power/state /sys/kernel/mm/ksm/run /sys/kernel/uevent_helper /sys/fs/cgroup/cgroup.procs; do
  ( : >> "$file" ) 2>/dev/null && echo "$file"
done
for folder in /sys/fs /sys/fs/cgroup /sys/fs/cgroup/*; do
  mkdir "$folder/paddock-probe" 2>/dev/null && echo "$folder"
done; true
"""
CONNECT = """
import socket, sys
kind, name = sys.argv[1], sys.argv[2]
link = socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET)
link.settimeout(3)
try:
    link.connect("\\0" + name if kind == "unix" else ("127.0.0.1", int(name)))
    print("connected")
except OSError as error:
    print("refused", error)
"""
NEST = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for flags in (0x10000000, 0x10020000, 0x00020000, 0x20000000, 0x40000000):
    if os.fork() == 0:
        print(hex(flags), libc.unshare(flags), flush=True)
        os._exit(0)
    os.wait()
"""

TAKE = """
import ctypes, os
call, mine, taken = ctypes.CDLL(None).syscall, os.getpid(), set()
open("/tmp/up", "w").close()
while not os.path.exists("/tmp/stop"):
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) > mine):
        open("/tmp/seen", "w").close()
        try:
            taken.update(os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd") if int(fd) > 2)
        except OSError:
            pass
        held = call(434, pid, 0)
        for fd in range(3, 32):
            got = call(438, held, fd, 0)
            if got >= 0:
                taken.add(os.readlink(f"/proc/self/fd/{got}"))
                os.close(got)
        if held >= 0:
            os.close(held)
print(*sorted(link for link in taken if link[0] != "/" or "cgroup" in link))
"""
"""What a command has of its own are the first three, and, while it starts, the libraries that it reads."""
LONG_PATH = "/-:" * 35_000 + "/usr/bin:/bin"
"""Of a command whose start takes a while: its program is looked for in each."""


async def no_process_is_root_of_the_host(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        shell = await sandbox.shell()
        await shell.run(f"sleep {sandbox.mark} &")
        sleeper = asyncio.ensure_future(sandbox.run("sleep", sandbox.mark))
        pid = await sandbox.wait_for_process()
        payload = (await sandbox.out("cat /proc/self/uid_map")).split()[1]
        expect(payload != "0", "it is root of the host")
        expect(os.geteuid() == 0 or payload == str(os.geteuid()), f"it is uid {payload} of the host, and not ours")
        for other in {*neighbours(pid), *sandbox.processes()}:
            uids, gids = _status(other, "Uid"), _status(other, "Gid")
            expect(set(uids) <= {payload}, f"a process inside has uids {uids} on the host, not {payload}")
            expect(set(gids) <= {payload if os.geteuid() == 0 else str(os.getegid())}, f"gids {gids} on the host")
            groups = _status(other, "Groups")
            expect(os.geteuid() != 0 or set(groups) <= {payload, "65534"}, f"it is in groups {groups}")
        sleeper.cancel()
        await asyncio.wait([sleeper])
        mapped = (await sandbox.out("cat /proc/self/uid_map")).split()
        expect(len(mapped) == 3 and mapped[2] == "1", f"more than one uid is mapped: {mapped}")


async def nothing_has_capabilities(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        shell = await sandbox.shell()
        script = "grep -E '^(Cap|NoNewPrivs)' /proc/self/status"
        for who, text in (("a command", await sandbox.out(script)), ("a shell", await shell.out(script))):
            fields = dict(line.split(":\t") for line in text.replace("\r", "").splitlines())
            expect(fields.pop("NoNewPrivs") == "1", f"{who} may gain privileges by exec")
            left = {name: value for name, value in fields.items() if int(value, 16)}
            expect(not left, f"{who} has capabilities: {left}")


async def namespaces_are_its_own(target: SandboxTarget) -> None:
    async with provider_of(target) as provider:
        rooms = [await create_sandbox(provider, target) for _ in range(2)]
        by_sandbox = [await _namespaces(sandbox) for sandbox in rooms]
        for kind in NAMESPACES:
            inside = {namespaces[kind] for namespaces in by_sandbox} | {namespace_of("self", kind)}
            expect(len(inside) == 3, f"{kind} namespaces are shared: {inside}")


async def _namespaces(sandbox: SandboxFixture) -> dict[str, str]:
    words = (await sandbox.out("for kind in pid mnt net ipc uts user; do readlink /proc/self/ns/$kind; done")).split()
    return dict(zip(NAMESPACES, words, strict=True))


async def host_processes_are_out_of_sight(target: SandboxTarget) -> None:
    with _host_sleep() as (pid, mark):
        async with sandbox_fixture(target) as sandbox:
            visible = await sandbox.out("ls -d /proc/[0-9]* | wc -l")
            expect(int(visible) <= MAX_VISIBLE, f"{visible} processes are visible in a new sandbox")
            words = await sandbox.out("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
            expect(mark not in words, "a process of the host can be seen")
            await sandbox.sh(f"kill -9 {pid}; kill -9 -{pid}")
            await asyncio.sleep(0.05)
            expect(processes_marked(mark), "a process of the host was killed from inside")


async def killing_all_kills_nothing_outside(target: SandboxTarget) -> None:
    with _host_sleep() as (_, mark):
        async with provider_of(target) as provider:
            sandbox, other = await create_sandbox(provider, target), await create_sandbox(provider, target)
            try:
                await sandbox.sh("kill -9 -1; kill -9 0", timeout_s=10)
            except Exception as error:  # noqa: BLE001 - a sandbox may kill itself; what counts is the rest
                expect(type(error).__name__ == "SandboxGone", f"a sandbox that killed itself raises {error!r}")
            expect(await other.out("echo here") == "here", "kill -9 -1 reached another sandbox")
            expect(processes_marked(mark), "kill -9 -1 reached the host")


async def only_loopback_is_there(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        lines = (await sandbox.out("cat /proc/net/dev")).splitlines()[2:]
        names = {line.split(":")[0].strip() for line in lines}
        expect("lo" in names, f"there is no loopback among {names}")
        routes = (await sandbox.out("cat /proc/net/route")).splitlines()[1:]
        expect(not routes, f"there are routes: {routes}")
        moved = [line for line in lines if not line.strip().startswith("lo:") and int(line.split(":")[1].split()[0])]
        expect(not moved, f"packets came by {moved}")


async def host_listeners_are_out_of_reach(target: SandboxTarget) -> None:
    name = f"paddock-{uuid.uuid4().hex}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0{name}")
        abstract.listen()
        async with sandbox_fixture(target) as sandbox:
            for kind, where in (("tcp", str(tcp.getsockname()[1])), ("unix", name)):
                text = bytes((await sandbox.python(CONNECT, kind, where)).stdout)
                expect(text.startswith(b"refused"), f"a {kind} listener of the host: {text!r}")


async def kernel_settings_are_closed(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        await sandbox.needs("find")
        writable = [file for file in (await sandbox.out(OPEN_FOR_WRITING, timeout_s=60)).split() if not OWN.match(file)]
        expect(not writable, f"{len(writable)} files of the kernel can be opened for writing: {writable[:5]}")
        writable = (await sandbox.out(WRITABLE_SYS)).split()
        expect(not writable, f"can be written below /sys: {writable}")


async def host_files_are_out_of_reach(target: SandboxTarget) -> None:
    with _canaries(target) as canaries:
        async with sandbox_fixture(target) as sandbox:
            for canary in canaries:
                for way in ("", "/proc/1/root", "/proc/self/root/../..", "/proc/1/cwd/../../.."):
                    expect(await sandbox.fails(f"cat {way}{canary}"), f"{way}{canary} of the host can be read")
            store = target.real_home
            expect(await sandbox.fails(f"ls {store}"), "the image store can be listed")


async def host_paths_are_out_of_sight(target: SandboxTarget) -> None:
    async with sandbox_fixture(target, hostname="asked") as sandbox:
        texts = {
            "mounts": await sandbox.out("cat /proc/self/mountinfo /proc/self/mounts"),
            "command lines": await sandbox.out("cat /proc/[0-9]*/cmdline | tr '\\0' ' '"),
            "environments": await sandbox.out("cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' ' '; true"),
            "links": await sandbox.out(
                "ls -l /proc/[0-9]*/cwd /proc/[0-9]*/exe /proc/[0-9]*/root /proc/[0-9]*/fd 2>&1; true"
            ),
            "cgroups": await sandbox.out("cat /proc/self/cgroup"),
        }
        host_words = [str(target.settings.home), target.real_home, socket.gethostname(), sandbox.id]
        for where, text in texts.items():
            for path in host_words:
                whole = rf"(?<!\w){re.escape(path)}(?![\w-])"
                expect(not re.search(whole, text), f"{path} of the host stands in the {where}")
        expect(await sandbox.out("cat /proc/sys/kernel/hostname") == "asked", "the hostname is not the one asked for")


async def namespaces_do_not_nest(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        lines = bytes((await sandbox.python(NEST)).stdout).decode().splitlines()
        made = [line for line in lines if not line.endswith(" -1")]
        expect(len(lines) == 5 and not made, f"namespaces could be made inside: {lines}")


async def mounts_are_refused(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        await sandbox.needs("mount")
        await sandbox.out("mkdir -p /tmp/m")
        for words in ("-t tmpfs none /tmp/m", "--bind / /tmp/m", "-o remount,rw /dev", "-t proc proc /tmp/m"):
            expect(await sandbox.fails(f"mount {words}"), f"mount {words} works")


async def devices_are_harmless(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        names = set((await sandbox.out("ls /dev")).split())
        odd = sorted(names - set(DEVICES.split()))
        expect(not odd, f"there are devices {odd}")
        expect(not await sandbox.out("for f in /dev/* /dev/*/*; do test -b $f && echo $f; done; true"), "block devices")
        await sandbox.out(
            "echo x > /dev/null; head -c 4 /dev/urandom | wc -c | grep -q 4; head -c 4 /dev/zero | wc -c | grep -q 4"
        )
        if await sandbox.fails("command -v mknod"):
            return
        for words in ("/tmp/disk b 8 0", "/tmp/mem c 1 1", "/dev/kmsg c 1 11"):
            expect(await sandbox.fails(f"mknod {words} && : < {words.split()[0]}"), f"mknod {words} works")


async def descriptors_of_the_keeper_are_out_of_reach(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        taking = asyncio.ensure_future(sandbox.python(TAKE))
        try:
            await sandbox.wait_for_file("/tmp/up")
            for _ in range(100):
                await sandbox.run("true", env={"PATH": LONG_PATH})
                if await sandbox.has("/tmp/seen"):
                    break
        finally:
            await sandbox.provider.write(sandbox.id, "/tmp/stop", b"")
            result = await taking
        text = bytes(result.stdout).decode()
        expect(result.ok, f"the check ended with {result.exit_code}: {bytes(result.stderr)[-300:]!r}")
        expect(not text.strip(), f"of a command that starts, descriptors can be taken or seen: {text}")


async def sandboxes_do_not_meet(target: SandboxTarget) -> None:
    async with provider_of(target) as provider:
        sandbox, other = await create_sandbox(provider, target), await create_sandbox(provider, target)
        sleeper = asyncio.ensure_future(sandbox.run("sleep", sandbox.mark))
        await sandbox.wait_for_process()
        await sandbox.out("echo secret > /tmp/mine; echo secret > /dev/shm/mine")
        expect(sandbox.mark not in await other.out("cat /proc/[0-9]*/cmdline"), "another sandbox's process can be seen")
        expect(await other.fails("cat /tmp/mine"), "another sandbox's file can be read")
        expect(await other.fails("cat /dev/shm/mine"), "another sandbox's shared memory can be read")
        sleeper.cancel()
        await asyncio.wait([sleeper])


def _status(pid: int, field: str) -> list[str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return []
    return next((line.split()[1:] for line in lines if line.startswith(f"{field}:")), [])


@contextmanager
def _canaries(target: SandboxTarget) -> Iterator[list[Path]]:
    """Files of the host that all may read, one of them beside the images."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory(dir=target.settings.home) as at_home:
        canaries = [Path(folder) / "canary", Path(at_home) / "canary"]
        for canary in canaries:
            canary.parent.chmod(0o755)
            canary.write_text("of the host")
            canary.chmod(0o644)
        yield canaries


@contextmanager
def _host_sleep() -> Iterator[tuple[int, str]]:
    """A process of the host's, and its mark."""
    mark = str(uuid.uuid4().int % 10**9 + 10**9)
    with subprocess.Popen(["sleep", mark]) as process:
        try:
            yield process.pid, mark
        finally:
            process.kill()


SUITE = [
    Behaviour("no process inside is root of the host", no_process_is_root_of_the_host),
    Behaviour("no process inside has a capability, or can gain one", nothing_has_capabilities),
    Behaviour("each sandbox has namespaces of its own", namespaces_are_its_own),
    Behaviour("processes of the host are neither seen nor reached", host_processes_are_out_of_sight),
    Behaviour("kill -9 -1 kills nothing outside", killing_all_kills_nothing_outside),
    Behaviour("there is loopback, and no route", only_loopback_is_there),
    Behaviour("listeners of the host are out of reach", host_listeners_are_out_of_reach),
    Behaviour("the kernel's settings can't be written", kernel_settings_are_closed),
    Behaviour("files of the host can't be read", host_files_are_out_of_reach),
    Behaviour("paths and names of the host are not shown", host_paths_are_out_of_sight),
    Behaviour("no namespace can be made inside", namespaces_do_not_nest),
    Behaviour("nothing can be mounted", mounts_are_refused),
    Behaviour("devices are harmless, and none can be made", devices_are_harmless),
    Behaviour("a command that starts has no descriptors to be taken", descriptors_of_the_keeper_are_out_of_reach),
    Behaviour("two sandboxes see nothing of each other", sandboxes_do_not_meet),
]
