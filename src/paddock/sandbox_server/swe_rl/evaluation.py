"""`/evaluate`: a patch applied in a fresh sandbox of the lease's image, then the client's script.

Fresh   neither what the agent left in its sandbox nor an earlier evaluation has a part in it, so it may be repeated.
Known   where the row is known (`grade_row`), our grader judges in place of the script: tests by name, guard and audit.
Else    the script's exit code is all there is. 0 counts where the same script without a patch ends otherwise; what
        keeps code under test from ending the script with 0 is for the script to know.
Law     `resolved: false` is about the patch: its shape, that it does not apply, the script's own end, its budget. The
        machine's failure is tried again in another sandbox, then raised; one in doubt counts as the patch's the second
        time. A script that can tell nothing is an error.
"""

import asyncio
import hashlib
import uuid
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from paddock.errors import RowError, VerifierError
from paddock.sandbox import BudgetExceeded, ExecRequest, ExecResult, Provider, SandboxError
from paddock.sandbox_server.swe_rl.leases import SweLease, SweLeases
from paddock.sandbox_server.swe_rl.settings import SweRlSettings
from paddock.types import JsonObject, Verdict

STEP_TIMEOUT_S = 120.0
"""For git."""
OUTPUT_CHARS = 2000
"""Of a script's output, from its end."""
EVALUATION = "__eval"
"""What the client adds to the id of an instance for the sandbox in which it is evaluated."""
SCRIPT = ("bash", "-lc", 'script=$(cat) && eval "$script"')
"""Reads the script whole before any of it runs: code under test can't change what is still to come."""
_NO_PROGRAM = (126, 127)
RowVerdict = Callable[[str, str], Awaitable[Verdict | None]]
"""Of a patch, by the id of its instance; None: no row has it."""


class Evaluation(NamedTuple):
    """What a client asks for."""

    patch: str
    script: str
    workdir: str
    timeout_s: float


