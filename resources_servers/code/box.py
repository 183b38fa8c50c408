"""The sandbox of one program: bounds, files, commands and how they ended."""

import uuid
from collections.abc import Sequence
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from paddock.sandbox import ExecRequest, Provider, SandboxLimits
from paddock.sandbox.records import KilledBy

FOLDER = "/tmp/program"  # noqa: S108 - in the sandbox
_WITH_CPU_LIMIT = ("sh", "-c", 'ulimit -t "$0" && exec "$@"')


class ProgramLimits(BaseModel):
    """Bounds of one program."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cpu_s: int = Field(default=6, ge=1)
    """CPU seconds of one test."""
    wall_s: float = Field(default=20.0, gt=0)
    """Seconds of one test. What does not end within them runs once more, alone, before it is believed."""
    compile_s: int = Field(default=30, ge=1)
    """CPU seconds, and half of the wall seconds, of the command that compiles."""
    memory_mib: int = Field(default=1024, ge=16)
    """Memory of all processes."""
    disk_mib: int = Field(default=128, ge=1)
    """What it may write, its compiled program included."""
    processes: int = Field(default=64, ge=16)
    """Processes and threads."""
    output_kib: int = Field(default=4096, ge=1)
    """Output of one test."""

    def of_sandbox(self, n_tests: int) -> SandboxLimits:
        return SandboxLimits(
            memory_mib=self.memory_mib,
            pids=self.processes,
            disk_mib=self.disk_mib,
            disk_files=10_000,
            shm_mib=16,
            cpu_s=float(self.cpu_s * (n_tests + 1) + self.compile_s),
        )


class ProcessResult(NamedTuple):
    """How a process of the program ended."""

    exit_code: int
    """As a shell reports it: 128 + n for signal n."""
    stdout: bytes
    stderr: bytes
    duration_s: float
    whole: bool = True
    """`stdout` is all that it wrote there."""
    killed_by: KilledBy | None = None

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and self.killed_by is None


class ProgramBox:
    """One live sandbox."""

    def __init__(self, provider: Provider, sandbox_id: str, limits: ProgramLimits) -> None:
        self.provider = provider
        self.sandbox_id = sandbox_id
        self.limits = limits

    async def write(self, path: str, text: str) -> None:
        await self.provider.write(self.sandbox_id, path, text.encode(errors="replace"))

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        cpu_s: int | None = None,
        wall_s: float | None = None,
        workdir: str = FOLDER,
    ) -> ProcessResult:
        request = ExecRequest(
            argv=[*argv] if cpu_s is None else [*_WITH_CPU_LIMIT, str(cpu_s), *argv],
            workdir=workdir,
            stdin=stdin,
            timeout_s=wall_s,
            head_bytes=self.limits.output_kib << 10,
            tail_bytes=0,
        )
        done = await self.provider.exec(self.sandbox_id, request, request_id=uuid.uuid4().hex)
        return ProcessResult(
            done.exit_code, bytes(done.stdout), bytes(done.stderr), done.duration_s, done.stdout.whole, done.killed_by
        )
