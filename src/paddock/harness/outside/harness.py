"""A program on this machine as a harness: unmodified, under its own interpreter, its tools bound to the sandbox.

Class   names the program and its driver (`paddock.harness.outside.bridge`), and says with which words and variables it
        starts (`DriverStart`).
Secret  the rollout's key goes over the channel alone. It is blotted out of what the program writes or leaves.
Limits  turns, tokens and time are the model server's to enforce; the program is killed when its time is over.
Files   `artifact_files` of its folder are read when the program has ended, or its time has; a program that died takes
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
from paddock.harness.programs.exit_status import exit_of, exit_with, time_limit_exit
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
    """How a driver is started."""

    parameters: JsonObject
    """What the driver gets beside the key `endpoint`, which holds the endpoint."""
    env: Mapping[str, str] = {}


class OutsideHarness(ABC):
    KIND: ClassVar[Literal["harnesses"]] = "harnesses"
    own_tools: ClassVar[Sequence[str]] = ()
    """A program shows its tools by the names that it has: there is none to rename."""
    driver: ClassVar[Path]
    artifact_files: ClassVar[Sequence[str]] = ()
    """Names of files in its folder that are read at its end, into `artifacts`."""

    def __init__(self, program: InstalledProgram | None = None) -> None:
        """`program`: the installed program; None: the harness is not run, only asked for its program or prompts."""
        self.artifacts: dict[str, bytes] = {}
        """Contents of `artifact_files`, by name."""
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
        """Return how the driver is started for a task."""

    def request_rules(self) -> RequestRules:
        """Return what is changed or refused in its requests."""
        return RequestRules()

    async def run(self, task: Task, workspace: Workspace, model: Model, limits: RunLimits, report: OnStep) -> Exit:
        # Its commands are counted by the workspace that runs them.
        recorder = StepRecorder(model, report, rules=self.request_rules(), note=_uncounted)
        started_s = time.monotonic()
        endpoint = await model.endpoint(recorder, outside=True)
        start = self.start(task, workspace.workdir, limits)
        try:
            async with asyncio.timeout(limits.time_s) as clock, recorder.recording():
                driver_run = await self._run_driver(start, endpoint, workspace)
        except TimeoutError:
            if not clock.expired():
                raise
            await recorder.finish()
            return time_limit_exit(recorder, limits)
        await recorder.finish()
        return self._exit(driver_run, recorder, model, limits, started_s)

    async def _run_driver(self, start: DriverStart, endpoint: ModelEndpoint, workspace: Workspace) -> "_DriverRun":
        if self._installed is None:
            raise ConfigError(f"{self.program.name}: nobody said where its program is", kind="program_missing")
        # Isolated: neither its user's packages nor the folder of the bridge are its own.
        argv: list[str | Path] = [self._installed.commands["python"], "-I", BRIDGE, self.driver]
        async with OutsideProcess(argv, {**start.env, **self.settings.env}) as process:
            try:
                process.writer.write(orjson.dumps({**start.parameters, "endpoint": endpoint.model_dump()}) + b"\n")
                driver_exit = await BridgeServer(workspace).serve(process.reader, process.writer)
            finally:
                self._read_artifacts(process, endpoint.api_key)
            code = 0 if driver_exit else await process.exit_code()
        return _DriverRun(driver_exit, code, process.output_tail.replace(endpoint.api_key, "..."))

    def _read_artifacts(self, process: OutsideProcess, secret: str) -> None:
        for name in self.artifact_files:
            data = process.file(name)
            if data is not None:
                self.artifacts[name] = data.replace(secret.encode(), b"...")

    def _exit(
        self, driver_run: "_DriverRun", recorder: StepRecorder, model: Model, limits: RunLimits, started_s: float
    ) -> Exit:
        def exit_for(output: ProgramOutput) -> Exit:
            return exit_of(name, output, recorder, model, limits, started_s)

        name = f"{self.program.name} {self.program.version}"
        driver_exit = driver_run.exit
        if driver_exit is None:
            return exit_for(ProgramOutput(driver_run.code or 1, b"", driver_run.output.encode()))
        text = driver_exit.text
        if driver_exit.ended == "config":
            raise ConfigError(f"{name}: {text}", kind="program_config")
        if driver_exit.ended == "failed":
            return exit_for(ProgramOutput(1, b"", (text or "").encode()))
        if driver_exit.ended == "finished" or model.overflowed:
            exit_ = exit_for(ProgramOutput(0, b"", b""))
            return exit_.model_copy(update={"detail": exit_.detail or text})
        if driver_exit.ended == "gave_up":
            cut = recorder.last_turn is not None and recorder.last_turn.finish_reason == CUT
            return exit_with("output_limit" if cut else "finished", recorder, text)
        return exit_with(driver_exit.ended, recorder, text)


class _DriverRun(NamedTuple):
    """How the process of a driver ended."""

    exit: DriverExit | None
    """None: the process ended without a message."""
    code: int
    """Its exit code; 0 where the driver sent a message."""
    output: str
    """The end of what it wrote."""


def _uncounted(_line: str) -> None:
    return
