"""The arguments of Codex's tools as the program's own types: data for `shapes`.

Source  by trial: Codex 0.169.0 for `exec_command`, `write_stdin`, `update_plan`; 0.63.0 for the others. A tool's
        arguments are read by each of its types in turn, each over the whole text.
"""

from collections.abc import Mapping
from dataclasses import replace

from paddock.harnesses.codex.shapes import Fields, Flag, ListOf, Maybe, OneOf, Shape, Text, Whole

_U64 = Whole("u64", 0, (1 << 64) - 1)
_TOKENS = Maybe(Whole("usize", 0, (1 << 64) - 1))


def _fields(called: str, *required: str, **fields: Shape) -> Fields:
    return Fields(called, fields, frozenset(required))


_EXEC = _fields(
    "ExecCommandArgs",
    "cmd",
    cmd=Text(),
    workdir=Maybe(Text()),
    shell=Maybe(Text()),
    login=Maybe(Flag()),
    tty=Flag(),
    yield_time_ms=_U64,
    max_output_tokens=_TOKENS,
    sandbox_permissions=Maybe(OneOf(("use_default", "require_escalated", "with_additional_permissions"))),
    justification=Maybe(Text()),
    prefix_rule=Maybe(ListOf(Text())),
)
_STDIN = _fields(
    "WriteStdinArgs",
    "session_id",
    session_id=Whole("i32", -(1 << 31), (1 << 31) - 1),
    chars=Text(),
    yield_time_ms=_U64,
    max_output_tokens=_TOKENS,
)
_STEP = replace(
    _fields(
        "PlanItemArg",
        "step",
        "status",
        step=Text(),
        status=OneOf(("pending", "in_progress", "completed")),
    ),
    strict=True,
)
_PLAN = replace(_fields("UpdatePlanArgs", "plan", explanation=Maybe(Text()), plan=ListOf(_STEP)), strict=True)
_MORE: dict[str, Shape] = {
    "workdir": Maybe(Text()),
    "timeout_ms": Maybe(_U64),
    "with_escalated_permissions": Maybe(Flag()),
    "justification": Maybe(Text()),
}

READ_BY: Mapping[str, tuple[Fields, ...]] = {
    "exec_command": (_fields("ToolEnvironmentArgs", environment_id=Maybe(Text())), _EXEC),
    "write_stdin": (_fields("TerminalSessionArgs", "session_id", session_id=_STDIN.fields["session_id"]), _STDIN),
    "update_plan": (_PLAN,),
    "apply_patch": (_fields("ApplyPatchToolArgs", "input", input=Text()),),
    "shell": (_fields("ShellToolCallParams", "command", command=ListOf(Text()), **_MORE),),
    "shell_command": (_fields("ShellCommandToolCallParams", "command", command=Text(), **_MORE),),
}
