"""The tools of CodeAct, by their real names, over one rollout's workspace.

Names   V0 calls them `execute_bash` and `str_replace_editor`, V1 `terminal` and `file_editor`; the profile says which
        there are, and how results read (`CodeActOptions`).
Finish  ends the run with its message; `think` does nothing.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from paddock.harness import RunLimits, Workspace
from paddock.harness.native import RawToolCall, Toolbox, ToolProfile, ToolResult
from paddock.harnesses.codeact import wordings
from paddock.harnesses.codeact.arguments import accepted_arguments
from paddock.harnesses.codeact.editor import Editor, EditorCall
from paddock.harnesses.codeact.errors import BinaryFileError, EditorError
from paddock.harnesses.codeact.tasks import TaskList
from paddock.harnesses.codeact.terminal import Terminal, TerminalBusyError, TerminalError, TerminalStyle
from paddock.tools import InvalidCall, decode_object
from paddock.types import JsonObject


class CodeActOptions(BaseModel):
    """Options of a profile."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    wording: wordings.Wording = "v0"
    """Whose answers to bad calls, and whose error marks."""
    nudge: Literal["always", "empty", "never"] = "always"
    """When an answer without a call is told to go on; `empty`: when it says nothing. Else it ends the run."""
    max_nudges: int = Field(default=3, ge=0)
    """Of one run; the answer after the last of them ends it."""
    no_change_timeout_s: float = Field(default=10, gt=0)
    """A command without a limit of its own is left running when it has written nothing for so long."""
    max_output_chars: int = Field(default=30_000, gt=0)
    """Of a command's output."""
    max_view_chars: int = Field(default=16_000, gt=0)
    """Of a file or a folder that the editor shows."""
    max_undo: int = Field(default=10, ge=1)
    """Edits per file that can be undone."""
    says_completed: bool = False
    """`[The command completed with exit code ...]` stands after the output."""
    says_python: bool = False
    """`[Python interpreter: ...]` stands after the working directory."""
    one_command: bool = True
    """Commands on lines of their own are refused; they are to be chained."""


class CodeActToolbox(Toolbox):
    """One rollout's."""

    def __init__(self, workspace: Workspace, limits: RunLimits, profile: ToolProfile) -> None:
        super().__init__(workspace, limits, profile)
        options = CodeActOptions.model_validate(profile.options)
        self._wording = options.wording
        self._editor = Editor(workspace, max_chars=options.max_view_chars, max_undo=options.max_undo)
        self._tasks = TaskList()
        style = TerminalStyle(
            no_change_timeout_s=options.no_change_timeout_s,
            max_output_chars=options.max_output_chars,
            says_completed=options.says_completed,
            says_python=options.says_python,
            one_command=options.one_command,
        )
        self._terminal = Terminal(workspace, style, call_s=limits.tool_s)

    async def close(self) -> None:
        await self._terminal.close()

    async def t_execute_bash(self, command: str, is_input: bool = False, timeout: float | None = None) -> str:
        try:
            return await self._terminal.run(command, is_input=is_input, timeout_s=timeout)
        except TerminalBusyError as error:
            return wordings.busy(self._wording, str(error))
        except TerminalError as error:
            return wordings.failed_command(self._wording, str(error))

    async def t_terminal(self, command: str, reset: bool = False, is_input: bool = False, **more: Any) -> str:
        if not reset:
            return await self.t_execute_bash(command, is_input, more.get("timeout"))
        if is_input:
            return wordings.failed_command(self._wording, "Cannot use reset=True with is_input=True")
        await self._terminal.reset()
        message = (
            "Terminal session has been reset. All previous environment variables and session state have been cleared."
        )
        if not command.strip():
            return message
        return f"{message}\n\n{await self.t_execute_bash(command, timeout=more.get('timeout'))}"

    async def t_str_replace_editor(self, **arguments: Any) -> str:
        if arguments["command"] == "str_replace":
            arguments.setdefault("new_str", "")
        return await self._edit(**arguments)

    async def t_file_editor(self, **arguments: Any) -> str:
        arguments.pop("security_risk", None)
        arguments.pop("summary", None)
        return await self._edit(**arguments)

    async def t_think(self, **_: Any) -> str:
        return "Your thought has been logged."

    async def t_finish(self, message: str = "", **_: Any) -> ToolResult:
        return ToolResult(message, done=True, final=message)

    async def t_task_tracker(self, command: str = "view", task_list: list[JsonObject] | None = None, **_: Any) -> str:
        return self._tasks.view() if command != "plan" else self._tasks.plan(task_list or [])

    def read_arguments(self, name: str, raw: str) -> JsonObject | InvalidCall:
        given = decode_object(raw or "{}")
        return (
            given
            if isinstance(given, InvalidCall)
            else accepted_arguments(self._wording, name, given, self._schemas[name])
        )

    def unknown_tool(self, call: RawToolCall) -> str:
        given = decode_object(call.raw or "{}")
        if isinstance(given, InvalidCall):
            return self.bad_json(call.shown, call.raw, given)
        return wordings.unknown_tool(self._wording, call.shown, given, list(self.shown.values()))

    def bad_json(self, shown: str, raw: str, problem: InvalidCall) -> str:
        return wordings.bad_json(self._wording, shown, raw)

    def bad_arguments(self, shown: str, raw: str, problem: InvalidCall) -> str:
        given = decode_object(raw or "{}")
        names = [] if isinstance(given, InvalidCall) else list(given)
        real = next((real for real, name in self.shown.items() if name == shown), shown)
        detail = problem.detail.replace(f"in tool call {real}", f"in tool call {shown}")
        return wordings.bad_arguments(self._wording, shown, detail, names)

    async def _edit(self, **arguments: Any) -> str:
        try:
            return await self._editor.run(EditorCall(**arguments))
        except BinaryFileError as error:
            return wordings.binary(self._wording, error.text, seen=arguments["command"] == "view")
        except EditorError as error:
            return wordings.failed_edit(self._wording, error.text)
