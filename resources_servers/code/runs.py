"""Runs one program against its tests: all in one fresh sandbox, one process for each test, in order, up to the first
that fails.

Inside  the program, the inputs one at a time, and nothing of what is expected. What one test leaves there the next one
        may find: it tells nothing of the outputs, as nothing there does.
Limits  CPU seconds of each test (RLIMIT_CPU), wall seconds, output; memory, disk, processes and CPU of the sandbox.
Errors  RowError: the image lacks the language. SandboxError is the machine's; a budget that is used up is a result.
"""

import uuid
from collections.abc import Sequence
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from paddock.errors import RowError
from paddock.resources_servers.code.languages import ProgramLanguage
from paddock.resources_servers.code.outputs import same_text, same_value
from paddock.resources_servers.code.task import UnitTests
from paddock.sandbox import BudgetExceeded, ExecRequest, ExecResult, Provider, SandboxLimits, SandboxSpec

CodeReason = Literal[
    "passed",
    "wrong_output",
    "runtime_error",
    "no_value",
    "time_limit",
    "memory_limit",
    "output_limit",
    "process_limit",
    "compile_error",
    "no_program",
    "program_too_long",
]
FOLDER = "/tmp/program"  # noqa: S108 - in the sandbox
CALLER = "/tmp/call_function.py"  # noqa: S108 - in the sandbox
_BUDGETS: dict[str, CodeReason] = {
    "memory": "memory_limit",
    "disk": "output_limit",
    "cpu": "time_limit",
    "pids": "process_limit",
}
_KILLED, _OVER_CPU = 137, 152
_WITH_CPU_LIMIT = ("sh", "-c", 'ulimit -t "$0" && exec "$@"')
_STDERR_BYTES = 2000
_ENV = {"HOME": FOLDER, "LANG": "C.UTF-8", "TZ": "UTC", "PYTHONDONTWRITEBYTECODE": "1"}


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


class ProgramResult(NamedTuple):
    """How a program fared."""

    reason: CodeReason
    passed: int
    """Tests that it passed before the first that it did not."""
    detail: str = ""
    stalled: bool = False
    """It was ended by the clock, not by what it used: a starved machine does that too."""


class ProgramRunner:
    """Runs programs of one image on one provider of sandboxes."""

    def __init__(self, provider: Provider, image: str, limits: ProgramLimits, caller: str) -> None:
        self._provider = provider
        self._image = image
        self._limits = limits
        self._caller = caller
        self._installed: set[str] = set()

    async def run(self, name: str, language: ProgramLanguage, program: str, tests: UnitTests) -> ProgramResult:
        """Run a program in a sandbox of its own, which is gone at the end."""
        spec = SandboxSpec(
            image=self._image,
            workdir="/tmp",  # noqa: S108 - in the sandbox
            env=_ENV,
            limits=self._limits.of_sandbox(len(tests.inputs)),
            purpose="grading",
        )
        handle = await self._provider.create(spec, request_id=uuid.uuid4().hex)
        box = _Box(self._provider, handle.sandbox_id, self._limits)
        try:
            await self._require(box, name, language)
            return await self._in(box, language, program, tests)
        finally:
            await self._provider.destroy(handle.sandbox_id)

    async def _require(self, box: "_Box", name: str, language: ProgramLanguage) -> None:
        if language.program in self._installed:
            return
        found = await box.exec(["sh", "-c", 'command -v -- "$0"', language.program], workdir="/")
        if not found.ok:
            raise RowError(
                f"verifier_metadata.language: {name} needs `{language.program}`, which the image {self._image} lacks",
                kind="language_missing",
            )
        self._installed.add(language.program)

    async def _in(self, box: "_Box", language: ProgramLanguage, program: str, tests: UnitTests) -> ProgramResult:
        passed = 0
        try:
            await box.write(f"{FOLDER}/{language.file}", program)
            command = language.command(language.run)
            if tests.fn_name is not None:
                await box.write(CALLER, self._caller)
                command = [language.run[0], CALLER, language.file, tests.fn_name]
            if language.compile is not None:
                made = await box.exec(
                    language.command(language.compile),
                    cpu_s=self._limits.compile_s,
                    wall_s=2.0 * self._limits.compile_s,
                )
                if not made.ok:
                    return ProgramResult("compile_error", 0, _said(made), stalled=made.killed_by == "timeout")
            for given, expected in zip(tests.inputs, tests.outputs, strict=True):
                done = await box.exec(command, stdin=given, cpu_s=self._limits.cpu_s, wall_s=self._limits.wall_s)
                problem = _problem(done, self._limits.cpu_s)
                if problem is None and not _agrees(tests, expected, done):
                    problem = "wrong_output" if bytes(done.stdout).strip() or tests.fn_name is None else "no_value"
                if problem is not None:
                    where = f"test {passed + 1} of {len(tests.inputs)}"
                    detail = f"{where}: {_said(done)}" if problem == "runtime_error" else where
                    return ProgramResult(problem, passed, detail, stalled=done.killed_by == "timeout")
                passed += 1
        except BudgetExceeded as over:
            return ProgramResult(_BUDGETS[over.budget], passed, over.message)
        return ProgramResult("passed", passed)


class _Box:
    """One live sandbox."""

    def __init__(self, provider: Provider, sandbox_id: str, limits: ProgramLimits) -> None:
        self._provider = provider
        self._id = sandbox_id
        self._limits = limits

    async def write(self, path: str, text: str) -> None:
        await self._provider.write(self._id, path, text.encode(errors="replace"))

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        cpu_s: int | None = None,
        wall_s: float | None = None,
        workdir: str = FOLDER,
    ) -> ExecResult:
        request = ExecRequest(
            argv=[*argv] if cpu_s is None else [*_WITH_CPU_LIMIT, str(cpu_s), *argv],
            workdir=workdir,
            stdin=stdin.encode(errors="replace"),
            timeout_s=wall_s,
            head_bytes=self._limits.output_kib << 10,
            tail_bytes=0,
        )
        return await self._provider.exec(self._id, request, request_id=uuid.uuid4().hex)


def _problem(done: ExecResult, cpu_s: int) -> CodeReason | None:
    """What is wrong with a run, whatever it wrote; None: nothing."""
    if done.killed_by == "memory":
        return "memory_limit"
    if done.killed_by == "timeout" or (done.exit_code in (_KILLED, _OVER_CPU) and done.duration_s >= cpu_s):
        return "time_limit"
    if not done.stdout.whole:
        return "output_limit"
    return "runtime_error" if done.exit_code or done.killed_by is not None else None


def _agrees(tests: UnitTests, expected: str, done: ExecResult) -> bool:
    given = bytes(done.stdout).decode(errors="replace")
    return same_text(expected, given) if tests.fn_name is None else same_value(expected, given)


def _said(done: ExecResult) -> str:
    end = f"ended with {done.exit_code}" if done.killed_by is None else f"killed ({done.killed_by})"
    text = bytes(done.stderr)[-_STDERR_BYTES:].decode(errors="replace").strip()
    return f"{end}: {text}" if text else end
