"""One file is written in the workspace, no model call: a patch that changes nothing that tests see."""

from typing import ClassVar, Literal

from paddock.harness import Exit, Model, Needs, OnStep, RunLimits, Task, Workspace

NOTES = "PADDOCK_NOTES.txt"
TEXT = b"This patch changes nothing that matters: the tests are to be run without a fix.\n"


class NoopHarness:
    KIND: ClassVar[Literal["harnesses"]] = "harnesses"
    NEEDS: ClassVar[Needs] = "nothing"

    async def run(self, task: Task, workspace: Workspace, model: Model, limits: RunLimits, report: OnStep) -> Exit:
        await workspace.write(NOTES, TEXT)
        return Exit(ended="finished", turns=0, final=f"{NOTES} was added; nothing else was done.")
