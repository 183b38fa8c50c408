"""No command, no model call; of its empty patch no test is run."""

from typing import ClassVar, Literal

from paddock.harness import Exit, Model, Needs, OnStep, RunLimits, Task, Workspace


class NullHarness:
    KIND: ClassVar[Literal["harnesses"]] = "harnesses"
    NEEDS: ClassVar[Needs] = "nothing"

    async def run(self, task: Task, workspace: Workspace, model: Model, limits: RunLimits, report: OnStep) -> Exit:
        return Exit(ended="finished", turns=0, final="Nothing was done.")
