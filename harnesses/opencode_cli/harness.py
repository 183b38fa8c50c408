"""OpenCode in the sandbox: `opencode run` on the task, with one agent, and all that leaves the task switched off.

Wire    streamed, in the dialect that is set; tools `bash`, `edit`, `glob`, `grep`, `read`, `todowrite` and `write`, or
        `apply_patch` in place of `edit` and `write`.
Prompt  ours is the agent's; the program adds its environment: model, folders, date. The date is pinned.
History append-only, but arguments of calls are written anew, and a call that it could not take as one of `invalid`.
Retries five, which can't be switched off. Those after an error leave no trace; after an answer that broke off, its
        pieces stay in the history and a call of it is told as aborted: such a run has failed.
Memory  about 450 MiB of its sandbox's budget and 25 threads, beside what the policy's commands take: 1 GiB is the least
        for a task. JavaScriptCore's switches for a smaller heap cost half as much time again and save a tenth.
Source  OpenCode 1.18.33, by trial.
"""

import json
import re
from functools import partial
from pathlib import Path
from typing import ClassVar, get_args

from pydantic import Field

from paddock.errors import InfraError
from paddock.harness import Exit, Model, ModelEndpoint, OnStep, Program, Prompts, RunLimits, Task, Workspace
from paddock.harness.oracles.opencode import turns_of
from paddock.harness.programs.cli import CliHarness, CliSettings, ProgramStart
from paddock.harness.programs.lab import COMPACT_AT_TOKENS, LabTools
from paddock.harness.programs.step_recorder import RequestRules
from paddock.harnesses.opencode_cli.program_config import ENVIRONMENT, Dialect, Toolset, make_config, model_name
from paddock.types import Fix, JsonObject
from paddock.types.responses import call_item, content_text, output_items

TOOLS: dict[Toolset, tuple[str, ...]] = {
    "edit": ("bash", "edit", "glob", "grep", "read", "todowrite", "write"),
    "apply_patch": ("apply_patch", "bash", "glob", "grep", "read", "todowrite"),
}
TITLE = "task"
_FOLDER = ".config/opencode"
_PLUGINS = {"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}
"""As if it were installed: the program would try to, in each run."""
_ON_PATH = 'PATH="$0:$PATH" exec opencode "$@"'
_TITLES = "Generate a title for this conversation:"
"""The first message of the user, where a title is asked for."""
_PROMPTS = Path(__file__).parent / "prompts"
_DATE = re.compile(r"(?<=\n  Today's date: )\w{3} \w{3} \d\d \d{4}(?=\n</env>)")


class OpenCodeCliSettings(CliSettings):
    version: str = "1.18.33"
    dialect: Dialect = "chat"
    """The dialect of its requests to the model."""
    toolset: Toolset = "edit"
    """`apply_patch`: what it shows to models that it takes for newer ones of OpenAI."""
    subagents: bool = False
    """Whether there is `task`, which gives work to another agent of the same model."""
    output_tokens: int = Field(default=32_000, ge=1)
    """Tokens of an answer, at most; 32,000 are as many as it asks for. What the rollout sets goes first."""
    compact_at_tokens: int | None = Field(default=None, ge=1)
    """Tokens of a call and its answer from which on the history is summed up before the next; None: never, and a
    rollout ends when its history is longer than the model takes."""


class OpenCodeCliHarness(CliHarness):
    config_type: ClassVar[type[OpenCodeCliSettings]] = OpenCodeCliSettings
    lab: ClassVar[LabTools] = LabTools(
        tool="bash",
        line=lambda line: {"command": line},
        edit=lambda path, old, new: call_item(
            "edit", json.dumps({"filePath": path, "oldString": old, "newString": new})
        ),
        slow={"timeout": 2000},
        compact={"compact_at_tokens": COMPACT_AT_TOKENS},
        dialects={name: {"dialect": name} for name in get_args(Dialect)},
        # The file that has what was left out of a result; where it was cut, as that depends on how the output came.
        volatile=(r"\btool_([0-9A-Za-z]{12,})", r"((?:[^\n]*of this file\n)+)"),
    )

    def __init__(self, settings: OpenCodeCliSettings) -> None:
        self._settings = settings

    @property
    def settings(self) -> OpenCodeCliSettings:
        return self._settings

    @property
    def program(self) -> Program:
        return Program(
            name="opencode_cli",
            version=self._settings.version,
            where="inside",
            source="npm",
            packages=("opencode-ai@{version}", "@vscode/ripgrep@1.18.0"),
            lock=Path(__file__).with_name("package-lock.json"),
            commands={
                # Beside it there may be one for processors without AVX2, and one for musl.
                "opencode": "node_modules/opencode-linux-*64/bin/opencode",
                "rg": "node_modules/@vscode/ripgrep-linux-*/bin/rg",
            },
            licence="MIT",
        )

    @property
    def prompts(self) -> Prompts:
        return Prompts(system=(_PROMPTS / "system.jinja").read_text(), user=(_PROMPTS / "user.jinja").read_text())

    def start(self, task: Task, endpoint: ModelEndpoint, workdir: str) -> ProgramStart:
        settings = self._settings
        config = make_config(
            endpoint,
            task.system or "",
            dialect=settings.dialect,
            toolset=settings.toolset,
            subagents=settings.subagents,
            output_tokens=settings.output_tokens,
            compact_at_tokens=settings.compact_at_tokens,
        )
        return ProgramStart(
            argv=(
                # It looks for `rg` on the PATH, which is the image's.
                *("/bin/sh", "-c", _ON_PATH, str(self.program.mount_path / "bin"), "run", "--format", "json", "--pure"),
                *("--auto", "--title", TITLE, "--dir", workdir, "--model", model_name(settings.toolset)),
            ),
            files={
                f"{_FOLDER}/opencode.json": json.dumps(config).encode(),
                f"{_FOLDER}/package-lock.json": json.dumps(_PLUGINS).encode(),
                f"{_FOLDER}/node_modules/.package-lock.json": b"{}",
            },
            env=ENVIRONMENT,
            stdin=task.prompt.encode(),
        )

    async def run(self, task: Task, workspace: Workspace, model: Model, limits: RunLimits, report: OnStep) -> Exit:
        exit_ = await super().run(task, workspace, model, limits, report)
        if model.has_repeated_call:
            raise InfraError(
                "an answer of its model broke off: it has asked again, with pieces of that answer in its history",
                kind="answer_broke_off",
            )
        return exit_

    def request_rules(self) -> RequestRules:
        day = self._settings.prompt_date.strftime("%a %b %d %Y")
        compacts = self._settings.compact_at_tokens is not None
        return RequestRules(pin=partial(_DATE.sub, day), side_request=partial(_side_request, compacts=compacts))

    def oracle(self, fix: Fix) -> list[list[JsonObject]]:
        return turns_of(fix, TOOLS[self._settings.toolset])


def _side_request(_path: str, body: JsonObject, *, compacts: bool) -> str | None:
    """The agent always has tools; who sums up has none, and neither has who makes titles."""
    if body.get("tools"):
        return None
    history = body.get("input", body.get("messages"))
    texts = [content_text(item.get("content")).strip() for item in output_items(history) if item.get("role") == "user"]
    if texts[:1] == [_TITLES]:
        return "title"
    return None if compacts else "without tools"
