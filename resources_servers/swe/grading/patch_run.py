"""One run of an instance's tests over a patch, in a fresh sandbox, from its tree to its output.

Order   the patch (without what the reference owns) is applied; what the row's script installs is installed; then the
        reference's files are placed, last; then the test command runs with an output of its own.
Limits  tests and installation have the same time limit each; a sandbox that used up its own budget is a run that was
        killed, not an error.
Died    a sandbox that ends, or fails, while the policy's code runs in it may have been ended by that: it is a run that
        says so, unless it is known to be the machine's doing (`paddock.sandbox.ends`).
Left    an installation runs the policy's code, and what that leaves running can kill our own steps after it: a run
        where one fails counts as killed, as does one whose tree refuses our files.
Planted an installation runs the policy's code: a run where it left something outside the tree that starts before
        tests is not made.
Errors  the sandbox's others are raised as they are.
"""

import errno
import json
import random
import re
from pathlib import PurePosixPath
from typing import NamedTuple

from paddock.errors import VerifierError
from paddock.resources_servers.swe.grading.apply import apply
from paddock.resources_servers.swe.grading.guard import Guard
from paddock.resources_servers.swe.grading.reference import ReferenceTests, place_reference
from paddock.resources_servers.swe.grading.run_results import GradingRun
from paddock.resources_servers.swe.grading.sandbox import STEP_FAILED, TESTS_OUTPUT_BYTES, GradingSandbox
from paddock.resources_servers.swe.grading.script import EvalScript, read_script
from paddock.resources_servers.swe.grading.sentinel import Sentinel, draw
from paddock.resources_servers.swe.grading.vocabulary import NameVocabulary
from paddock.resources_servers.swe.instance import SweInstance
from paddock.sandbox import BudgetExceeded, ExecResult, SandboxError

_CHANCE = random.SystemRandom()  # a forger must not foresee the sentinel's tests
_PLUGINS = re.compile(rb"^\s*\[\s*pytest11", re.MULTILINE)
"""Entry points that start before tests; of those of other groups a project may have any."""
_DRAWS_AT_MOST = 20
"""Of a sentinel, until its path is free."""
_OF_THE_TREE = (
    *(errno.EEXIST, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.ELOOP),
    *(errno.ENAMETOOLONG, errno.ENXIO, errno.ETXTBSY, errno.EINVAL, errno.EFBIG),
)
"""What a file of ours can meet in a tree; anything else is what this process or the machine lacks."""
RESULT = "/tmp/result"  # noqa: S108 - inside the sandbox


class PatchRun(NamedTuple):
    """What a run of a patch came to: exactly one of the first three is set."""

    run: GradingRun | None
    refused: str | None = None
    """What the tools said of a patch that does not apply."""
    planted: str | None = None
    """What an installation left outside the tree, to be run before the tests."""
    logs: tuple[bytes, bytes] = (b"", b"")
    """Both streams, where the row reads them with a program of its own."""
    results: str = ""
    """What the tests left in a file, where the row's reader wants it."""


async def run_patch(
    sandbox: GradingSandbox,
    instance: SweInstance,
    reference: ReferenceTests,
    patch: bytes,
    *,
    timeout_s: float,
    sentinel: bool,
) -> PatchRun:
    """Run the instance's tests over a patch that is already without what the reference owns."""
    script = read_script(instance)
    try:
        if patch and (refused := await apply(sandbox, patch)) is not None:
            return PatchRun(None, refused)
        if script.install is not None:
            done = await sandbox.run(("bash", "-c", script.install), timeout_s=timeout_s)
            if done.killed_by is not None:
                return PatchRun(_grading_run(done, None))
            if planted := await _find_planted(sandbox, reference.guard):
                return PatchRun(
                    None, planted=f"{planted}: put there by the installation, it would run before the tests"
                )
        await place_reference(sandbox, reference)
        return await _test(sandbox, instance, reference, script, timeout_s=timeout_s, sentinel=sentinel)
    except BudgetExceeded as over:
        return PatchRun(GradingRun(over.message, 137, killed_by="memory" if over.budget == "memory" else "cpu"))
    except SandboxError as error:
        if not error.doubtful:
            raise
        return PatchRun(GradingRun(error.message, 137, died=True))
    except OSError as error:
        if error.errno not in _OF_THE_TREE:
            raise
        return PatchRun(GradingRun(str(error), 137))
    except VerifierError as error:
        if script.install is None or error.kind != STEP_FAILED:
            raise
        return PatchRun(GradingRun(error.message, 137))


