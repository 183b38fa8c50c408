"""Codex CLI in the sandbox: `codex exec` on the task, in classic mode, with all that leaves the task switched off.

Wire    the Responses API, streamed; tools `exec_command`, `write_stdin`, `update_plan` and the custom `apply_patch`.
Prompt  ours is the model's base instructions; the program adds its environment: folder, shell, date, time zone. The
        date and the zone are pinned.
Source  Codex 0.169.0, by trial.
"""

import json
import platform
import re
from functools import partial
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from paddock.harness import ModelEndpoint, Program, Prompts, Task
from paddock.harness.oracles.codex import turns_of
from paddock.harness.programs.cli import HOME, CliHarness, CliSettings, ProgramStart
from paddock.harness.programs.lab import COMPACT_AT_TOKENS, LabTools
from paddock.harness.programs.step_recorder import RequestRules
from paddock.harnesses.codex_cli.program_config import CATALOG, ENDLESS_TOKENS, KEY_VARIABLE, catalog, make_config, toml
from paddock.harnesses.codex_cli.versions import INSTRUCTIONS, has_catalog, known_to, without_catalog
from paddock.types import Fix, JsonObject

TOOLS = {"exec_command": "function", "write_stdin": "function", "update_plan": "function", "apply_patch": "custom"}
_FOLDER = ".codex"
_HOME = f"{HOME}/{_FOLDER}"
_PROMPTS = Path(__file__).parent / "prompts"
_DATE = re.compile(r"(?<=<current_date>)[^<]*(?=</current_date>)")
_ZONE = re.compile(r"(?<=<timezone>)[^<]*(?=</timezone>)")


class CodexCliSettings(CliSettings):
    version: str = "0.169.0"
    compact_at_tokens: int | None = Field(default=None, ge=1)
    """Tokens of a call from which on the history is summed up before the next; None: never, and a rollout ends when its
    history is longer than the model takes."""
    project_docs_bytes: int = Field(default=0, ge=0)
    """Bytes of the repository's own `AGENTS.md` that the prompt may hold; 0: it is not read."""
    stream_retries: int = Field(default=0, ge=0)
    """How often an answer that broke off is asked for again. What had come of it by then stays in Codex's history, and
    no turn of the record says it: so for training there is none, and the rollout fails and is retried as a whole."""
    output_limit_tokens: int = Field(default=10_000, ge=100)
    """Tokens of a tool's result, as Codex counts them; the middle of a longer one is left out."""


class CodexCliHarness(CliHarness):
    config_type: ClassVar[type[CodexCliSettings]] = CodexCliSettings
    lab: ClassVar[LabTools] = LabTools(
        tool="exec_command",
        line=lambda line: {"cmd": line},
        edit=lambda path, old, new: {
            "type": "custom_tool_call",
            "name": "apply_patch",
            "input": _patch(path, old, new),
        },
        slow={"yield_time_ms": 2000},
        settings={"stream_retries": 2},
        compact={"compact_at_tokens": COMPACT_AT_TOKENS},
        volatile=(r"Chunk ID: (\S+)", r"Wall time: ([\d.]+)", r"session ID (\d+)"),
        late=("workspaces",),
    )

    def __init__(self, settings: CodexCliSettings) -> None:
        self._settings = settings

    @property
    def settings(self) -> CodexCliSettings:
        return self._settings

    @property
    def program(self) -> Program:
        # The package of a platform beside the main one or, in older versions, all platforms within that.
        vendor = f"node_modules/@openai/codex*/vendor/{platform.machine()}-unknown-linux-musl"
        return Program(
            name="codex_cli",
            version=self._settings.version,
            where="inside",
            source="npm",
            packages=("@openai/codex@{version}",),
            lock=Path(__file__).with_name("package-lock.json"),
            commands={"codex": f"{vendor}/*/codex", "rg": f"{vendor}/*/rg"},
            licence="Apache-2.0",
        )

    @property
    def prompts(self) -> Prompts:
        return Prompts(system=(_PROMPTS / "system.jinja").read_text(), user=(_PROMPTS / "user.jinja").read_text())

    def start(self, task: Task, endpoint: ModelEndpoint, workdir: str) -> ProgramStart:
        settings = self._settings
        config = make_config(
            endpoint,
            project_docs_bytes=settings.project_docs_bytes,
            compact_at_tokens=settings.compact_at_tokens,
            stream_retries=settings.stream_retries,
        )
        return ProgramStart(
            argv=(
                *(self.command("codex"), "exec", "--json", "--skip-git-repo-check"),
                *(("--ephemeral",) if has_catalog(settings.version) else ()),
                *("--dangerously-bypass-approvals-and-sandbox", "--cd", workdir, "-"),
            ),
            files={f"{_FOLDER}/{name}": data for name, data in self._files(config, task.system or "").items()},
            env={"CODEX_HOME": _HOME, KEY_VARIABLE: endpoint.api_key},
            stdin=task.prompt.encode(),
        )

    def _files(self, config: JsonObject, instructions: str) -> dict[str, bytes]:
        version, limit = self._settings.version, self._settings.output_limit_tokens
        if has_catalog(version):
            models = catalog(str(config["model"]), instructions, output_limit_tokens=limit)
            return {"config.toml": toml(known_to(version, config)), CATALOG: json.dumps(models).encode()}
        older = without_catalog(
            known_to(version, config), folder=_HOME, context_tokens=ENDLESS_TOKENS, output_limit_tokens=limit
        )
        return {"config.toml": toml(older), INSTRUCTIONS: instructions.encode()}

    def request_rules(self) -> RequestRules:
        return RequestRules(pin=partial(_pinned, self._settings.prompt_date.isoformat()))

    def oracle(self, fix: Fix) -> list[list[JsonObject]]:
        return turns_of(fix, TOOLS)


def _patch(path: str, old: str, new: str) -> str:
    return f"*** Begin Patch\n*** Update File: {path}\n@@\n-{old}\n+{new}\n*** End Patch\n"


def _pinned(day: str, text: str) -> str:
    return _ZONE.sub("Etc/UTC", _DATE.sub(day, text))
