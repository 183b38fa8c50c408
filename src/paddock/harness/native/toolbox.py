"""A rollout's executors: a class per harness, a method per tool.

Method  `t_<real name>(self, **arguments)`: arguments as the tool's schema has them, those that the model left out are
        missing; a custom tool's method takes one, `text`. Returns a text for the model, or `ToolResult`.
Errors  what a program says about its own failure is text. A failure of the workspace is raised, never caught here: so
        it can't become a text. Files that are not there (FileNotFoundError, ...) are the tool's to word.
Wording a call that no tool can take is answered as the real program answers it: the methods at the end.
"""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from paddock.harness.contract import RunLimits, Workspace
from paddock.harness.native.profile import ToolProfile
from paddock.tools import InvalidCall, decode_object
from paddock.tools.arguments import violation
from paddock.types import JsonObject


class RawToolCall(NamedTuple):
    """A tool call as the model wrote it."""

    shown: str
    """The tool's name, as the model wrote it."""
    raw: str
    """The arguments, or a custom tool's text."""
    call_id: str
    custom: bool

    def result(self, text: str) -> JsonObject:
        """Return the item with the call's result."""
        kind = "custom_tool_call_output" if self.custom else "function_call_output"
        return {"type": kind, "call_id": self.call_id, "output": text}


class ToolResult(NamedTuple):
    """A tool's result, where it is more than a text."""

    text: str
    done: bool = False
    """Whether the policy says that it is finished, which ends the run with this turn."""
    final: str | None = None
    """The policy's last words."""


Tool = Callable[..., Awaitable[str | ToolResult]]


class Toolbox:
    """Base of a harness's toolbox. Made at the start of a run, closed at its end."""

    def __init__(self, workspace: Workspace, limits: RunLimits, profile: ToolProfile) -> None:
        self.workspace = workspace
        self.limits = limits
        self.profile = profile
        self.shown = {name: name for name in profile.tool_names}
        """Shown name by real name: what a text for the model calls a tool. The loop puts the task's names here."""
        self._schemas = {str(tool["name"]): tool.get("parameters") or {} for tool in profile.tools}

    async def close(self) -> None:
        """Close what is open, such as shells."""

    def method(self, name: str) -> Tool | None:
        """Return the executor of a tool of the profile, by its real name; None: there is none."""
        tool: Tool | None = getattr(self, f"t_{name}", None) if name in self._schemas else None
        return tool

    def read_arguments(self, name: str, raw: str) -> JsonObject | InvalidCall:
        """Read the arguments for a tool's method; by default, a JSON object checked by the tool's schema, which has no
        other property than those that it names unless it says so (`additionalProperties`)."""
        arguments = decode_object(raw or "{}")
        if isinstance(arguments, InvalidCall):
            return arguments
        return violation(arguments, {"additionalProperties": False, **self._schemas[name]}) or arguments

    def option(self, name: str) -> Any:
        """Return an option of the profile."""
        return self.profile.options[name]

    def resolve_name(self, shown: str) -> str | None:
        """Return the real name that the program takes an unknown one for; None: it stays unknown."""
        return None

    def unknown_tool(self, call: RawToolCall) -> str:
        return f"There is no tool {call.shown!r}; there are: {', '.join(self.shown.values())}."

    def bad_json(self, shown: str, raw: str, problem: InvalidCall) -> str:
        return f"{shown}: {problem.detail}"

    def bad_arguments(self, shown: str, raw: str, problem: InvalidCall) -> str:
        return f"{shown}: {problem.detail}"
