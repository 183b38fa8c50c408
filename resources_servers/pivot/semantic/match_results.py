"""What a comparison of two actions gives: whether they are the same, a reason of a closed set, and a sentence.

Shapes  `Reason` is every `reason` that the semantic comparator gives a verdict; `describe` names an action.
Errors  none.
"""

from typing import Literal, NamedTuple

from paddock.tools import (
    Action,
    Ask,
    Edit,
    Finish,
    ListFolder,
    OtherCall,
    ReadFile,
    Search,
    ShellCommand,
    Stdin,
    Think,
    UpdatePlan,
)

Reason = Literal[
    "match",
    "partial_match",
    "surplus_calls",
    "destructive_surplus",
    "changing_surplus",
    "second_guess",
    "no_action",
    "message_expected",
    "call_expected",
    "message_empty",
    "message_markup",
    "incomplete",
    "too_many_calls",
    "too_long",
    "unknown_tool",
    "not_json",
    "not_object",
    "missing_argument",
    "wrong_type",
    "wrong_value",
    "unknown_argument",
    "bad_patch",
    "kind_differs",
    "tool_differs",
    "arguments_differ",
    "command_differs",
    "limit_differs",
    "input_differs",
    "path_differs",
    "lines_differ",
    "pattern_differs",
    "scope_differs",
    "edit_differs",
    "plan_differs",
    "text_differs",
    "order_differs",
    "expected_unusable",
]


class MatchResult(NamedTuple):
    """Whether a pair of actions matches, and why not."""

    same: bool
    reason: Reason
    detail: str = ""


SAME = MatchResult(same=True, reason="match")


def differ(reason: Reason, detail: str) -> MatchResult:
    return MatchResult(same=False, reason=reason, detail=detail)


def describe(action: Action) -> str:
    """Describe an action in a few words, for the detail of a verdict."""
    match action:
        case ShellCommand():
            return f"the command {clip(action.command)}"
        case Stdin():
            return f"the input {clip(action.text)}"
        case Edit():
            return "an edit of " + ", ".join(sorted({clip(edit.path) for edit in action.edits})[:3])
        case ReadFile():
            last = "the end" if action.last_line is None else action.last_line
            return f"a read of {clip(action.path)}, lines {action.first_line} to {last}"
        case Search():
            return f"a search for {clip(action.pattern)} in {clip(action.path or '.')}"
        case ListFolder():
            return f"a listing of {clip(action.path or '.')}"
        case Finish():
            return "the end of the task"
        case Think():
            return "a thought"
        case UpdatePlan():
            return f"task list command {action.command}"
        case Ask():
            return "a question to the user"
        case OtherCall():
            return f"a call of {clip(action.name)}"


def clip(text: str) -> str:
    shown = repr(text[:80])
    return shown if len(text) <= 80 else shown + "..."
