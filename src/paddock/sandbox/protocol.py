"""The protocol of a provider of sandboxes: methods that take ids and records, so that it can also be served remotely.

Law     every method may raise `SandboxError` (the machine's) or `BudgetExceeded` (the policy's), `SandboxRequestError`
        (the caller's); none of these ever stands as a command's output. What a sandbox has changed can be read while
        it lives, or after it was killed for its own budget. `destroy` is idempotent and always ends.
Ids     see `records`: `create` and `exec` are replayed by their request id, so a lost reply can be asked for again.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from paddock.sandbox.layers import Archive, Patch
from paddock.sandbox.records import (
    ExecRequest,
    ExecResult,
    MemoryKill,
    PathChange,
    SandboxHandle,
    SandboxSpec,
    ShellRequest,
    ShellResult,
    Stats,
)


class Provider(Protocol):
    """Makes sandboxes and acts on them by id."""

    async def create(self, spec: SandboxSpec, *, request_id: str) -> SandboxHandle:
        """A running sandbox, ready for its first command."""
        ...

    async def destroy(self, sandbox_id: str) -> None:
        """Nothing of it is left when this returns: no process, mount, directory or cgroup."""
        ...

    async def exec(self, sandbox_id: str, request: ExecRequest, *, request_id: str) -> ExecResult:
        """Run a command to its end."""
        ...

    async def open_shell(self, sandbox_id: str, request: ShellRequest) -> str:
        """The id of a new shell; many may be open in one sandbox."""
        ...

    async def shell_run(
        self, sandbox_id: str, shell_id: str, line: str, *, timeout_s: float | None = None, wait_s: float | None = None
    ) -> ShellResult:
        """Run a line (any shell text) and wait for its end: at most `wait_s`, then it goes on `running`; or at most
        `timeout_s`, then its whole tree is killed and the shell lives on."""
        ...

    async def shell_poll(self, sandbox_id: str, shell_id: str, *, wait_s: float = 0.0) -> ShellResult:
        """The output since the last result, after at most `wait_s` seconds; returns early when the line ends."""
        ...

    async def shell_type(self, sandbox_id: str, shell_id: str, data: bytes) -> None:
        """Type at the terminal of the running line."""
        ...

    async def shell_interrupt(self, sandbox_id: str, shell_id: str) -> ShellResult:
        """What ^C does: the running line ends, the shell lives."""
        ...

    async def close_shell(self, sandbox_id: str, shell_id: str) -> None:
        """End a shell and what runs in it."""
        ...

    async def read(self, sandbox_id: str, path: str, *, max_bytes: int | None = None) -> bytes:
        """A file's bytes, at most `max_bytes`; None: all of them, OSError EFBIG where they are more than 256 MiB.

        FileNotFoundError, IsADirectoryError, PermissionError as of the file inside.
        """
        ...

    async def write(self, sandbox_id: str, path: str, data: bytes, *, mode: int | None = None) -> None:
        """Replace a file, its folders made where missing; same errors. `mode`: permission bits, None keeps or 0644."""
        ...

    async def changes(self, sandbox_id: str, under: str = "/") -> list[PathChange]:
        """Paths that differ from the image, sorted."""
        ...

    async def patch(self, sandbox_id: str, root: str, *, exclude: Sequence[str] = (), ended: bool = False) -> Patch:
        """A git patch (binary, no renames) of what changed in the repository at `root` against the image.

        Made by the host from the layers alone, without running anything of the sandbox; the repository's own ignore
        rules as the image has them apply to files that the image's git does not track; `exclude` adds gitignore
        patterns. `.git` itself is never part of it. What git can't carry or is too large is listed, not lost silently.
        Of a sandbox that has ended otherwise than by its budget it is made only where `ended` says that this is known.
        """
        ...

    async def archive(
        self,
        sandbox_id: str,
        paths: Sequence[str],
        *,
        exclude: Sequence[str] = (),
        max_bytes: int,
        ended: bool = False,
    ) -> Archive:
        """An archive of absolute paths as they are, made by the host from the layers as `patch` is; `ended` likewise.

        `exclude`: shell patterns of what stays behind. More than `max_bytes` of contents and names are not archived.
        """
        ...

    async def snapshot(self, sandbox_id: str, name: str) -> str:
        """Keep the file system as an image called `name`; use it as `SandboxSpec.image` to fork."""
        ...

    async def tunnel(self, sandbox_id: str, *, port: int) -> "TunnelListener":
        """A listening socket on the sandbox's loopback, whose accepting end is here."""
        ...

    async def stats(self, sandbox_id: str) -> Stats: ...

    async def kills(self, sandbox_id: str) -> list[MemoryKill]:
        """Processes killed for memory since the last call. Raises where the machine's own memory was the reason."""
        ...

    def live(self) -> list[SandboxHandle]:
        """The live sandboxes of this provider."""
        ...

    async def close(self) -> None:
        """Destroy all, release everything."""
        ...


class TunnelListener(Protocol):
    """Connections from inside a sandbox, accepted outside."""

    @property
    def port(self) -> int: ...

    def connections(self) -> AsyncIterator["TunnelConnection"]: ...

    async def close(self) -> None: ...


class TunnelConnection(Protocol):
    """One byte stream from inside a sandbox."""

    async def read(self, max_bytes: int = 65536) -> bytes: ...

    async def write(self, data: bytes) -> None: ...

    async def close(self) -> None: ...
