"""The CodeActAgent of OpenHands 0.62 outside of the sandbox: its own controller, prompts and tools act inside.

Wire    chat completions. No sampling parameter of its own counts: the model server pins them.
Tools   `execute_bash`, `str_replace_editor`, `think`, `finish`, `task_tracker`, with its own words.
Prompt  its own system prompt, unless an agent's config gives one; ours is the task. It says
        where the task is, and a day.
Ends    with `finish`, with an answer that calls nothing, or where it finds itself in a loop.
Left    `events.jsonl`: its own events, one a line.
Source  openhands-ai 0.62.0.
"""

import json
from datetime import date
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from paddock.harness import Program, Prompts, RunLimits, Task, screen
from paddock.harness.oracles.codeact import turns_of
from paddock.harness.outside import DriverStart, OutsideHarness, OutsideSettings, mirror
from paddock.harness.programs.installation import InstalledProgram
from paddock.harness.programs.lab import LabTools
from paddock.types import Fix, JsonObject
from paddock.types.responses import call_item

MEMORY_MIB = 400
_ENV = {
    "LOG_LEVEL": "WARNING",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_TELEMETRY": "False",
}
"""Nothing is fetched, nothing is told to anybody."""


class OpenHandsV0Settings(OutsideSettings):
    version: str = "0.62.0"
    native_tool_calling: bool = True
    """False: tools are described in the prompt, and calls are found in the text."""
    retries: int = Field(default=2, ge=0)
    """How often it asks a failing model again."""
    continues: bool = False
    """An answer that calls nothing is answered as its own headless mode does: go on, and never ask. False: it ends."""
    prompt_date: date = date(2026, 1, 1)
    """The day that its first prompt tells: the same for all members of a group."""


class OpenHandsV0Harness(OutsideHarness):
    config_type: ClassVar[type[OpenHandsV0Settings]] = OpenHandsV0Settings
    driver = Path(__file__).parent / "driver.py"
    artifact_files = ("events.jsonl",)
    lab: ClassVar[LabTools] = LabTools(
        tool="execute_bash",
        line=lambda line: {"command": line, "security_risk": "LOW"},
        edit=lambda path, old, new: call_item(
            "str_replace_editor",
            json.dumps(
                {
                    "command": "str_replace",
                    "path": f"/testbed/{path}",
                    "old_str": old,
                    "new_str": new,
                    "security_risk": "LOW",
                }
            ),
        ),
        slow={"timeout": 2},
        core_only=True,
        dialects={"chat": {}},
    )

    def __init__(self, settings: OpenHandsV0Settings, *, program: InstalledProgram | None = None) -> None:
        super().__init__(program)
        self._settings = settings

    @property
    def settings(self) -> OpenHandsV0Settings:
        return self._settings

    @property
    def program(self) -> Program:
        return Program(
            name="openhands_v0",
            version=self._settings.version,
            where="outside",
            source="pip",
            # Its look for binary files (binaryornot 0.4) can't read what later ones answer.
            packages=("openhands-ai=={version}", "chardet<6"),
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
            "native": self._settings.native_tool_calling,
            "retries": self._settings.retries,
            "continues": self._settings.continues,
            "date": self._settings.prompt_date.isoformat(),
            "screen": screen.__file__,
            "mirror": mirror.__file__,
        }
        return DriverStart(parameters, _ENV)

    def oracle(self, fix: Fix) -> list[list[JsonObject]]:
        return turns_of(fix, terminal="execute_bash", editor="str_replace_editor")
