"""What the host reads in `/proc` of its own machine is not read inside."""

import re
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from paddock.sandbox import ExecRequest, ExecResult
from paddock.sandbox.keeper import clock
from paddock.sandbox.local import LocalProvider

Sh = Callable[..., Awaitable[ExecResult]]
pytestmark = pytest.mark.sandbox
OF_THE_HOST = """
buddyinfo cgroups cmdline config.gz consoles crypto devices diskstats dma execdomains interrupts iomem ioports
kallsyms kcore key-users keys kmsg loadavg locks mdstat misc modules mtrr pagetypeinfo partitions pressure/cpu
pressure/io pressure/memory sched_debug schedstat slabinfo softirqs swaps timer_list version vmallocinfo vmstat zoneinfo
bus/pci/devices bus/input/devices driver/rtc fs/nfsd/exports irq/default_smp_affinity scsi/scsi sysrq-trigger
sys/dev/cdrom/info sys/fs/aio-nr sys/fs/dentry-state sys/fs/file-nr sys/fs/inode-nr sys/fs/inode-state
sys/kernel/pty/nr sys/kernel/random/boot_id
"""
FOLDERS = "acpi asound bus driver fs irq pressure scsi sys/dev"
READ = """
import os, sys
def read(path):
    try:
        with open(path, "rb") as file:
            return file.read(65536).hex()
    except OSError:
        return "-"
for path in sys.argv[1:]:
    print(path, ",".join(os.listdir(path)) if os.path.isdir(path) else read(path), sep=":")
"""


async def read_inside(provider: LocalProvider, sandbox: str, paths: list[str]) -> dict[str, str]:
    request = ExecRequest(argv=["python3", "-c", READ, *(f"/proc/{path}" for path in paths)], head_bytes=1 << 24)
    result = await provider.exec(sandbox, request, request_id=uuid.uuid4().hex)
    assert result.ok, bytes(result.stderr)
    said = dict(line.split(":", 1) for line in bytes(result.stdout).decode().splitlines())
    return {path.removeprefix("/proc/"): text for path, text in said.items()}


def of_the_host(path: str) -> str:
    try:
        with Path("/proc", path).open("rb") as file:
            return file.read(65536).hex()
    except OSError:
        return "-"


async def test_no_file_tells_what_the_host_reads_in_it(provider: LocalProvider, sandbox: str) -> None:
    inside = await read_inside(provider, sandbox, OF_THE_HOST.split())
    told = {path for path, text in inside.items() if len(text) > 4 and text == of_the_host(path)}
    assert told == set()
    numbers = bytes.fromhex(inside["loadavg"]).split()
    assert len(numbers) == 5


async def test_folders_of_devices_are_empty(provider: LocalProvider, sandbox: str) -> None:
    inside = await read_inside(provider, sandbox, FOLDERS.split())
    assert {path for path, text in inside.items() if text not in ("", "-")} == set()


async def test_a_sandbox_is_as_old_as_itself(sh: Sh) -> None:
    if not clock.NAMESPACE:
        pytest.skip("this kernel has no time namespaces")
    said = bytes((await sh("cat /proc/uptime /proc/stat")).stdout).decode()
    uptime = float(said.split()[0])
    assert clock.UPTIME_S <= uptime < clock.UPTIME_S + 60
    booted = re.search(r"^btime (\d+)", said, re.MULTILINE)
    assert booted
    assert abs(time.time() - uptime - int(booted[1])) < 5
