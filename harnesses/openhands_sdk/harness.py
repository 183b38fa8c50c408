"""The OpenHands SDK outside of the sandbox: its own agent, prompts and tools; terminal and editor act inside.

Wire    chat completions, or the Responses API. No sampling parameter of its own counts: the model server pins them.
Tools   `terminal`, `file_editor`, `task_tracker`, `finish`, `think`, with its own words. Their texts name paths of the
        sandbox.
Prompt  its own system prompt, unless an agent's config gives one; ours is the task.
Ends    with `finish`, or with an answer that calls nothing; it never stops by itself where a policy runs in circles.
Left    `events.jsonl`: its own events, one a line.
Source  openhands-sdk, openhands-tools 1.58.0.
"""

import json
from pathlib import Path
from typing import ClassVar, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from paddock.harness import Program, Prompts, RunLimits, Task, screen
from paddock.harness.oracles.codeact import turns_of
from paddock.harness.outside import DriverStart, OutsideHarness, OutsideSettings, mirror
from paddock.harness.programs.installation import InstalledProgram
from paddock.harness.programs.lab import LabTools
from paddock.types import Fix, JsonObject
from paddock.types.responses import call_item

Dialect = Literal["chat", "responses"]
MEMORY_MIB = 320
_ENV = {
    "OPENHANDS_SUPPRESS_BANNER": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_TELEMETRY": "False",
}
"""Nothing is fetched, nothing is told to anybody."""


class Condense(BaseModel):
    """Beyond either."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_size: int = Field(default=240, ge=10)
    """Events of the history from which on it is summed up."""
    max_tokens: int | None = Field(default=None, gt=0)
    """Tokens, as the program counts them, from which on it is summed up; None: by events alone."""
    keep_first: int = Field(default=2, ge=0)
    """Events at the start that stay as they are."""

    @model_validator(mode="after")
    def _leaves_room(self) -> Self:
        if self.keep_first >= self.max_size // 2 - 1:
            raise ValueError("keep_first needs to be less than half of max_size, less one")
        return self


class OpenHandsSdkSettings(OutsideSettings):
    version: str = "1.58.0"
    dialect: Dialect = "chat"
    """How it asks its model."""
    native_tool_calling: bool = True
    """False: tools are described in the prompt, and calls are found in the text."""
    retries: int = Field(default=2, ge=0)
    """How often it asks a failing model again."""
    condense: Condense | None = None
    """When its history is summed up, by its own `LLMSummarizingCondenser`; None: never."""


class OpenHandsSdkHarness(OutsideHarness):
    config_type: ClassVar[type[OpenHandsSdkSettings]] = OpenHandsSdkSettings
    driver = Path(__file__).parent / "driver.py"
    artifact_files = ("events.jsonl",)
    lab: ClassVar[LabTools] = LabTools(
        tool="terminal",
        line=lambda line: {"command": line},
        edit=lambda path, old, new: call_item(
            "file_editor",
            json.dumps({"command": "str_replace", "path": f"/testbed/{path}", "old_str": old, "new_str": new}),
        ),
        slow={"timeout": 2},
        core_only=True,
        dialects={name: {"dialect": name} for name in get_args(Dialect)},
    )

    def __init__(self, settings: OpenHandsSdkSettings, *, program: InstalledProgram | None = None) -> None:
        super().__init__(program)
        self._settings = settings

    @property
    def settings(self) -> OpenHandsSdkSettings:
        return self._settings

    @property
    def program(self) -> Program:
        return Program(
            name="openhands_sdk",
            version=self._settings.version,
            where="outside",
            source="pip",
            packages=("openhands-sdk=={version}", "openhands-tools=={version}"),
            lock=Path(__file__).with_name("requirements.lock"),
            commands={"python": "bin/python"},
            python="3.12",
            licence="MIT",
            memory_mib=MEMORY_MIB,
        )

    @property
    def prompts(self) -> Prompts:
        return Prompts(user="{{ problem_statement }}")

    def start(self, task: Task, workdir: str, limits: RunLimits) -> DriverStart:
        parameters: JsonObject = {
            "prompt": task.prompt,
            "system": task.system,
            "workdir": workdir,
            "tool_s": limits.tool_s,
            "dialect": self._settings.dialect,
            "native": self._settings.native_tool_calling,
            "retries": self._settings.retries,
            "condense": self._settings.condense and self._settings.condense.model_dump(exclude_none=True),
            "screen": screen.__file__,
            "mirror": mirror.__file__,
        }
        return DriverStart(parameters, _ENV)

    def oracle(self, fix: Fix) -> list[list[JsonObject]]:
        return turns_of(fix, terminal="terminal", editor="file_editor")
