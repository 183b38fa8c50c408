"""The arguments of Codex's tools: which ones the program takes, and which it refuses.

Source  by trial: Codex 0.169.0 for `exec_command`, `write_stdin`, `update_plan`; 0.63.0 for the others. A tool's
        arguments are read by each of its models in turn.
Lenient unknown keys are dropped, but for `update_plan`; an object may be written as a list of its values, in order, and
        a choice as an object with that one key, `{"pending": null}`. A number with a fraction or an exponent is no
        integer.
Default what a call leaves out is left to the tool's method: the defaults of the fields here are never read.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from paddock.tools import InvalidCall
from paddock.types import Json, JsonObject

_U64 = Annotated[int, Field(ge=0, lt=1 << 64)]
_I32 = Annotated[int, Field(ge=-(1 << 31), lt=1 << 31)]


def _choice(value: Any) -> Any:
    is_single_key = isinstance(value, dict) and list(value.values()) == [None]
    return next(iter(value)) if is_single_key else value


_CHOICE = BeforeValidator(_choice)


class ToolArguments(BaseModel):
    model_config = ConfigDict(strict=True)

    @model_validator(mode="before")
    @classmethod
    def _from_list(cls, value: Any) -> Any:
        if not isinstance(value, dict | list):
            raise PydanticCustomError("object", "Input should be an object")
        if isinstance(value, dict):
            return value
        if len(value) > len(cls.model_fields):
            raise PydanticCustomError("too_long", "List should have at most one value for each argument")
        return dict(zip(cls.model_fields, value, strict=False))


class TurnEnvironment(ToolArguments):
    environment_id: str | None = None


class ExecCommand(ToolArguments):
    cmd: str
    workdir: str | None = None
    shell: str | None = None
    login: bool | None = None
    tty: bool = False
    yield_time_ms: _U64 = 0
    max_output_tokens: _U64 | None = None
    sandbox_permissions: (
        Annotated[Literal["use_default", "require_escalated", "with_additional_permissions"], _CHOICE] | None
    ) = None
    justification: str | None = None
    prefix_rule: list[str] | None = None


class TerminalSession(ToolArguments):
    session_id: _I32


class WriteStdin(TerminalSession):
    chars: str = ""
    yield_time_ms: _U64 = 0
    max_output_tokens: _U64 | None = None


class PlanStep(ToolArguments):
    model_config = ConfigDict(extra="forbid")

    step: str
    status: Annotated[Literal["pending", "in_progress", "completed"], _CHOICE]


class CodexPlan(ToolArguments):
    model_config = ConfigDict(extra="forbid")

    explanation: str | None = None
    plan: list[PlanStep]


class PatchInput(ToolArguments):
    input: str


class ShellLine(ToolArguments):
    command: str
    workdir: str | None = None
    timeout_ms: _U64 | None = None
    with_escalated_permissions: bool | None = None
    justification: str | None = None


class ShellArgv(ShellLine):
    command: list[str]  # type: ignore[assignment]  # the other arguments are the same


MODELS: Mapping[str, tuple[type[ToolArguments], ...]] = {
    "exec_command": (TurnEnvironment, ExecCommand),
    "write_stdin": (TerminalSession, WriteStdin),
    "update_plan": (CodexPlan,),
    "apply_patch": (PatchInput,),
    "shell": (ShellArgv,),
    "shell_command": (ShellLine,),
}


def read_as(model: type[ToolArguments], value: Json) -> JsonObject | InvalidCall:
    """Return the arguments that the call gives, or the first thing that is wrong with them."""
    try:
        return model.model_validate(value).model_dump(exclude_unset=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        return InvalidCall("wrong_type", f"{'.'.join(map(str, first['loc'])) or 'arguments'}: {first['msg']}")
