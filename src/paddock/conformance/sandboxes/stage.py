"""What a behaviour of sandboxes acts in: a provider of its own with one sandbox, and what the host can see of it.

Subject  a runtime of this machine and an image; `open` may give another provider, such as one that is broken.
Marks    `room.mark` is a number that no other process of the machine has among its words: `sleep <mark>` is found on
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


class SandboxSubject(NamedTuple):
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
        """Without links."""
        return str(self.settings.home.resolve())

    async def ready(self) -> None:
        """RuntimeMissing where nothing can be checked here."""
        async with opened(self):
            pass


class Room:
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
        """What a script that succeeds says."""
        result = await self.sh(script, **request)
        said = f"{bytes(result.stdout)[-300:]!r} {bytes(result.stderr)[-300:]!r}"
        expect(result.ok, f"{script[:200]!r} ended with {result.exit_code} ({result.killed_by}): {said}")
        return bytes(result.stdout).decode(errors="replace").strip()

    async def fails(self, script: str) -> bool:
        return not (await self.sh(script, timeout_s=10)).ok

    async def python(self, program: str, *words: str, **request: Any) -> ExecResult:
        await self.needs("python3")
        return await self.run("python3", "-c", program, *words, **request)

    async def has(self, path: str) -> bool:
        """Asked without a process inside."""
        try:
            await self.provider.read(self.id, path)
        except FileNotFoundError:
            return False
        return True

    async def written(self, path: str) -> None:
        """Wait for the file."""
        for _ in range(1000):
            if await self.has(path):
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"{path} was not written")

    async def needs(self, *programs: str) -> None:
        """The image has to have these for the behaviour to say anything."""
        for program in programs:
            if await self.fails(f"command -v {program} >/dev/null"):
                raise NotApplicable(f"the image has no {program}")

    async def shell(self, **request: Any) -> "Terminal":
        shell_id = await self.provider.open_shell(self.id, ShellRequest(**request))
        return Terminal(self, shell_id)

    def processes(self) -> list[int]:
        """Of the host, with our mark among their words."""
        return marked(self.mark)

    async def gone(self, what: str) -> None:
        """Fail unless nothing with our mark lives soon."""
        await eventually(lambda: not self.processes(), f"{what} lives on")

    async def up(self, *, within_s: float = GONE_WITHIN_S) -> int:
        """The host's id of a process with our mark, once there is one."""
        await eventually(lambda: bool(self.processes()), f"`sleep {self.mark}` did not start", within_s=within_s)
        return self.processes()[0]


class Terminal:
    """A shell in a room."""

    def __init__(self, room: Room, shell_id: str) -> None:
        self.room = room
        self.id = shell_id

    async def run(self, line: str, **limits: float) -> ShellResult:
        return await self.room.provider.shell_run(self.room.id, self.id, line, **limits)

    async def out(self, line: str) -> str:
        """What a line that succeeds writes."""
        result = await self.run(line, timeout_s=30)
        said = bytes(result.output)
        expect(result.exit_code == 0, f"{line[:100]!r} ended with {result.exit_code} ({result.killed_by}): {said!r}")
        return said.decode(errors="replace").strip()

    async def poll(self, wait_s: float) -> ShellResult:
        return await self.room.provider.shell_poll(self.room.id, self.id, wait_s=wait_s)

    async def type(self, data: bytes) -> None:
        await self.room.provider.shell_type(self.room.id, self.id, data)

    async def interrupt(self) -> ShellResult:
        return await self.room.provider.shell_interrupt(self.room.id, self.id)

    async def close(self) -> None:
        await self.room.provider.close_shell(self.room.id, self.id)


@asynccontextmanager
async def opened(subject: SandboxSubject) -> AsyncIterator[Provider]:
    provider = await subject.open(subject.settings)
    try:
        yield provider
    finally:
        await provider.close()


async def another(provider: Provider, subject: SandboxSubject, **spec: Any) -> Room:
    """One more sandbox of a provider."""
    wish = SandboxSpec(**{"image": subject.image, **spec})
    return Room(provider, await provider.create(wish, request_id=uuid.uuid4().hex))


@asynccontextmanager
async def a_room(subject: SandboxSubject, **spec: Any) -> AsyncIterator[Room]:
    async with opened(subject) as provider:
        yield await another(provider, subject, **spec)


async def eventually(holds: Callable[[], bool], message: str, *, within_s: float = GONE_WITHIN_S) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while not holds():
        expect(loop.time() < deadline, f"{message} after {within_s:g} s")
        await asyncio.sleep(0.02)


async def raised(awaitable: Awaitable[object]) -> Exception | None:
    """What it raises; None: nothing."""
    try:
        await awaitable
    except Exception as error:  # noqa: BLE001 - it is told to the caller
        return error
    return None


def marked(mark: str) -> list[int]:
    """The host's processes with a word that is `mark`."""
    found = []
    for folder in _processes():
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            state = (folder / "stat").read_bytes().rpartition(b")")[2].split()[0]
        except OSError:
            continue
        if mark.encode() in words and state != b"Z":
            found.append(int(folder.name))
    return found


def namespace_of(pid: int | str, kind: str) -> str:
    """Empty: it is gone, or not ours to see."""
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}")  # noqa: PTH115 - it points nowhere
    except OSError:
        return ""


def neighbours(pid: int) -> Sequence[int]:
    """Processes in the same pid namespace, it included."""
    mine = namespace_of(pid, "pid")
    return [int(folder.name) for folder in _processes() if namespace_of(folder.name, "pid") == mine]


def first_of(pid: int) -> int:
    """The process that a process's pid namespace hangs on, as the host sees it: its end is the sandbox's."""
    for one in sorted(neighbours(pid)):
        lines = Path(f"/proc/{one}/status").read_text().splitlines()
        if any(line.startswith("NSpid") and line.split()[-1] == "1" for line in lines):
            return one
    raise AssertionError("its first process is not there")


def _processes() -> list[Path]:
    return [folder for folder in Path("/proc").iterdir() if folder.name.isdigit()]
