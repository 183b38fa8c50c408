"""A program on this machine as a harness: unmodified, under its own interpreter, its tools bound to the sandbox.

Class   names the program and its driver (`paddock.harness.outside.bridge`), and says with which words and variables it
        starts (`Start`).
Secret  the rollout's key goes over the channel alone. Nothing that the program leaves or says is told with it.
Limits  turns, tokens and time are the model server's to enforce; the program is killed when its time is over.
Left    files of its folder that a class `keeps` are read when it has ended, or its time has; a program that died takes
        them along.
Errors  those of `paddock.harness.programs.ending`, of the workspace and of the model; ConfigError: its settings are
        wrong, as it says itself.
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
from paddock.harness.contract import Endpoint, Exit, Limits, Model, Prompts, Report, Task, Workspace
from paddock.harness.outside.process import OutsideProcess
from paddock.harness.outside.serving import Serving, Told
from paddock.harness.programs.ending import exit_of, exit_with, out_of_time
from paddock.harness.programs.installed import Installed
from paddock.harness.programs.program import Program
from paddock.harness.programs.transcript import CUT, Habits, Transcript
from paddock.harness.results import Launched
from paddock.types import JsonObject

BRIDGE = Path(__file__).parent / "bridge.py"


class OutsideSettings(BaseModel):
    """Settings that every program outside has: its `harness_config` block."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: str
    """Of the program; `paddock harness install NAME --version V` gets another one."""
    env: dict[str, str] = {}
    """More environment variables of the program."""


class Start(NamedTuple):
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

    def __init__(self, program: Installed | None = None) -> None:
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
    def start(self, task: Task, workdir: str, limits: Limits) -> Start:
        """How it is started for a task."""

    def habits(self) -> Habits:
        """What of its requests is ours to decide."""
        return Habits()

    async def run(self, task: Task, workspace: Workspace, model: Model, limits: Limits, report: Report) -> Exit:
        # What its calls run is counted where it is run.
        said = Transcript(model, report, habits=self.habits(), note=_uncounted)
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

    async def _ran(self, start: Start, endpoint: Endpoint, workspace: Workspace) -> "_Ran":
        if self._installed is None:
            raise ConfigError(f"{self.program.name}: nobody said where its program is", kind="program_missing")
        # Isolated: neither its user's packages nor the folder of the bridge are its own.
        argv: list[str | Path] = [self._installed.commands["python"], "-I", BRIDGE, self.driver]
        async with OutsideProcess(argv, {**start.env, **self.settings.env}) as process:
            try:
                process.writer.write(orjson.dumps({**start.told, "endpoint": endpoint.model_dump()}) + b"\n")
                told = await Serving(workspace).serve(process.reader, process.writer)
            finally:
                self._keep(process, endpoint.api_key)
            code = 0 if told else await process.exit_code()
        return _Ran(told, code, process.said.replace(endpoint.api_key, "..."))

    def _keep(self, process: OutsideProcess, secret: str) -> None:
        for name in self.keeps:
            data = process.file(name)
            if data is not None:
                self.left[name] = data.replace(secret.encode(), b"...")

    def _exit(self, ran: "_Ran", said: Transcript, model: Model, limits: Limits, begun_s: float) -> Exit:
        name = f"{self.program.name} {self.program.version}"
        told = ran.told
        if told is None:
            return exit_of(name, Launched(ran.code or 1, b"", ran.output.encode()), said, model, limits, begun_s)
        if told.ended == "config":
            raise ConfigError(f"{name}: {told.text}", kind="program_config")
        if told.ended == "failed":
            return exit_of(name, Launched(1, b"", (told.text or "").encode()), said, model, limits, begun_s)
        if told.ended == "finished" or model.overflowed:
            left = exit_of(name, Launched(0, b"", b""), said, model, limits, begun_s)
            return left.model_copy(update={"detail": left.detail or told.text})
        if told.ended == "gave_up":
            cut = said.last is not None and said.last.finish_reason == CUT
            return exit_with("output_limit" if cut else "finished", said, told.text)
        return exit_with(told.ended, said, told.text)


class _Ran(NamedTuple):
    """What came of a run."""

    told: Told | None
    """None: it was gone without a word."""
    code: int
    output: str


def _uncounted(_line: str) -> None:
    return
