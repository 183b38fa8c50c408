"""Tests a runtime: a sandbox of the probe image, and what a payload in it can and can't do.

Harmless where isolation fails: nothing is written to what ought to be closed, it is only opened.
"""

import asyncio
import os
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

from paddock.sandbox.doctor.image import FOLDER
from paddock.sandbox.failures import BudgetExceeded
from paddock.sandbox.keeper import masks
from paddock.sandbox.processes import Process, started_at
from paddock.sandbox.protocol import Provider
from paddock.sandbox.records import ExecRequest, ExecResult, SandboxLimits, SandboxSpec
from paddock.types import Record

GONE_S = 5.0
"""In which everything of a destroyed sandbox has to be gone."""
_FILES = f"""
rm -r {FOLDER} && [ ! -e {FOLDER} ] || echo rm -r of a folder of the image fails
echo x > /root/file && read word < /root/file && [ "$word" = x ] || echo the root file system is not writable
echo x > /dev/shm/file || echo /dev/shm is not writable
"""
_ISOLATION = """
(: >> /proc/sys/kernel/core_pattern) 2>/dev/null && echo /proc/sys/kernel/core_pattern can be opened for writing
read inside outside count < /proc/self/uid_map
[ "$inside" = 0 ] && [ "$outside" != 0 ] && [ "$count" = 1 ] || echo the host sees it as root: $inside $outside $count
set -- /proc/[0-9]*
[ $# -lt 10 ] || echo it sees $# processes
(: < /proc/1/mem) 2>/dev/null && echo its first process can be read and traced
while read name value rest; do
  case $name$value in
    CapEff:0000000000000000 | CapPrm:0000000000000000 | CapBnd:0000000000000000 | NoNewPrivs:1) ;;
    CapEff:* | CapPrm:* | CapBnd:* | NoNewPrivs:*) echo $name $value ;;
    Seccomp:2) filter=on ;;
  esac
done < /proc/self/status
[ "$filter" ] || echo no filter of system calls is on
"""
_MACHINE = """
says() {
  [ -f /proc/$1 ] || return
  read -r line < /proc/$1
  [ "$line" = "$2" ] || echo "/proc/$1 tells of this machine: $line"
}
""" + "\n".join(
    f"says {path} '{masks.mask_text(path).partition(chr(10))[0]}'"
    for path in ("cmdline", "diskstats", "interrupts", "kallsyms", "keys", *masks.MASKS)
)
_NETWORK = """
while read name rest; do
  case $name in *:*) [ "${name%%:*}" = lo ] || echo it has a network interface: $name ;; esac
done < /proc/net/dev
"""
_PID_NAMESPACE = "readlink /proc/self/ns/pid"
_STUBBORN = "trap '' TERM INT HUP; (trap '' TERM INT HUP; sleep 1000 & sleep 1000) & sleep 1000"
_HOG = "x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done"
HOG_MIB = 48


class ProbeCheck(Record):
    """The result of one check."""

    name: str
    wrong: str | None = None
    """What is wrong; None: nothing."""
    duration_s: float = 0.0


async def probe(provider: Provider, image: str, *, memory: bool = False) -> list[ProbeCheck]:
    """In this order: start, files, isolation, network, memory where asked for, kill. Stops after one that raises."""
    run = _Probe(provider, image)
    steps: list[tuple[str, Callable[[], Awaitable[str]]]] = [
        ("start", run.start),
        ("files", lambda: run.script(_FILES)),
        ("isolation", lambda: run.script(_ISOLATION + _MACHINE)),
        ("network", lambda: run.script(_NETWORK)),
        *([("memory", run.memory)] if memory else []),
        ("kill", run.kill),
    ]
    checks: list[ProbeCheck] = []
    try:
        for name, step in steps:
            started = time.monotonic()
            try:
                wrong = await step()
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
                wrong = str(error) or type(error).__name__
                checks.append(ProbeCheck(name=name, wrong=wrong, duration_s=time.monotonic() - started))
                break
            checks.append(ProbeCheck(name=name, wrong=wrong or None, duration_s=time.monotonic() - started))
    finally:
        await run.end()
    return checks


class _Probe:
    def __init__(self, provider: Provider, image: str) -> None:
        self._provider = provider
        self._image = image
        self._live: list[str] = []

    async def start(self) -> str:
        await self._create(SandboxLimits(memory_mib=256, pids=64, disk_mib=64, shm_mib=8))
        return ""

    async def script(self, text: str) -> str:
        result = await self._run(text, timeout_s=10.0)
        if result.killed_by or result.exit_code:
            return f"the script ended with {result.exit_code}: {_text(result)}"
        return _text(result)

    async def memory(self) -> str:
        sandbox_id = await self._create(SandboxLimits(memory_mib=HOG_MIB, pids=64, disk_mib=64, shm_mib=8))
        try:
            result = await self._run(_HOG, timeout_s=10.0, sandbox_id=sandbox_id)
        except BudgetExceeded:
            return ""
        return "" if result.exit_code and result.killed_by != "timeout" else "nothing stopped it at its memory limit"

    async def kill(self) -> str:
        """Kill a command, then the sandbox."""
        result = await self._run(_STUBBORN, timeout_s=0.05)
        if result.killed_by != "timeout":
            return f"a time limit did not end a command: {result.exit_code}"
        namespace = _text(await self._run(_PID_NAMESPACE, timeout_s=10.0))
        started = await self._run(f"({_STUBBORN}) > /dev/null 2>&1 &", timeout_s=10.0)
        if not namespace.startswith("pid:") or started.exit_code:
            return f"a process could not be left behind: {namespace} {_text(started)}"
        victims = _processes_of(namespace)
        await self.end()
        deadline = time.monotonic() + GONE_S
        while left := [victim.pid for victim in victims if started_at(victim.pid) == victim.started]:
            if time.monotonic() > deadline:
                return f"processes outlive their sandbox: {left}"
            await asyncio.sleep(0.01)
        return ""

    async def end(self) -> None:
        while self._live:
            await self._provider.destroy(self._live.pop())

    async def _create(self, limits: SandboxLimits) -> str:
        spec = SandboxSpec(image=self._image, limits=limits)
        handle = await self._provider.create(spec, request_id=uuid.uuid4().hex)
        self._live.append(handle.sandbox_id)
        return handle.sandbox_id

    async def _run(self, script: str, *, timeout_s: float, sandbox_id: str | None = None) -> ExecResult:
        request = ExecRequest(argv=["sh", "-c", script], timeout_s=timeout_s, merge_stderr=True)
        return await self._provider.exec(sandbox_id or self._live[0], request, request_id=uuid.uuid4().hex)


def _text(result: ExecResult) -> str:
    return "; ".join(bytes(result.stdout).decode(errors="replace").split("\n")).strip("; ")[:500]


def _processes_of(pid_namespace: str) -> list[Process]:
    """Processes in that pid namespace; its number may be another's as soon as it has ended."""
    members = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            inside = os.readlink(folder / "ns/pid") == pid_namespace  # noqa: PTH115 - its text, not a path
        except OSError:
            continue
        if inside and (started := started_at(int(folder.name))) is not None:
            members.append(Process(int(folder.name), started))
    return members