class Evaluator:
    """Evaluates patches in the sandboxes of leases."""

    def __init__(
        self, provider: Provider, leases: SweLeases, settings: SweRlSettings, grade_row: RowVerdict | None = None
    ) -> None:
        self._provider = provider
        self._leases = leases
        self._settings = settings
        self._grade_row = grade_row
        self._passes_unpatched: dict[str, bool] = {}
        """By image, folder and script."""
        self._locks: dict[str, asyncio.Lock] = {}

    async def evaluate(self, lease: SweLease, evaluation: Evaluation) -> JsonObject:
        if not any(line.startswith("diff --git ") for line in evaluation.patch.splitlines()):
            return _unresolved("no_patch", "patch validation failed: expected a git diff with diff --git headers")
        if self._grade_row is not None:
            verdict = await self._grade_row(lease.instance_id.removesuffix(EVALUATION), evaluation.patch)
            if verdict is not None:
                return _answer_of_verdict(verdict)
        if not evaluation.script.strip():
            raise RowError("eval_script is empty: it would end with 0 whatever the patch", kind="no_eval_script")
        doubts = 0
        for left in reversed(range(self._settings.evaluate_attempts)):
            try:
                return await self._evaluate(lease, evaluation)
            except BudgetExceeded as over:
                return _unresolved("over_budget", over.message)
            except SandboxError as error:
                doubts += error.doubtful
                if doubts > 1:
                    return _unresolved("sandbox_ended", error.message)
                if not error.retryable or not left:
                    raise
        raise AssertionError("an attempt returns or raises")

    async def _evaluate(self, lease: SweLease, evaluation: Evaluation) -> JsonObject:
        sandbox_id = await self._leases.start_anew(lease, "grading")
        if (why_not := await self._apply(sandbox_id, evaluation)) is not None:
            return _unresolved("patch_does_not_apply", f"git apply failed: {why_not}")
        done = await self._run_script(sandbox_id, evaluation)
        if done.killed_by == "timeout":
            return _unresolved("timeout", f"Evaluation timed out after {evaluation.timeout_s:g}s")
        if done.ok and self._settings.evaluate_unpatched:
            await self._require_deciding_script(lease, evaluation)
        return {"ok": True, "resolved": done.ok, "returncode": done.exit_code, "output": _text(done)[-OUTPUT_CHARS:]}

    async def _apply(self, sandbox_id: str, evaluation: Evaluation) -> str | None:
        """Why a patch does not apply, neither to the image's tree as it is nor to its HEAD; None: it is applied."""
        done = await self._git(sandbox_id, evaluation, "apply", "-")
        if done.ok:
            return None
        for command in (("reset", "-q", "--hard", "HEAD"), ("clean", "-fdq")):
            restored = await self._git(sandbox_id, evaluation, *command)
            if not restored.ok:
                message = f"git {command[0]} in {evaluation.workdir} failed: {_text(restored)[-500:]}"
                raise VerifierError(message, kind="image_unusable", retryable=False)
        done = await self._git(sandbox_id, evaluation, "apply", "-")
        return None if done.ok else _text(done)[-OUTPUT_CHARS:]

    async def _git(self, sandbox_id: str, evaluation: Evaluation, *words: str) -> ExecResult:
        patch = evaluation.patch if evaluation.patch.endswith("\n") else f"{evaluation.patch}\n"
        stdin = patch.encode(errors="replace") if words[0] == "apply" else b""
        done = await self._exec(sandbox_id, evaluation.workdir, ("git", *words), stdin, STEP_TIMEOUT_S)
        if done.exit_code in _NO_PROGRAM:
            raise VerifierError(f"the image has no git that runs: {_text(done)}", kind="git_missing", retryable=False)
        if done.killed_by == "timeout":
            raise SandboxError(f"git {words[0]} took longer than {STEP_TIMEOUT_S:g} s", kind="git_slow")
        return done

    async def _require_deciding_script(self, lease: SweLease, evaluation: Evaluation) -> None:
        words = "\0".join((lease.image, evaluation.workdir, evaluation.script))
        key = hashlib.sha256(words.encode(errors="replace")).hexdigest()
        async with self._locks.setdefault(key, asyncio.Lock()):
            if key not in self._passes_unpatched:
                sandbox_id = await self._leases.start_anew(lease, "grading")
                try:
                    self._passes_unpatched[key] = (await self._run_script(sandbox_id, evaluation)).ok
                except BudgetExceeded:
                    self._passes_unpatched[key] = False
        if self._passes_unpatched[key]:
            message = (
                "eval_script ends with 0 without any patch too: its exit code does not tell who resolved the issue"
            )
            raise VerifierError(message, kind="script_passes_unpatched", retryable=False)

    async def _run_script(self, sandbox_id: str, evaluation: Evaluation) -> ExecResult:
        script = evaluation.script.encode(errors="replace")
        return await self._exec(sandbox_id, evaluation.workdir, SCRIPT, script, evaluation.timeout_s)

    async def _exec(
        self, sandbox_id: str, workdir: str, argv: tuple[str, ...], stdin: bytes, timeout_s: float
    ) -> ExecResult:
        request = ExecRequest(
            argv=list(argv), workdir=workdir, stdin=stdin, timeout_s=timeout_s, merge_stderr=True, tail_bytes=1 << 16
        )
        return await self._provider.exec(sandbox_id, request, request_id=uuid.uuid4().hex)


def _answer_of_verdict(verdict: Verdict) -> JsonObject:
    """Our grader's verdict in the client's words."""
    resolved = verdict.reason == "resolved"
    return {
        "ok": True,
        "resolved": resolved,
        "reason": verdict.reason,
        "output": (verdict.detail or "")[-OUTPUT_CHARS:],
    }


def _unresolved(reason: str, error: str) -> JsonObject:
    return {"ok": True, "resolved": False, "reason": reason, "error": error}


def _text(done: ExecResult) -> str:
    return (bytes(done.stdout) + bytes(done.stderr)).decode(errors="replace")
