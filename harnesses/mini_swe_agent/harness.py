"""mini-swe-agent outside of the sandbox: its own agent, models and prompts; each command runs inside.

Wire    chat completions (one tool, `bash`), the Responses API, or chat completions with actions in the text.
Config  its own format (`program_config`), its own defaults (`mini.yaml`).
Prompt  all its own; ours is the task in it, and a system prompt only where an agent's config gives one. What its
        templates may say of the machine is `platform`, the same for every member of a group.
Files   `trajectory.traj.json`: its own trajectory, as its inspector reads it.
Source  mini-swe-agent 2.4.6.
"""

import json
import platform
from pathlib import Path
from typing import ClassVar, Literal

from paddock.harness import Program, Prompts, RunLimits, Task
from paddock.harness.outside import DriverStart, OutsideHarness, OutsideSettings
from paddock.harness.programs.installation import InstalledProgram
from paddock.harness.programs.lab import LabTools
from paddock.harnesses.mini_swe_agent.oracle import SUBMIT, turns_of
from paddock.harnesses.mini_swe_agent.program_config import ACTION_REGEX, action_regex, layers
from paddock.types import Fix, JsonObject
from paddock.types.responses import call_item

MEMORY_MIB = 256
_ENV = {
    "MSWEA_CONFIGURED": "true",
    "MSWEA_SILENT_STARTUP": "1",
    "MSWEA_COST_TRACKING": "ignore_errors",
    "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "2",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}
"""No questions, no charges, nothing fetched; a failing model is asked again once or twice, not for ten minutes."""


class MiniSweAgentSettings(OutsideSettings):
    version: str = "2.4.6"
    config: str | list[str] = "mini.yaml"
    """Its own configuration, as its `-c` takes it: a file, the name of one of its own, or `key.path=value`; several are
    laid over each other."""
    dialect: Literal["chat", "responses", "text"] | None = None
    """How it asks its model; `text`: chat completions with actions in the text. None: as its configuration says."""
    platform: dict[str, str] = {
        "system": "Linux",
        "node": "sandbox",
        "release": "6.1.0",
        "version": "#1 SMP",
        "machine": platform.machine(),
    }
    """What its templates may say of the machine."""


class MiniSweAgentHarness(OutsideHarness):
    config_type: ClassVar[type[MiniSweAgentSettings]] = MiniSweAgentSettings
    driver = Path(__file__).parent / "driver.py"
    artifact_files = ("trajectory.traj.json",)
    lab: ClassVar[LabTools] = LabTools(
        tool="bash",
        line=lambda line: {"command": line},
        finish=lambda: call_item("bash", json.dumps({"command": SUBMIT})),
        core_only=True,
        dialects={name: {"dialect": name} for name in ("chat", "responses")},
    )

    def __init__(self, settings: MiniSweAgentSettings, *, program: InstalledProgram | None = None) -> None:
        super().__init__(program)
        self._settings = settings
        self._layers = layers([settings.config] if isinstance(settings.config, str) else settings.config)

    @property
    def settings(self) -> MiniSweAgentSettings:
        return self._settings

    @property
    def program(self) -> Program:
        return Program(
            name="mini_swe_agent",
            version=self._settings.version,
            where="outside",
            source="pip",
            # litellm imports mcp where it is asked for a model, and does not say that it needs it.
            packages=("mini-swe-agent=={version}", "mcp"),
            lock=Path(__file__).with_name("requirements.lock"),
            commands={"python": "bin/python"},
            licence="MIT",
            memory_mib=MEMORY_MIB,
        )

    @property
    def prompts(self) -> Prompts:
        return Prompts(user="{{ problem_statement }}")

    def start(self, task: Task, workdir: str, limits: RunLimits) -> DriverStart:
        parameters: JsonObject = {
            "layers": [layer._asdict() for layer in self._layers],
            "named": ", ".join(layer.name for layer in self._layers),
            "dialect": self._settings.dialect,
            "platform": self._settings.platform,
            "prompt": task.prompt,
            "system": task.system,
            "workdir": workdir,
            "tool_s": limits.tool_s,
            "instance_id": task.visible.get("instance_id"),
        }
        return DriverStart(parameters, _ENV)

    def oracle(self, fix: Fix) -> list[list[JsonObject]]:
        regex = action_regex(self._layers)
        dialect = self._settings.dialect
        by_text = dialect == "text" or (dialect is None and regex is not None)
        return turns_of(fix, action_regex=(regex or ACTION_REGEX) if by_text else None)
