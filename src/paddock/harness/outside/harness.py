"""A program on this machine as a harness: unmodified, under its own interpreter, its tools bound to the sandbox.

Class   names the program and its driver (`paddock.harness.outside.bridge`), and says with which words and variables it
        starts (`DriverStart`).
Secret  the rollout's key goes over the channel alone. Nothing that the program leaves or says is told with it.
Limits  turns, tokens and time are the model server's to enforce; the program is killed when its time is over.
Left    files of its folder that a class `keeps` are read when it has ended, or its time has; a program that died takes
        them along.
Errors  those of `paddock.harness.programs.exit_status`, of the workspace and of the model; ConfigError where the
        program says that its settings are wrong.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import orjson
from pydantic import BaseModel, ConfigDict

from paddock.errors import ConfigError
from paddock.harness.contract import Exit, Model, ModelEndpoint, OnStep, Prompts, RunLimits, Task, Workspace
from paddock.harness.outside.bridge_server import BridgeServer, DriverExit
from paddock.harness.outside.process import OutsideProcess
from paddock.harness.programs.exit_status import exit_of, exit_with, out_of_time
from paddock.harness.programs.installation import InstalledProgram
from paddock.harness.programs.program import Program
from paddock.harness.programs.step_recorder import CUT, RequestRules, StepRecorder
from paddock.harness.results import ProgramOutput
from paddock.types import JsonObject

BRIDGE = Path(__file__).parent / "bridge.py"


class OutsideSettings(BaseModel):
    """Settings that every program outside has: its `harness_config` block."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: str
    """Of the program; `paddock harness install NAME --version V` gets another one."""
    env: dict[str, str] = {}
    """More environment variables of the program."""


class DriverStart(NamedTuple):
    """How a program is started."""

    told: JsonObject
    """What the driver gets beside the endpoint, which is `endpoint`."""
    env: Mapping[str, str] = {}


class OutsideHarness(ABC):
    KIND: ClassVar[Literal["harnesses"]] = "harnesses"
    own_tools: ClassVar[Sequence[str]] = ()
    """A program shows its tools by the names that it has: there is none to rename."""
    driver: ClassVar[Path]
    keeps: ClassVar[Sequence[str]] = ()
    """Names of files in its folder."""

    def __init__(self, program: InstalledProgram | None = None) -> None:
        """None: it is not to be run, only asked about."""
        self.left: dict[str, bytes] = {}
        """What was kept, by name."""
        self._installed = program

    @property
    @abstractmethod
    def program(self) -> Program: ...

    @property
    @abstractmethod
    def settings(self) -> OutsideSettings: ...

    @property
    @abstractmethod
    def prompts(self) -> Prompts: ...

    @abstractmethod
    def start(self, task: Task, workdir: str, limits: RunLimits) -> DriverStart:
        """How it is started for a task."""

    def habits(self) -> RequestRules:
        """What of its requests is ours to decide."""
        return RequestRules()

    async def run(self, task: Task, workspace: Workspace, model: Model, limits: RunLimits, report: OnStep) -> Exit:
        # What its calls run is counted where it is run.
        said = StepRecorder(model, report, habits=self.habits(), note=_uncounted)
        begun_s = time.monotonic()
        endpoint = await model.endpoint(said, outside=True)
        start = self.start(task, workspace.workdir, limits)
        try:
            async with asyncio.timeout(limits.time_s) as clock, said.followed():
                ran = await self._ran(start, endpoint, workspace)
        except TimeoutError:
            if not clock.expired():
                raise
            await said.settle()
            return out_of_time(said, limits)
        await said.settle()
        return self._exit(ran, said, model, limits, begun_s)

    async def _ran(self, start: DriverStart, endpoint: ModelEndpoint, workspace: Workspace) -> "_Ran":
        if self._installed is None:
            raise ConfigError(f"{self.program.name}: nobody said where its program is", kind="program_missing")
        # Isolated: neither its user's packages nor the folder of the bridge are its own.
        argv: list[str | Path] = [self._installed.commands["python"], "-I", BRIDGE, self.driver]
        async with OutsideProcess(argv, {**start.env, **self.settings.env}) as process:
            try:
                process.writer.write(orjson.dumps({**start.told, "endpoint": endpoint.model_dump()}) + b"\n")
                told = await BridgeServer(workspace).serve(process.reader, process.writer)
            finally:
                self._keep(process, endpoint.api_key)
            code = 0 if told else await process.exit_code()
        return _Ran(told, code, process.said.replace(endpoint.api_key, "..."))

    def _keep(self, process: OutsideProcess, secret: str) -> None:
        for name in self.keeps:
            data = process.file(name)
            if data is not None:
                self.left[name] = data.replace(secret.encode(), b"...")

    def _exit(self, ran: "_Ran", said: StepRecorder, model: Model, limits: RunLimits, begun_s: float) -> Exit:
        name = f"{self.program.name} {self.program.version}"
        told = ran.told
        if told is None:
            return exit_of(name, ProgramOutput(ran.code or 1, b"", ran.output.encode()), said, model, limits, begun_s)
        if told.ended == "config":
            raise ConfigError(f"{name}: {told.text}", kind="program_config")
        if told.ended == "failed":
            return exit_of(name, ProgramOutput(1, b"", (told.text or "").encode()), said, model, limits, begun_s)
        if told.ended == "finished" or model.overflowed:
            left = exit_of(name, ProgramOutput(0, b"", b""), said, model, limits, begun_s)
            return left.model_copy(update={"detail": left.detail or told.text})
        if told.ended == "gave_up":
            cut = said.last is not None and said.last.finish_reason == CUT
            return exit_with("output_limit" if cut else "finished", said, told.text)
        return exit_with(told.ended, said, told.text)


class _Ran(NamedTuple):
    """What came of a run."""

    told: DriverExit | None
    """None: it was gone without a word."""
    code: int
    output: str


def _uncounted(_line: str) -> None:
    return
