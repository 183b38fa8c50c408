"""The fixture of a runtime's checks: a provider of its own with one sandbox, and what the host can see of it.

Target   a runtime of this machine and an image; `open` may give another provider, such as one that is broken.
Marks    `sandbox.mark` is a number that no other process of the machine has among its words: `sleep <mark>` is found on
         the host by it, whatever runs it.
"""

import asyncio
import os
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from paddock.conformance.behaviours import NotApplicable, expect
from paddock.sandbox import (
    ExecRequest,
    ExecResult,
    Provider,
    SandboxHandle,
    SandboxSettings,
    SandboxSpec,
    ShellRequest,
    ShellResult,
    open_provider,
)

GONE_WITHIN_S = 5.0
"""Seconds in which killed processes have to be gone."""
Open = Callable[[SandboxSettings], Awaitable[Provider]]


class SandboxTarget(NamedTuple):
    """A runtime under test."""

    settings: SandboxSettings
    image: str
    image_env: dict[str, str] = {}
    open: Open = open_provider

    @property
    def kind(self) -> str:
        return "sandboxes"

    @property
    def real_home(self) -> str:
        """The home folder, with links resolved."""
        return str(self.settings.home.resolve())

    async def ready(self) -> None:
        """Raise RuntimeMissing where no sandbox can be started here."""
        async with provider_of(self):
            pass


class SandboxFixture:
    """A sandbox, and short ways to act in it."""

    def __init__(self, provider: Provider, handle: SandboxHandle) -> None:
        self.provider = provider
        self.handle = handle
        self.id = handle.sandbox_id
        self.mark = str(random.randrange(10**8, 10**9))

    async def run(self, *argv: str, **request: Any) -> ExecResult:
        return await self.provider.exec(self.id, ExecRequest(argv=list(argv), **request), request_id=uuid.uuid4().hex)

    async def sh(self, script: str, **request: Any) -> ExecResult:
        return await self.run("/bin/sh", "-c", script, **request)

    async def out(self, script: str, **request: Any) -> str:
        """Run a script and return its output. Fails the check where the script fails."""
        result = await self.sh(script, **request)
        text = f"{bytes(result.stdout)[-300:]!r} {bytes(result.stderr)[-300:]!r}"
        expect(result.ok, f"{script[:200]!r} ended with {result.exit_code} ({result.killed_by}): {text}")
        return bytes(result.stdout).decode(errors="replace").strip()

    async def fails(self, script: str) -> bool:
        return not (await self.sh(script, timeout_s=10)).ok

    async def python(self, program: str, *words: str, **request: Any) -> ExecResult:
        await self.needs("python3")
        return await self.run("python3", "-c", program, *words, **request)

    async def has(self, path: str) -> bool:
        """Whether a file is there; looked up without a process inside."""
        try:
            await self.provider.read(self.id, path)
        except FileNotFoundError:
            return False
        return True

    async def wait_for_file(self, path: str) -> None:
        """Wait until the file is there."""
        for _ in range(1000):
            if await self.has(path):
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"{path} was not written")

    async def needs(self, *programs: str) -> None:
        """Raise NotApplicable where the image lacks one of these programs."""
        for program in programs:
            if await self.fails(f"command -v {program} >/dev/null"):
                raise NotApplicable(f"the image has no {program}")

    async def shell(self, **request: Any) -> "ShellFixture":
        shell_id = await self.provider.open_shell(self.id, ShellRequest(**request))
        return ShellFixture(self, shell_id)

    def processes(self) -> list[int]:
        """The host's processes that have our mark among their arguments."""
        return processes_marked(self.mark)

    async def expect_gone(self, what: str) -> None:
        """Fail unless all processes with our mark have ended soon."""
        await eventually(lambda: not self.processes(), f"{what} lives on")

    async def wait_for_process(self, *, within_s: float = GONE_WITHIN_S) -> int:
        """Wait for a process with our mark and return its id on the host."""
        await eventually(lambda: bool(self.processes()), f"`sleep {self.mark}` did not start", within_s=within_s)
        return self.processes()[0]


