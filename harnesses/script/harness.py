"""Runs shell commands one after the other, each in a turn of its own, and reports what they wrote.

Commands from the config, or from a field of the row that the agent may see. A command is a line of shell text.
Endpoint in the environment of each command, as `OPENAI_BASE_URL`, `OPENAI_API_KEY` and `OPENAI_MODEL`: a command may
         ask the model. The script itself never does.
Shell    one persistent shell, or a `sh -c` each.
Oracle   a command that asks the model gets the known fix, as a git patch.
Outcome  `finished`, whatever the commands' exit codes; `turn_limit` or `time_limit` when commands are left.
Errors   RowError when the field is missing or is no list of strings.
"""

import json
import shlex
import time
from typing import ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from paddock.errors import RowError
from paddock.harness import (
    ExecOutput,
    Exit,
    Model,
    ModelEndpoint,
    OnStep,
    RunLimits,
    ShellOutput,
    ShellSession,
    Step,
    Task,
    Workspace,
)
from paddock.types import Fix, JsonObject, patch_to_text
from paddock.types.responses import call_item, message_item


class ScriptConfig(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    commands: list[str] = []
    """Lines of shell text, run in order, a turn each; none: `field` says where they are."""
    field: str | None = None
    """A visible field of the row that holds the commands; None: they are in `commands`."""
    shell: bool = False
    """One shell for all of them; else each is started anew in the workdir."""
    timeout_s: float | None = Field(default=None, gt=0)
    """Seconds for each command; None: the limit of the run."""
    stop_on_failure: bool = False
    """The first command with another exit code than 0 is the last."""

    @model_validator(mode="after")
    def _single_source(self) -> Self:
        if (self.field is None) == (not self.commands):
            raise ValueError("needs `commands` or `field`, one of the two")
        return self


class ScriptHarness:
    KIND: ClassVar[Literal["harnesses"]] = "harnesses"
    config_type: ClassVar[type[BaseModel]] = ScriptConfig

    def __init__(self, config: ScriptConfig) -> None:
        self._config = config

    async def run(self, task: Task, workspace: Workspace, model: Model, limits: RunLimits, report: OnStep) -> Exit:
        commands = self._commands(task.visible)
        deadline = None if limits.time_s is None else time.monotonic() + limits.time_s
        runner = _Runner(workspace, await model.endpoint(), self._config.timeout_s or limits.tool_s)
        if self._config.shell:
            await runner.open_shell()
        last = None
        for turn, command in enumerate(commands, 1):
            if limits.max_turns is not None and turn > limits.max_turns:
                return Exit(ended="turn_limit", turns=turn - 1, final=last)
            if deadline is not None and time.monotonic() >= deadline:
                return Exit(ended="time_limit", turns=turn - 1, final=last)
            done = await runner.run(command)
            last = done.text()
            report(Step(turn=turn, output=_items(command, done)))
            if self._config.stop_on_failure and done.exit_code != 0:
                return Exit(ended="finished", turns=turn, final=last, detail=f"{command!r} exited {done.exit_code}")
        return Exit(ended="finished", turns=len(commands), final=last)

    def oracle(self, fix: Fix) -> list[list[JsonObject]]:
        return [[message_item(patch_to_text(fix.patch))]]

    def _commands(self, visible: JsonObject) -> list[str]:
        name = self._config.field
        if name is None:
            return self._config.commands
        commands = visible.get(name)
        if not isinstance(commands, list) or not all(isinstance(line, str) for line in commands):
            raise RowError(f"{name}: the script needs a list of shell lines there, and may see it", kind="no_script")
        return commands


class _Runner:
    """How commands are run."""

    def __init__(self, workspace: Workspace, endpoint: ModelEndpoint, timeout_s: float | None) -> None:
        self._workspace = workspace
        self._timeout_s = timeout_s
        self._env = {
            "OPENAI_BASE_URL": endpoint.base_url,
            "OPENAI_API_KEY": endpoint.api_key,
            "OPENAI_MODEL": endpoint.model,
        }
        self._shell: ShellSession | None = None

    async def open_shell(self) -> None:
        self._shell = await self._workspace.shell()
        await self._shell.run("export " + " ".join(f"{name}={shlex.quote(text)}" for name, text in self._env.items()))

    async def run(self, command: str) -> ExecOutput | ShellOutput:
        if self._shell is not None:
            return await self._shell.run(command, timeout_s=self._timeout_s)
        return await self._workspace.exec(["sh", "-c", command], env=self._env, timeout_s=self._timeout_s)


def _items(command: str, done: ExecOutput | ShellOutput) -> list[JsonObject]:
    call = call_item("shell", json.dumps({"command": command}))
    result = {"output": done.text(), "metadata": {"exit_code": done.exit_code}}
    return [call, {"type": "function_call_output", "call_id": call["call_id"], "output": json.dumps(result)}]