async def read_with_program(sandbox: GradingSandbox, program: bytes, logs: tuple[bytes, bytes]) -> dict[str, str]:
    """Have the row's own program read statuses from both streams, in a sandbox without the policy's code."""
    for name, data in (("program.py", program), ("stdout", logs[0]), ("stderr", logs[1])):
        await sandbox.write(f"{RESULT}/{name}", data)
    words = [f"{RESULT}/{name}" for name in ("program.py", "stdout", "stderr", "result.json")]
    await sandbox.must(("python3", *words), "the row's program that reads its log")
    written = await sandbox.read(words[-1])
    try:
        tests = json.loads(written or b"")["tests"]
        return {str(test["name"]): str(test["status"]) for test in tests}
    except (ValueError, KeyError, TypeError) as error:
        raise VerifierError(
            f"the row's program that reads its log wrote no `tests` with `name` and `status`: {error}",
            kind="log_program",
            retryable=False,
        ) from error


async def _test(
    sandbox: GradingSandbox,
    instance: SweInstance,
    reference: ReferenceTests,
    script: EvalScript,
    *,
    timeout_s: float,
    sentinel: bool,
) -> PatchRun:
    lines = script.tests
    drawn: Sentinel | None = None
    if sentinel and instance.log_program is None and instance.log_reader is None and lines:
        drawn = await _draw(sandbox, instance, reference, lines[-1])
    if drawn is not None:
        lines = (*lines[:-1], drawn.command)
        await sandbox.write(sandbox.below(drawn.path), drawn.source)
    for path, data in instance.test_tools.items():
        await sandbox.write(path, data, 0o755)
    apart = instance.log_program is not None
    program = ("bash", "-c", script.test_program(lines))
    done = await sandbox.run(program, timeout_s=timeout_s, merge=not apart, output_bytes=TESTS_OUTPUT_BYTES)
    results = ""
    if instance.result_command is not None and done.killed_by is None:
        left = await sandbox.run(("bash", "-c", instance.result_command), merge=False, output_bytes=TESTS_OUTPUT_BYTES)
        results = bytes(left.stdout).decode(errors="replace") if left.ok and left.stdout.whole else ""
    logs = (bytes(done.stdout), bytes(done.stderr)) if apart else (b"", b"")
    return PatchRun(_grading_run(done, drawn), logs=logs, results=results)


async def _draw(
    sandbox: GradingSandbox, instance: SweInstance, reference: ReferenceTests, command: str
) -> Sentinel | None:
    """Draw a sentinel whose path is free; None: there is none."""
    files = {path: file.data for path, file in reference.tests.items() if file is not None}
    ids = (*instance.fail_to_pass, *instance.pass_to_pass, *instance.expected)
    vocabulary = NameVocabulary(files, reference.beside, ids)
    for _ in range(_DRAWS_AT_MOST):
        drawn = draw(command, files, vocabulary=vocabulary, chance=_CHANCE)
        if drawn is None or await sandbox.read(sandbox.below(drawn.path)) is None:
            return drawn
    return None


async def _find_planted(sandbox: GradingSandbox, guard: Guard) -> str | None:
    """Find a path outside the tree that the installation left to be run before the tests; None: there is none."""
    for change in await sandbox.changes("/"):
        path = PurePosixPath(change.path)
        if change.kind == "removed" or path.is_relative_to(sandbox.workdir) or change.type == "directory":
            continue
        if not guard.always_owned(change.path.lstrip("/")) or ".egg-info" in change.path:
            continue
        if path.name != "entry_points.txt" or _PLUGINS.search(await sandbox.read(change.path) or b""):
            return change.path
    return None


def _grading_run(done: ExecResult, sentinel: Sentinel | None) -> GradingRun:
    output = bytes(done.stdout).decode(errors="replace")
    return GradingRun(
        output, done.exit_code, done.killed_by, sentinel, whole=done.stdout.whole, duration_s=done.duration_s
    )