class ShellFixture:
    """A shell in a sandbox."""

    def __init__(self, sandbox: SandboxFixture, shell_id: str) -> None:
        self.sandbox = sandbox
        self.id = shell_id

    async def run(self, line: str, **limits: float) -> ShellResult:
        return await self.sandbox.provider.shell_run(self.sandbox.id, self.id, line, **limits)

    async def out(self, line: str) -> str:
        """Run a line and return its output. Fails the check where the line fails."""
        result = await self.run(line, timeout_s=30)
        text = bytes(result.output)
        expect(result.exit_code == 0, f"{line[:100]!r} ended with {result.exit_code} ({result.killed_by}): {text!r}")
        return text.decode(errors="replace").strip()

    async def poll(self, wait_s: float) -> ShellResult:
        return await self.sandbox.provider.shell_poll(self.sandbox.id, self.id, wait_s=wait_s)

    async def type(self, data: bytes) -> None:
        await self.sandbox.provider.shell_type(self.sandbox.id, self.id, data)

    async def interrupt(self) -> ShellResult:
        return await self.sandbox.provider.shell_interrupt(self.sandbox.id, self.id)

    async def close(self) -> None:
        await self.sandbox.provider.close_shell(self.sandbox.id, self.id)


@asynccontextmanager
async def provider_of(target: SandboxTarget) -> AsyncIterator[Provider]:
    provider = await target.open(target.settings)
    try:
        yield provider
    finally:
        await provider.close()


async def create_sandbox(provider: Provider, target: SandboxTarget, **spec: Any) -> SandboxFixture:
    """Create one more sandbox of a provider."""
    wanted = SandboxSpec(**{"image": target.image, **spec})
    return SandboxFixture(provider, await provider.create(wanted, request_id=uuid.uuid4().hex))


@asynccontextmanager
async def sandbox_fixture(target: SandboxTarget, **spec: Any) -> AsyncIterator[SandboxFixture]:
    async with provider_of(target) as provider:
        yield await create_sandbox(provider, target, **spec)


async def eventually(holds: Callable[[], bool], message: str, *, within_s: float = GONE_WITHIN_S) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while not holds():
        expect(loop.time() < deadline, f"{message} after {within_s:g} s")
        await asyncio.sleep(0.02)


async def error_of(awaitable: Awaitable[object]) -> Exception | None:
    """Return the exception that an awaitable raises; None: it raises nothing."""
    try:
        await awaitable
    except Exception as error:  # noqa: BLE001 - it is returned to the caller
        return error
    return None


def processes_marked(mark: str) -> list[int]:
    """Return the ids of the host's processes that have `mark` as an argument."""
    pids = []
    for folder in _processes():
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            state = (folder / "stat").read_bytes().rpartition(b")")[2].split()[0]
        except OSError:
            continue
        if mark.encode() in words and state != b"Z":
            pids.append(int(folder.name))
    return pids


def namespace_of(pid: int | str, kind: str) -> str:
    """Return the namespace of a process as a link's text; empty where the process has ended or is not ours."""
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}")  # noqa: PTH115 - it points nowhere
    except OSError:
        return ""


def neighbours(pid: int) -> Sequence[int]:
    """Return the processes in the same pid namespace, this one included."""
    mine = namespace_of(pid, "pid")
    return [int(folder.name) for folder in _processes() if namespace_of(folder.name, "pid") == mine]


def namespace_init(pid: int) -> int:
    """Return the host's id of process 1 of a process's pid namespace: when it ends, the sandbox ends."""
    for neighbour in sorted(neighbours(pid)):
        lines = Path(f"/proc/{neighbour}/status").read_text().splitlines()
        if any(line.startswith("NSpid") and line.split()[-1] == "1" for line in lines):
            return neighbour
    raise AssertionError("its first process is not there")


def _processes() -> list[Path]:
    return [folder for folder in Path("/proc").iterdir() if folder.name.isdigit()]
