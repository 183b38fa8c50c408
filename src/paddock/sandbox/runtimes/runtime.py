"""The protocol of container runtimes: a runtime starts a sandbox, which a keeper then joins.

Law     the payload is the payload's user and nobody else: uid 0 of a user namespace without rights over the host, in
        pid, mount, network, IPC and UTS namespaces of its own, without a capability. The keeper makes the rest the same
        for all (`keeper.settle`): what is mounted, how large `/dev/shm` is, what the upper layer starts with.
Overlay an `OverlayRuntime` is a program that runs `pid1` over an overlay which the keeper has mounted, in namespaces
        which it has made. A container engine makes all of it by itself and is joined.
"""

import shutil
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol

from paddock.sandbox.images import LocalImage
from paddock.sandbox.keeper.launch import RuntimeStart
from paddock.sandbox.records import RuntimeName, SandboxSpec

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH of every runtime's program: this process's own would show the host inside."""


class RuntimeRequest(NamedTuple):
    """What a runtime needs to start a sandbox."""

    sandbox_id: str
    owner_id: str
    spec: SandboxSpec
    image: LocalImage
    folder: Path
    """Of this sandbox alone; belongs to the payload's user."""
    payload_id: int


class ContainerRuntime(Protocol):
    """One way to make a sandbox."""

    name: ClassVar[RuntimeName]
    own_uids: ClassVar[bool]
    """The overlay is ours to mount, so each sandbox can have a uid of its own."""

    def missing(self) -> str | None:
        """Why it can't be used here, and the line to run; None: its program is there. Quick."""
        ...

    def version(self) -> str:
        """Changes when the program does."""
        ...

    async def begin(self, request: RuntimeRequest) -> RuntimeStart:
        """Start a sandbox; SandboxError where the runtime refuses, and nothing of it stays then."""
        ...

    async def status(self, sandbox_id: str) -> int | None:
        """Exit code, as a shell reports it, of a first process that has ended and is no child of the keeper's; None: it
        is one, or the code is unknown."""
        ...

    async def end(self, sandbox_id: str) -> None:
        """Remove what `begin` made outside the sandbox's folder; its processes are dead or not. Idempotent."""
        ...

    def clean(self, owner_id: str) -> list[str]:
        """Remove what a dead owner left with this runtime; names of what was removed."""
        ...


class OverlayRuntime:
    """Base of the runtimes that are programs over our overlay: they live in the keeper's namespaces and die there."""

    name: ClassVar[RuntimeName]
    own_uids: ClassVar[bool] = True
    program: ClassVar[str]
    install: ClassVar[str]
    """The line that installs it."""

    def missing(self) -> str | None:
        return None if self.find() else f"no {self.program} on PATH: {self.install}"

    def find(self) -> str | None:
        """Its program."""
        return shutil.which(self.program)

    def version(self) -> str:
        return file_version(self.find())

    def command(self, spec: SandboxSpec) -> list[str]:
        """Up to what it is to run, which must be the first process of its pid namespace; `{merged}` stands for the root
        file system, `{folder}` for what it lies in."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        """Its own, beside PATH and HOME."""
        return {}

    def lay_out(self, folder: Path) -> None:
        """Write what it needs into the sandbox's folder, readable by all."""

    async def begin(self, request: RuntimeRequest) -> RuntimeStart:
        self.lay_out(request.folder)
        command = self.command(request.spec)
        environment = {"PATH": PATH, "HOME": "{folder}", "LANG": "C.UTF-8", **self.environment()}
        program = self.find() or self.program
        return RuntimeStart([program, *command[1:]], environment)

    async def status(self, sandbox_id: str) -> int | None:
        return None

    async def end(self, sandbox_id: str) -> None:
        """Its processes were all below the keeper's."""

    def clean(self, owner_id: str) -> list[str]:
        return []


def file_version(program: str | None) -> str:
    """Which file a program is, without running it."""
    if program is None:
        return ""
    path = Path(program).resolve()
    status = path.stat()
    return f"{path} {status.st_size} {status.st_mtime_ns}"
