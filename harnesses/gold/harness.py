"""`git apply` of the known fix in the workspace, no model.

Errors  RowError when the fix does not apply to the image's tree, twice in a workspace that takes writes: the row or the
        image is wrong. InfraError for a git that was killed, could not write, or fails on a second look otherwise or
        not at all: that is the machine's.
"""

import json
import re
from typing import ClassVar, Literal

from paddock.errors import InfraError, PaddockError, RowError
from paddock.harness import ExecOutput, Exit, Model, Needs, OnStep, RunLimits, Step, Task, Workspace
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

    def __init__(self, *, gold_patch: bytes) -> None:
        self._patch = gold_patch

    async def run(self, task: Task, workspace: Workspace, model: Model, limits: RunLimits, report: OnStep) -> Exit:
        done = await workspace.exec(COMMAND, stdin=self._patch, timeout_s=limits.tool_s)
        call = call_item("exec", json.dumps({"argv": COMMAND}))
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": done.text()}
        report(Step(turn=1, output=[call, result]))
        if done.exit_code != 0:
            raise await self._fault(done, workspace, limits)
        return Exit(ended="finished", turns=0, final="The known fix was applied.")

    async def _fault(self, done: ExecOutput, workspace: Workspace, limits: RunLimits) -> PaddockError:
        """Whose fault it is that git failed; a workspace that takes no writes raises by itself."""
        await workspace.write(PROBE, bytes(PROBE_BYTES))
        again = await workspace.exec(CHECK, stdin=self._patch, timeout_s=limits.tool_s)
        message = f"(exit {done.exit_code}): {done.text().strip()[-SHOWN_CHARS:]}"
        if _unfit(done) and _unfit(again):
            return RowError(f"the known fix does not apply {message}", kind="gold_does_not_apply")
        return InfraError(f"git could not apply the known fix {message}", kind="gold_not_applied")


def _unfit(done: ExecOutput) -> bool:
    """It is the fix that git refuses."""
    if done.timed_out or done.killed:
        return False
    return done.exit_code == 1 or (done.exit_code == 128 and _UNREADABLE.search(done.output) is not None)
