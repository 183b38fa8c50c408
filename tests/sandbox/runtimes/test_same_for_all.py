"""A payload can't tell by which runtime it was started, nor on which machine."""

import os
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from paddock.sandbox import ExecResult, SandboxLimits, SandboxSpec, ShellRequest
from paddock.sandbox.local import LocalProvider

Sh = Callable[..., Awaitable[ExecResult]]
pytestmark = pytest.mark.sandbox


def lines(result: ExecResult) -> list[str]:
    assert result.ok, bytes(result.stdout)
    return bytes(result.stdout).decode().splitlines()


async def test_only_the_image_proc_and_dev_are_mounted(sh: Sh) -> None:
    points = [line.split()[1] for line in lines(await sh("cat /proc/mounts"))]
    others = [point for point in points if point != "/" and not point.startswith(("/proc", "/dev"))]
    assert others == []


async def test_nothing_readable_inside_names_a_folder_of_the_host(sh: Sh, home: Path) -> None:
    script = "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ /proc/[0-9]*/mountinfo /proc/mounts 2>/dev/null; true"
    result = await sh(script)
    for host in (str(home), home.name, str(Path.home() / ".pyenv"), os.environ.get("VIRTUAL_ENV", str(home))):
        assert host.encode() not in bytes(result.stdout)


async def test_a_fresh_sandbox_has_changed_nothing(sh: Sh, provider: LocalProvider, sandbox: str) -> None:
    assert await provider.changes(sandbox) == []
    lines(await sh("mkdir /made && echo x > /made/file && rm -r /usr/share/tiny/deep && : > /etc/new"))
    kinds = {change.path: change.kind for change in await provider.changes(sandbox)}
    assert kinds.pop("/usr/share/tiny/deep", None) == "removed" or "/usr/share/tiny/deep/file" in kinds
    assert {"/made", "/made/file", "/etc/new"} <= set(kinds)
    assert all(path.startswith(("/made", "/etc/new", "/usr/share/tiny")) for path in kinds)


async def test_shared_memory_has_its_limit_and_is_all_that_is_writable_beside_the_image(
    provider: LocalProvider, image: str, sh: Sh
) -> None:
    spec = SandboxSpec(image=image, limits=SandboxLimits(shm_mib=3))
    other = (await provider.create(spec, request_id=uuid.uuid4().hex)).sandbox_id
    script = "dd if=/dev/zero of=/dev/shm/fill bs=1M count=8 2>/dev/null; stat -c %s /dev/shm/fill"
    assert lines(await sh(script, sandbox_id=other)) == [str(3 << 20)]
    script = "for f in /dev/x /proc/x /sys/kernel/x /dev/mqueue/x; do touch $f 2>/dev/null && echo $f; done; true"
    assert lines(await sh(f"rm -rf /sys; {script}", sandbox_id=other)) == []


async def test_terminals_can_be_opened_and_devices_are_there(sh: Sh) -> None:
    script = "import pty, os; a, b = pty.openpty(); os.write(b, b'x'); print(os.read(a, 1).decode(), os.ttyname(b)[:9])"
    assert lines(await sh(f'python3 -c "{script}"')) == ["x /dev/pts/"]
    devices = "null zero full random urandom tty stdin stdout stderr fd ptmx"
    assert lines(await sh(f"for d in {devices}; do [ -e /dev/$d ] || [ -L /dev/$d ] || echo $d; done")) == []


async def test_orphans_do_not_stay_as_zombies(sh: Sh) -> None:
    await sh("for i in 1 2 3; do (sh -c 'sleep 0.05 &' &); done; true")
    zombies = "grep -ls '^State:.Z' /proc/[0-9]*/status"
    script = f"sleep 0.3; for i in $(seq 300); do {zombies} >/dev/null || break; sleep 0.1; done; {zombies}; true"
    assert lines(await sh(script)) == []


async def test_it_is_root_of_nothing(sh: Sh) -> None:
    script = "cat /proc/self/uid_map; id -u; grep -E '^(Cap(Eff|Prm|Bnd)|NoNewPrivs)' /proc/self/status"
    mapping, uid, *rest = lines(await sh(script))
    inside, outside, count = mapping.split()
    assert (inside, count, uid) == ("0", "1", "0")
    assert outside != "0"
    assert [line.split()[1].strip("0") for line in rest] == ["", "", "", "1"]
    script = "(: >> /proc/sys/kernel/core_pattern) 2>/dev/null && echo open; unshare -U true 2>/dev/null && echo nested"
    assert lines(await sh(f"{script}; true")) == []


async def test_loopback_works_and_is_all_there_is(sh: Sh) -> None:
    serve = "import socket; s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname())"
    assert lines(await sh(f'python3 -c "{serve}; print(c.getpeername()[0])"')) == ["127.0.0.1"]
    assert [line.split(":")[0].strip() for line in lines(await sh("cat /proc/net/dev")) if ":" in line] == ["lo"]


async def test_a_snapshot_forks_the_file_system(sh: Sh, provider: LocalProvider, sandbox: str, image: str) -> None:
    lines(
        await sh("rm -r /usr/share/tiny && mkdir /usr/share/tiny && echo new > /usr/share/tiny/new; echo x > /root/x")
    )
    name = f"fork-{uuid.uuid4().hex}"
    assert await provider.snapshot(sandbox, name) == name
    fork = (await provider.create(SandboxSpec(image=name), request_id=uuid.uuid4().hex)).sandbox_id
    assert lines(await sh("ls /usr/share/tiny; cat /root/x; rm -r /usr/share/tiny", sandbox_id=fork)) == ["new", "x"]
    assert await provider.changes(fork) != []
    assert lines(await sh("ls /usr/share/tiny")) == ["new"]
    await provider.destroy(fork)
    provider.store.remove(name)


async def test_git_resets_a_repository_of_the_image_layers(sh: Sh) -> None:
    script = """
    cd /root && git init -q r && cd r && git config user.email a@b && git config user.name a && mkdir d &&
    echo 1 > d/f && git add -A && git commit -qm 1 && rm -rf d && mv .git/HEAD .git/h && mv .git/h .git/HEAD &&
    git reset -q --hard && git clean -fdxq && cat d/f"""
    assert lines(await sh(script)) == ["1"]


@pytest.mark.slow
async def test_a_program_can_be_started_as_soon_as_it_is_written(provider: LocalProvider, sandbox: str) -> None:
    """Also by a shell that is already there, while other processes keep this machine busy."""
    shell = await provider.open_shell(sandbox, ShellRequest())
    for _ in range(100):
        await provider.write(sandbox, "/tmp/program", b"#!/bin/sh\necho started\n", mode=0o755)
        done = await provider.shell_run(sandbox, shell, "/tmp/program", timeout_s=60)
        assert bytes(done.output) == b"started\n"
