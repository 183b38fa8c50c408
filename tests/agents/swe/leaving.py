"""A harness that leaves a file of its own."""

from typing import ClassVar, Literal

from paddock.harness import Exit, Limits, Model, Report, Task, Workspace


class Leaving:
    KIND: ClassVar[Literal["harnesses"]] = "harnesses"
    NEEDS = "nothing"

    def __init__(self) -> None:
        self.left: dict[str, bytes] = {}

    async def run(self, task: Task, workspace: Workspace, model: Model, limits: Limits, report: Report) -> Exit:
        self.left["../own.json"] = b"[1]"
        raise RuntimeError("and it breaks")
