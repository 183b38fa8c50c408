"""Claude Code in the sandbox: `claude -p` on the task, with its own prompt, and all that leaves the task switched off.

Wire    Anthropic's Messages, streamed; tools `Bash`, `Edit`, `Glob`, `Grep`, `Read`, `TodoWrite` and `Write`, or those
        that are set.
Prompt  its own, unless the task has one; a line of its own stands before either. Date and kernel are pinned.
History append-only, but arguments of calls come back with their defaults (`replace_all: false`); results of one answer
        stand in the order in which they came. Reminders of its own stand between, as messages of the system.
Retries four, which leave no trace. An answer that broke off is taken for whole, with its pieces: such a run has failed.
Cut     an answer that met its limit is followed by a request to go on.
Memory  290 MB resident at most and 1.4 s of CPU in an episode of five calls, measured outside a sandbox; tasks of the
        demo are done in 1 GiB.
Source  Claude Code 2.1.197, by trial.
"""

import json
import re
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from paddock.errors import InfraError
from paddock.harness import Exit, ModelEndpoint, Program, Prompts, Task
from paddock.harness.oracles.claude_code import turns_of
from paddock.harness.programs.cli import HOME, CliHarness, CliSettings, ProgramStart
from paddock.harness.programs.lab import COMPACT_AT_TOKENS, LabTools
from paddock.harness.programs.step_recorder import RequestRules, StepRecorder
from paddock.harnesses.claude_code.program_config import COMPACTING_TOKENS, MODEL, environment
from paddock.types import Fix, JsonObject
from paddock.types.responses import call_item

TOOLS = ("Bash", "Edit", "Glob", "Grep", "Read", "TodoWrite", "Write")
SUBAGENT = "Agent"
LICENCE = "proprietary, Anthropic's Commercial Terms; not part of Paddock: you install it"
_SYSTEM = "system.md"
_PROMPTS = Path(__file__).parent / "prompts"
_DATE = re.compile(r"(?<=Today's date is )\d{4}-\d\d-\d\d(?=\.)")
_KERNEL = re.compile(r"(?m)(?<=^ - OS Version: )Linux .*$")
_BILLING = re.compile(r"\Ax-anthropic-billing-header:.*", re.DOTALL)


class ClaudeCodeSettings(CliSettings):
    version: str = "2.1.197"
    tools: tuple[Annotated[str, Field(pattern=r"^[A-Z][A-Za-z]*$")], ...] = TOOLS
    """Tools that the program shows to the model, by its own names."""
    subagents: bool = False
    """Whether there is `Agent` too, which gives work to another agent of the same model."""
    task_system: Literal["replace", "append"] = "replace"
    """Where the task has a system prompt: in place of the program's own, or after it."""
    project_docs: bool = False
    """Whether the repository's own `CLAUDE.md` is read."""
    output_tokens: int = Field(default=32_000, ge=1)
    """Tokens of an answer, at most. What the rollout sets goes first."""
    compact_at_tokens: int | None = Field(default=None, ge=1, le=COMPACTING_TOKENS)
    """Tokens of a call and its answer from which on the history is summed up before the next; None: never, and a
    rollout ends when its history is longer than the model takes."""


class ClaudeCodeHarness(CliHarness):
    config_type: ClassVar[type[ClaudeCodeSettings]] = ClaudeCodeSettings
    lab: ClassVar[LabTools] = LabTools(
        tool="Bash",
        line=lambda line: {"command": line},
        edit=lambda path, old, new: call_item(
            "Edit", json.dumps({"file_path": path, "old_string": old, "new_string": new})
        ),
        core_only=True,
        slow={"timeout": 2000},
        compact={"compact_at_tokens": COMPACT_AT_TOKENS},
        dialects={"messages": {}},
    )

    def __init__(self, settings: ClaudeCodeSettings) -> None:
        self._settings = settings

    @property
    def settings(self) -> ClaudeCodeSettings:
        return self._settings

    @property
    def program(self) -> Program:
        return Program(
            name="claude_code",
            version=self._settings.version,
            where="inside",
            source="npm",
            packages=("@anthropic-ai/claude-code@{version}",),
            lock=Path(__file__).with_name("package-lock.json"),
            # Beside it there may be one for musl.
            commands={"claude": "node_modules/@anthropic-ai/claude-code-linux-*64/claude"},
            licence=LICENCE,
        )

    @property
    def prompts(self) -> Prompts:
        return Prompts(user=(_PROMPTS / "user.jinja").read_text())

    def start(self, task: Task, endpoint: ModelEndpoint, workdir: str) -> ProgramStart:
        settings = self._settings
        shown = (*settings.tools, *((SUBAGENT,) if settings.subagents else ()))
        flag = "--system-prompt-file" if settings.task_system == "replace" else "--append-system-prompt-file"
        return ProgramStart(
            argv=(
                *(self.command("claude"), "-p", "--model", MODEL, "--output-format", "json"),
                *("--dangerously-skip-permissions", "--no-session-persistence"),
                *("--strict-mcp-config", "--disable-slash-commands", "--setting-sources", "user"),
                *("--tools", ",".join(shown)),
                *((flag, f"{HOME}/{_SYSTEM}") if task.system else ()),
            ),
            files={_SYSTEM: task.system.encode()} if task.system else {},
            env=environment(
                endpoint,
                output_tokens=settings.output_tokens,
                compact_at_tokens=settings.compact_at_tokens,
                project_docs=settings.project_docs,
            ),
            stdin=task.prompt.encode(),
        )

    def check(self, exit_: Exit, recorder: StepRecorder) -> None:
        if exit_.ended == "finished" and recorder.unanswered_requests:
            raise InfraError("an answer of its model broke off: it has taken its pieces", kind="answer_broke_off")

    def request_rules(self) -> RequestRules:
        return RequestRules(pin=partial(_pinned, self._settings.prompt_date.isoformat()), side_request=_side_request)

    def oracle(self, fix: Fix) -> list[list[JsonObject]]:
        return turns_of(fix)


def _pinned(day: str, text: str) -> str:
    return _BILLING.sub("x-anthropic-billing-header:", _KERNEL.sub("Linux", _DATE.sub(day, text)))


def _side_request(_path: str, body: JsonObject) -> str | None:
    """The agent always has tools, and so has who sums up; titles and the like are asked for without."""
    return None if body.get("tools") else "without tools"
