"""A program outside that does what a test says, and a workspace and a model in memory."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from paddock.harness import (
    ExecOutput,
    Exit,
    ModelEndpoint,
    Program,
    ProgramOutput,
    Prompts,
    RequestFilter,
    RunLimits,
    ShellOutput,
    Step,
    Task,
)
from paddock.harness.outside import DriverStart, OutsideHarness, OutsideSettings
from paddock.harness.programs.installation import InstalledProgram
from paddock.sandbox.failures import SandboxRequestError
from paddock.types import TurnSummary
from paddock.types.records import FinishReason
from paddock.types.responses import message_item

KEY = "5ecre7" * 5
ENDPOINT = ModelEndpoint(base_url="http://127.0.0.1:9/v1", api_key=KEY, model="policy")
Act = Callable[[Sequence[str]], ExecOutput]


class ScriptedOutside(OutsideHarness):
    driver: ClassVar[Path] = Path(__file__).parent / "scripted_driver.py"
    artifact_files: ClassVar[Sequence[str]] = ("kept.json",)

    def __init__(self, code: str, *, program: InstalledProgram | None = None) -> None:
        super().__init__(program)
        self._code = code

    @property
    def program(self) -> Program:
        return Program(
            name="scripted",
            version="1.0",
            where="outside",
            source="pip",
            packages=("scripted",),
            commands={"python": "bin/python"},
            licence="MIT",
        )

    @property
    def settings(self) -> OutsideSettings:
        return OutsideSettings(version="1.0", env={"MORE": "more"})

    @property
    def prompts(self) -> Prompts:
        return Prompts(user="{{ problem_statement }}")

    def start(self, task: Task, workdir: str, limits: RunLimits) -> DriverStart:
        return DriverStart({"code": self._code, "prompt": task.prompt, "workdir": workdir}, {"VISIBLE": "yes"})


class AskedModel:
    """A model that was asked `turns` times."""

    name = "policy"
    has_repeated_call = False

    def __init__(self, turns: int = 1, *, overflowed: bool = False, finish_reason: FinishReason = "stop") -> None:
        self.overflowed = overflowed
        self.outside: bool | None = None
        self._said = [
            TurnSummary(
                id=f"t{index}",
                parent=None,
                output=[message_item(f"turn {index}")],
                finish_reason=finish_reason,
                sampled_tokens=3,
            )
            for index in range(turns)
        ]

    async def respond(self, body: Any) -> Any:
        raise AssertionError("a program asks over a tunnel")

    async def endpoint(self, request_filter: RequestFilter | None = None, *, outside: bool = False) -> ModelEndpoint:
        self.outside = outside
        return ENDPOINT

    async def transcript(self, skip: int = 0) -> Sequence[TurnSummary]:
        return self._said[skip:]


class MemoryWorkspace:
    """A workspace of files in memory, whose commands are a function."""

    workdir = "/testbed"

    def __init__(self, act: Act | None = None) -> None:
        self.ran: list[tuple[Sequence[str], Mapping[str, str], float | None, bytes]] = []
        self.files: dict[str, bytes] = {}
        self.shells: list[EchoShell] = []
        self.at_once = 0
        self.most_at_once = 0
        self.held = asyncio.Event()
        self.held.set()
        self._act = act or (lambda argv: ExecOutput(0, argv[-1].encode()))

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> ExecOutput:
        if any("\0" in word for word in argv):
            raise SandboxRequestError("no word can hold a NUL byte", kind="words_invalid")
        self.ran.append((argv, env or {}, timeout_s, stdin or b""))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.held.wait()
            return self._act(argv)
        finally:
            self.at_once -= 1

    async def read(self, path: str) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(f"{path}: no such file")
        return self.files[path]

    async def write(self, path: str, data: bytes) -> None:
        self.files[path] = data

    async def shell(self) -> "EchoShell":
        self.shells.append(EchoShell())
        return self.shells[-1]

    async def launch(self, argv: Sequence[str], *, stdin: bytes = b"", env: Mapping[str, str]) -> ProgramOutput:
        raise AssertionError("it runs outside")

    def note_command(self, line: str) -> None:
        raise AssertionError("its commands are counted where they are run")


class EchoShell:
    """A shell that says what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    async def run(self, line: str, *, timeout_s: float | None = None, wait_s: float | None = None) -> ShellOutput:
        return self._say(f"run {line} {timeout_s} {wait_s}", None if wait_s else 0)

    async def poll(self, *, wait_s: float = 0.0) -> ShellOutput:
        return self._say(f"poll {wait_s}", None)

    async def type(self, data: bytes, *, wait_s: float = 0.0) -> ShellOutput:
        return self._say(f"type {data.decode()} {wait_s}", None)

    async def interrupt(self) -> ShellOutput:
        return self._say("interrupt", 130)

    async def close(self) -> None:
        self.told.append("close")

    def _say(self, what: str, code: int | None) -> ShellOutput:
        self.told.append(what)
        return ShellOutput(code, what.encode(), "/testbed/sub")


class Outside:
    """Runs code as a program, and looks at what is left."""

    def __init__(self, program: InstalledProgram) -> None:
        self.program = program
        self.steps: list[Step] = []
        self.artifacts: dict[str, bytes] = {}

    async def run(
        self,
        code: str,
        *,
        workspace: MemoryWorkspace | None = None,
        model: AskedModel | None = None,
        time_s: float = 120.0,
        **env: str,
    ) -> Exit:
        harness = ScriptedOutside(code, program=self.program)
        self.artifacts = harness.artifacts
        task, limits = Task(prompt="Fix it."), RunLimits(time_s=time_s)
        return await harness.run(task, workspace or MemoryWorkspace(), model or AskedModel(), limits, self.steps.append)
