"""`git apply` of the known fix in the workspace, or its script; no model.

Script  its files are written, the command runs in the workdir; what it leaves counts, whatever its exit code.
Errors  RowError when the fix does not apply to the image's tree, twice in a workspace that takes writes: the row or the
        image is wrong. InfraError for a git that was killed, could not write, or fails on a second look otherwise or
        not at all: that is the machine's.
"""

import json
import re
from collections.abc import Sequence
from typing import ClassVar, Literal

from paddock.errors import InfraError, PaddockError, RowError
from paddock.harness import (
    ExecOutput,
    Exit,
    Gold,
    Model,
    Needs,
    OnStep,
    RunLimits,
    SolutionScript,
    Step,
    Task,
    Workspace,
)
from paddock.sandbox.restore import archived_files
from paddock.types.responses import call_item

COMMAND = ("git", "apply", "--whitespace=nowarn", "-")
CHECK = ("git", "apply", "--check", "--whitespace=nowarn", "-")
SHOWN_CHARS = 500
PROBE = ".paddock-probe"
PROBE_BYTES = 1 << 20
"""Written after a failure: git writes less than a fix is long before it says that it does not apply."""
_UNREADABLE = re.compile(rb"corrupt (?:binary )?patch|[Nn]o valid patches in input|unrecognized input|lacks filename")
"""What git says, with exit code 128, of a fix that is no patch; with 1 it has read one that does not apply."""


class GoldHarness:
    KIND: ClassVar[Literal["harnesses"]] = "harnesses"
    NEEDS: ClassVar[Needs] = "gold"

    def __init__(self, *, gold: Gold) -> None:
        self._gold = gold

    async def run(self, task: Task, workspace: Workspace, model: Model, limits: RunLimits, report: OnStep) -> Exit:
        if isinstance(self._gold, SolutionScript):
            return await _play(self._gold, workspace, report)
        done = await workspace.exec(COMMAND, stdin=self._gold, timeout_s=limits.tool_s)
        report(_step(COMMAND, done.text()))
        if done.exit_code != 0:
            raise await _fault(self._gold, done, workspace, limits)
        return Exit(ended="finished", turns=0, final="The known fix was applied.")


async def _play(solution: SolutionScript, workspace: Workspace, report: OnStep) -> Exit:
    for path, data, _mode in (files := archived_files(solution.archive)):
        await workspace.write(path, data)
    programs = [path for path, _data, mode in files if mode & 0o111]
    if programs:
        await workspace.exec(["chmod", "+x", "--", *programs])
    done = await workspace.launch(solution.argv, env=solution.env)
    report(_step(solution.argv, (done.stdout + done.stderr).decode(errors="replace")))
    return Exit(ended="finished", turns=0, final=f"The solution's script ended with {done.exit_code}.")


def _step(argv: Sequence[str], output: str) -> Step:
    call = call_item("exec", json.dumps({"argv": argv}))
    return Step(turn=1, output=[call, {"type": "function_call_output", "call_id": call["call_id"], "output": output}])


async def _fault(patch: bytes, done: ExecOutput, workspace: Workspace, limits: RunLimits) -> PaddockError:
    """Whose fault it is that git failed; a workspace that takes no writes raises by itself."""
    await workspace.write(PROBE, bytes(PROBE_BYTES))
    again = await workspace.exec(CHECK, stdin=patch, timeout_s=limits.tool_s)
    message = f"(exit {done.exit_code}): {done.text().strip()[-SHOWN_CHARS:]}"
    if _unfit(done) and _unfit(again):
        return RowError(f"the known fix does not apply {message}", kind="gold_does_not_apply")
    return InfraError(f"git could not apply the known fix {message}", kind="gold_not_applied")


def _unfit(done: ExecOutput) -> bool:
    """It is the fix that git refuses."""
    if done.timed_out or done.killed:
        return False
    return done.exit_code == 1 or (done.exit_code == 128 and _UNREADABLE.search(done.output) is not None)
