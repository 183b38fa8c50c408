"""Runs one program against its tests: all in one fresh sandbox, one process for each test, in order, up to the first
that fails. Of Python, `fork_server.py` makes these processes.

Inside  the program, the inputs one at a time, and nothing of what is expected. What one test leaves there the next one
        may find: it tells nothing of the outputs, as nothing there does.
Limits  CPU seconds of each test (RLIMIT_CPU), wall seconds, output; memory, disk, processes and CPU of the sandbox.
Errors  RowError: the image lacks the language. SandboxError is the machine's; a budget that is used up is a result.
"""

import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Literal, NamedTuple

from paddock.errors import RowError
from paddock.resources_servers.code.box import FOLDER, ProcessResult, ProgramBox, ProgramLimits
from paddock.resources_servers.code.fork_client import fork_server
from paddock.resources_servers.code.languages import ProgramLanguage
from paddock.resources_servers.code.outputs import same_text, same_value
from paddock.resources_servers.code.task import PYTHON, UnitTests
from paddock.sandbox import BudgetExceeded, Provider, SandboxSpec

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
_BUDGETS: dict[str, CodeReason] = {
    "memory": "memory_limit",
    "disk": "output_limit",
    "cpu": "time_limit",
    "pids": "process_limit",
}
_KILLED, _OVER_CPU = 137, 152
_STDERR_BYTES = 2000
_ENV = {"HOME": FOLDER, "LANG": "C.UTF-8", "TZ": "UTC", "PYTHONDONTWRITEBYTECODE": "1"}


class ProgramResult(NamedTuple):
    """How a program fared."""

    reason: CodeReason
    passed: int
    """Tests that it passed before the first that it did not."""
    detail: str = ""
    stalled: bool = False
    """It was ended by the clock or from outside, not by what it used: a starved machine does that too."""


class ProgramRunner:
    """Runs programs of one image on one provider of sandboxes."""

    def __init__(self, provider: Provider, image: str, limits: ProgramLimits) -> None:
        self._provider = provider
        self._image = image
        self._limits = limits
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
        box = ProgramBox(self._provider, handle.sandbox_id, self._limits)
        try:
            await self._require(box, name, language)
            return await self._in(box, name, language, program, tests)
        finally:
            await self._provider.destroy(handle.sandbox_id)

    async def _require(self, box: ProgramBox, name: str, language: ProgramLanguage) -> None:
        if language.program in self._installed:
            return
        found = await box.exec(["sh", "-c", 'command -v -- "$0"', language.program], workdir="/")
        if not found.ok:
            raise RowError(
                f"verifier_metadata.language: {name} needs `{language.program}`, which the image {self._image} lacks",
                kind="language_missing",
            )
        self._installed.add(language.program)

    async def _in(
        self, box: ProgramBox, name: str, language: ProgramLanguage, program: str, tests: UnitTests
    ) -> ProgramResult:
        limits = self._limits
        try:
            await box.write(f"{FOLDER}/{language.file}", program)
            if language.compile is not None:
                command = language.command(language.compile)
                made = await box.exec(command, cpu_s=limits.compile_s, wall_s=2.0 * limits.compile_s)
                if not made.ok:
                    return ProgramResult("compile_error", 0, _said(made), stalled=made.killed_by == "timeout")
            if name == PYTHON:
                words = [language.file, *filter(None, [tests.fn_name])]
                async with fork_server(box, language.run, words) as server:
                    return await self._judge(server.run_test, tests)
            run = partial(box.exec, language.command(language.run), cpu_s=limits.cpu_s, wall_s=limits.wall_s)
            return await self._judge(lambda given: run(stdin=given), tests)
        except BudgetExceeded as over:
            return _exhausted(over, 0)

    async def _judge(self, run: Callable[[bytes], Awaitable[ProcessResult]], tests: UnitTests) -> ProgramResult:
        for passed, (given, expected) in enumerate(zip(tests.inputs, tests.outputs, strict=True)):
            try:
                done = await run(given.encode(errors="replace"))
            except BudgetExceeded as over:
                return _exhausted(over, passed)
            problem = _problem(done, self._limits.cpu_s)
            if problem is None and not _agrees(tests, expected, done):
                problem = "wrong_output" if done.stdout.strip() or tests.fn_name is None else "no_value"
            if problem is not None:
                where = f"test {passed + 1} of {len(tests.inputs)}"
                detail = f"{where}: {_said(done)}" if problem == "runtime_error" else where
                return ProgramResult(problem, passed, detail, stalled=done.killed_by in ("timeout", "interrupt"))
        return ProgramResult("passed", len(tests.inputs))


def _exhausted(over: BudgetExceeded, passed: int) -> ProgramResult:
    return ProgramResult(_BUDGETS[over.budget], passed, over.message)


def _problem(done: ProcessResult, cpu_s: int) -> CodeReason | None:
    """What is wrong with a run, whatever it wrote; None: nothing."""
    if done.killed_by == "memory":
        return "memory_limit"
    if done.killed_by == "timeout" or (done.exit_code in (_KILLED, _OVER_CPU) and done.duration_s >= cpu_s):
        return "time_limit"
    if not done.whole:
        return "output_limit"
    return "runtime_error" if done.exit_code or done.killed_by is not None else None


def _agrees(tests: UnitTests, expected: str, done: ProcessResult) -> bool:
    given = done.stdout.decode(errors="replace")
    return same_text(expected, given) if tests.fn_name is None else same_value(expected, given)


def _said(done: ProcessResult) -> str:
    end = f"ended with {done.exit_code}" if done.killed_by is None else f"killed ({done.killed_by})"
    text = done.stderr[-_STDERR_BYTES:].decode(errors="replace").strip()
    return f"{end}: {text}" if text else end
