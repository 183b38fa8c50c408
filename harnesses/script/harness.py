"""Runs shell commands one after the other, each in a turn of its own, and reports what they wrote.

Commands from the config, or from a field of the row that the agent may see. A command is a line of shell text.
Endpoint in the environment of each command, as `OPENAI_BASE_URL`, `OPENAI_API_KEY` and `OPENAI_MODEL`: a command may
         ask the model. The script itself never does.
Shell    one persistent shell, or a `sh -c` each.
Outcome  `finished`, whatever the commands' exit codes; `turn_limit` when commands are left.
Errors   RowError when the field is missing or is no list of strings.
"""

import json
import time
from typing import Any, ClassVar, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from paddock.errors import RowError
from paddock.harness import Endpoint, Exit, Limits, Report, Step, Task, Workspace
from paddock.types import JsonObject
from paddock.types.responses import call_item


class ScriptConfig(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    commands: list[str] = []
    field: str | None = None
    """A visible field of the row that holds the commands; None: they are in `commands`."""
    shell: bool = False
    """One shell for all of them; else each is started anew in the workdir."""
    timeout_s: float | None = Field(default=None, gt=0)
    """For each command; None: the limit of the run."""
    stop_on_failure: bool = False
    """The first command with another exit code than 0 is the last."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.field is None) == (not self.commands):
            raise ValueError("needs `commands` or `field`, one of the two")
        return self


class Ran(NamedTuple):
    exit_code: int
    text: str


class ScriptHarness:
    KIND: ClassVar[Literal["harnesses"]] = "harnesses"
    config_type: ClassVar[type[BaseModel]] = ScriptConfig

    def __init__(self, config: ScriptConfig) -> None:
        self._config = config

    async def run(self, task: Task, workspace: Workspace, endpoint: Endpoint, limits: Limits, report: Report) -> Exit:
        commands = self._commands(task.visible)
        due = None if limits.time_s is None else time.monotonic() + limits.time_s
        run = await self._runner(workspace, endpoint, limits)
        last: Ran | None = None
        for turn, command in enumerate(commands, 1):
            if limits.max_turns is not None and turn > limits.max_turns:
                return Exit(ended="turn_limit", turns=turn - 1, final=_text(last))
            if due is not None and time.monotonic() >= due:
                return Exit(ended="time_limit", turns=turn - 1, final=_text(last))
            last = await run(command)
            report(Step(turn=turn, output=_items(command, last)))
            if self._config.stop_on_failure and last.exit_code != 0:
                return Exit(
                    ended="finished", turns=turn, final=_text(last), detail=f"{command!r} exited {last.exit_code}"
                )
        return Exit(ended="finished", turns=len(commands), final=_text(last))

    def _commands(self, visible: JsonObject) -> list[str]:
        name = self._config.field
        if name is None:
            return self._config.commands
        commands = visible.get(name)
        if not isinstance(commands, list) or not all(isinstance(line, str) for line in commands):
            raise RowError(f"{name}: the script needs a list of shell lines there, and may see it", kind="no_script")
        return commands

    async def _runner(self, workspace: Workspace, endpoint: Endpoint, limits: Limits) -> Any:
        timeout_s = self._config.timeout_s or limits.tool_s
        env = {
            "OPENAI_BASE_URL": endpoint.base_url,
            "OPENAI_API_KEY": endpoint.api_key,
            "OPENAI_MODEL": endpoint.model,
        }

        async def alone(command: str) -> Ran:
            done = await workspace.exec(["sh", "-c", command], env=env, timeout_s=timeout_s)
            return Ran(done.exit_code, done.text())

        if not self._config.shell:
            return alone
        shell = await workspace.shell()
        await shell.run("export " + " ".join(f"{name}='{value}'" for name, value in env.items()))

        async def together(command: str) -> Ran:
            done = await shell.run(command, timeout_s=timeout_s)
            return Ran(done.exit_code or 0, done.text())

        return together


def _items(command: str, ran: Ran) -> list[JsonObject]:
    call = call_item("shell", json.dumps({"command": command}))
    said = {"output": ran.text, "metadata": {"exit_code": ran.exit_code}}
    return [call, {"type": "function_call_output", "call_id": call["call_id"], "output": json.dumps(said)}]


def _text(ran: Ran | None) -> str | None:
    return None if ran is None else ran.text
