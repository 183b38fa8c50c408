"""A command-line program as a harness: unmodified, in the sandbox, from a read-only folder, with a throw-away home.

Class   says which program, with which files, words and variables it is started (`ProgramStart`), and what of its
        requests is pinned or refused (`RequestRules`). It runs to its end, or to the rollout's.
Home    `HOME`, outside the repository, gone with the sandbox. Nothing in it is secret: what names the rollout is added
        at the host's end of the tunnel.
Limits  turns, tokens and time are the model server's to enforce; the program is killed when its time is over.
Errors  those of `paddock.harness.programs.exit_status`, of the workspace and of the model.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import date
from posixpath import join
from typing import ClassVar, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from paddock.harness.contract import Exit, Model, ModelEndpoint, OnStep, Prompts, RunLimits, Task, Workspace
from paddock.harness.programs.exit_status import exit_of, time_limit_exit
from paddock.harness.programs.program import MOUNT_ROOT, Program
from paddock.harness.programs.step_recorder import RequestRules, StepRecorder

HOME = str(MOUNT_ROOT / "home")
"""The program's home in the sandbox."""


class CliSettings(BaseModel):
    """Settings that every command-line program has: its `harness_config` block."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: str
    """Of the program; `paddock harness install NAME --version V` gets another one."""
    prompt_date: date = date(2026, 1, 1)
    """The day that the first prompt names, in place of the one on which the program was started."""
    env: dict[str, str] = {}
    """More environment variables of the program."""


class ProgramStart(NamedTuple):
    """How a program is started."""

    argv: Sequence[str]
    files: Mapping[str, bytes] = {}
    """Contents of files, by their paths below the home."""
    env: Mapping[str, str] = {}
    stdin: bytes = b""


class CliHarness(ABC):
    KIND: ClassVar[Literal["harnesses"]] = "harnesses"
    own_tools: ClassVar[Sequence[str]] = ()
    """A program shows its tools by the names that it has: there is none to rename."""

    @property
    @abstractmethod
    def program(self) -> Program: ...

    @property
    @abstractmethod
    def settings(self) -> CliSettings: ...

    @property
    @abstractmethod
    def prompts(self) -> Prompts: ...

    @abstractmethod
    def start(self, task: Task, endpoint: ModelEndpoint, workdir: str) -> ProgramStart:
        """Return how the program is started for a task."""

    def request_rules(self) -> RequestRules:
        """Return what is changed or refused in its requests."""
        return RequestRules()

    def check(self, exit_: Exit, recorder: StepRecorder) -> None:
        """Raise InfraError for an end that looks well, but is known to be a failure of this program."""
        return

    def command(self, name: str) -> str:
        """Return the path of one of the program's commands in the sandbox."""
        return str(self.program.mount_path / "bin" / name)

    async def run(self, task: Task, workspace: Workspace, model: Model, limits: RunLimits, report: OnStep) -> Exit:
        recorder = StepRecorder(model, report, rules=self.request_rules(), note=workspace.note_command)
        started_s = time.monotonic()
        started = self.start(task, await model.endpoint(recorder), workspace.workdir)
        for path, data in started.files.items():
            await workspace.write(join(HOME, path), data)
        env = {"HOME": HOME, "TZ": "UTC", **started.env, **self.settings.env}
        try:
            async with asyncio.timeout(limits.time_s) as clock, recorder.recording():
                done = await workspace.launch(started.argv, stdin=started.stdin, env=env)
        except TimeoutError:
            if not clock.expired():
                raise
            await recorder.finish()
            return time_limit_exit(recorder, limits)
        await recorder.finish()
        name = f"{self.program.name} {self.program.version}"
        exit_ = exit_of(name, done, recorder, model, limits, started_s, inside=True)
        self.check(exit_, recorder)
        return exit_
