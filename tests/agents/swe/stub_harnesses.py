"""Harnesses that leave: a file of their own, or a sandbox that is dead."""

import asyncio
import os
import random
import signal
from typing import ClassVar, Literal

from paddock.conformance.sandboxes.fixture import namespace_init, processes_marked
from paddock.harness import Exit, Model, OnStep, RunLimits, Task, Workspace


class ArtifactHarness:
    KIND: ClassVar[Literal["harnesses"]] = "harnesses"
    NEEDS = "nothing"

    def __init__(self) -> None:
        self.artifacts: dict[str, bytes] = {}

    async def run(self, task: Task, workspace: Workspace, model: Model, limits: RunLimits, report: OnStep) -> Exit:
        self.artifacts["../own.json"] = b"[1]"
        raise RuntimeError("and it breaks")


class DeadSandboxHarness:
    """Somebody kills the sandbox behind the last command; what this harness says is that all went well."""

    KIND: ClassVar[Literal["harnesses"]] = "harnesses"
    NEEDS = "nothing"

    async def run(self, task: Task, workspace: Workspace, model: Model, limits: RunLimits, report: OnStep) -> Exit:
        mark = str(random.randrange(10**8, 10**9))
        await workspace.exec(["sh", "-c", f"sed -i 's/a - b/a + b/' calc.py; sleep {mark} >/dev/null 2>&1 &"])
        async with asyncio.timeout(30):
            while not (found := processes_marked(mark)):
                await asyncio.sleep(0.01)
        os.kill(namespace_init(found[0]), signal.SIGKILL)
        return Exit(ended="finished", turns=1)


class BrokenSandboxHarness:
    """The fix is made, and somebody breaks the sandbox afterwards."""

    KIND: ClassVar[Literal["harnesses"]] = "harnesses"
    NEEDS = "nothing"

    async def run(self, task: Task, workspace: Workspace, model: Model, limits: RunLimits, report: OnStep) -> Exit:
        await workspace.exec(["sed", "-i", "s/a - b/a + b/", "calc.py"])
        return Exit(ended="finished", turns=1)
