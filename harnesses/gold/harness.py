"""`git apply` of the known fix in the workspace, no model.

Errors  RowError when the fix does not apply to the image's tree: the row or the image is wrong.
"""

import json
from typing import ClassVar, Literal

from paddock.errors import RowError
from paddock.harness import Exit, Limits, Model, Needs, Report, Step, Task, Workspace
from paddock.types.responses import call_item

COMMAND = ("git", "apply", "--whitespace=nowarn", "-")
SHOWN_CHARS = 500


class GoldHarness:
    KIND: ClassVar[Literal["harnesses"]] = "harnesses"
    NEEDS: ClassVar[Needs] = "gold"

    def __init__(self, *, gold_patch: bytes) -> None:
        self._patch = gold_patch

    async def run(self, task: Task, workspace: Workspace, model: Model, limits: Limits, report: Report) -> Exit:
        done = await workspace.exec(COMMAND, stdin=self._patch, timeout_s=limits.tool_s)
        call = call_item("exec", json.dumps({"argv": COMMAND}))
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": done.text()}
        report(Step(turn=1, output=[call, result]))
        if done.exit_code != 0:
            said = done.text().strip()[-SHOWN_CHARS:]
            raise RowError(f"the known fix does not apply (exit {done.exit_code}): {said}", kind="gold_does_not_apply")
        return Exit(ended="finished", turns=0, final="The known fix was applied.")
