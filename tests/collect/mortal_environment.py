"""Environments for tests of workers that score: two that take their process with them, and one for all workers."""

import asyncio
import os
import signal
from pathlib import Path
from typing import ClassVar

from paddock.conformance.scripted import EnvironmentConfig, EnvironmentTask, ScriptedEnvironment
from paddock.types import JsonObject, Row, Verdict


class MortalConfig(EnvironmentConfig):
    death: Path | None = None
    """The process that makes this file, of all that grade, dies of it."""
    starts: Path | None = None
    """A file that each start of it adds its process to."""
    delay_s: float = 0.0
    """Before each verdict."""


class MortalEnvironment(ScriptedEnvironment):
    config_type = MortalConfig
    config: MortalConfig

    async def start(self) -> None:
        if self.config.starts is not None:
            with self.config.starts.open("a") as file:
                file.write(f"{os.getpid()}\n")

    async def verify(self, task: EnvironmentTask, row: Row, response: JsonObject) -> Verdict:
        await asyncio.sleep(self.config.delay_s)
        if self.config.death is not None:
            try:
                self.config.death.open("x").close()
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return await super().verify(task, row, response)


class DeadlyEnvironment(MortalEnvironment):
    """Each grading is the end of its process."""

    async def verify(self, task: EnvironmentTask, row: Row, response: JsonObject) -> Verdict:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("it is dead")


class OnlyEnvironment(MortalEnvironment):
    """One serves all workers."""

    SHARED: ClassVar[bool] = True
