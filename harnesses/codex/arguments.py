"""The arguments of Codex's tools as the program's own types: data for `shapes`.

Source  by trial: Codex 0.169.0 for `exec_command`, `write_stdin`, `update_plan`; 0.63.0 for the others. A tool's
        arguments are read by each of its types in turn, each over the whole text.
"""

from collections.abc import Mapping
from dataclasses import replace

from paddock.harnesses.codex.shapes import (
    BoolShape,
    EnumShape,
    IntegerShape,
    ListShape,
    ObjectShape,
    OptionalShape,
    Shape,
    StringShape,
)

_U64 = IntegerShape("u64", 0, (1 << 64) - 1)
_TOKENS = OptionalShape(IntegerShape("usize", 0, (1 << 64) - 1))


def _fields(rust_name: str, *required: str, **fields: Shape) -> ObjectShape:
    return ObjectShape(rust_name, fields, frozenset(required))


_EXEC = _fields(
    "ExecCommandArgs",
    "cmd",
    cmd=StringShape(),
    workdir=OptionalShape(StringShape()),
    shell=OptionalShape(StringShape()),
    login=OptionalShape(BoolShape()),
    tty=BoolShape(),
    yield_time_ms=_U64,
    max_output_tokens=_TOKENS,
    sandbox_permissions=OptionalShape(EnumShape(("use_default", "require_escalated", "with_additional_permissions"))),
    justification=OptionalShape(StringShape()),
    prefix_rule=OptionalShape(ListShape(StringShape())),
)
_STDIN = _fields(
    "WriteStdinArgs",
    "session_id",
    session_id=IntegerShape("i32", -(1 << 31), (1 << 31) - 1),
    chars=StringShape(),
    yield_time_ms=_U64,
    max_output_tokens=_TOKENS,
)
_STEP = replace(
    _fields(
        "PlanItemArg",
        "step",
        "status",
        step=StringShape(),
        status=EnumShape(("pending", "in_progress", "completed")),
    ),
    strict=True,
)
_PLAN = replace(
    _fields("UpdatePlanArgs", "plan", explanation=OptionalShape(StringShape()), plan=ListShape(_STEP)), strict=True
)
_MORE: dict[str, Shape] = {
    "workdir": OptionalShape(StringShape()),
    "timeout_ms": OptionalShape(_U64),
    "with_escalated_permissions": OptionalShape(BoolShape()),
    "justification": OptionalShape(StringShape()),
}

SHAPES: Mapping[str, tuple[ObjectShape, ...]] = {
    "exec_command": (_fields("ToolEnvironmentArgs", environment_id=OptionalShape(StringShape())), _EXEC),
    "write_stdin": (_fields("TerminalSessionArgs", "session_id", session_id=_STDIN.fields["session_id"]), _STDIN),
    "update_plan": (_PLAN,),
    "apply_patch": (_fields("ApplyPatchToolArgs", "input", input=StringShape()),),
    "shell": (_fields("ShellToolCallParams", "command", command=ListShape(StringShape()), **_MORE),),
    "shell_command": (_fields("ShellCommandToolCallParams", "command", command=StringShape(), **_MORE),),
}
