"""Calls that end the task, think, plan or ask: it is checked that they have a text, not what it says.

Source  finish, think and task_tracker (OpenHands), update_plan and request_user_input (Codex), todowrite and question
        (OpenCode), TodoWrite and AskUserQuestion (Claude Code).
Rules   a new plan has steps, each with a text; a text is not blank; a status is any string.
"""

from paddock.tools.actions import Ask, Finish, Think, UpdatePlan
from paddock.tools.arguments import ROLES, BadArgumentError, CallArguments
from paddock.tools.values import has_visible_text
from paddock.types import Json


def finish_action(call: CallArguments) -> Finish:
    return Finish(_filled("said", call), call.rest())


def think_action(call: CallArguments) -> Think:
    text = _filled("thought", call)
    if text is None:
        raise BadArgumentError("missing_argument", "no thought")
    return Think(text, call.rest())


def _filled(role: str, call: CallArguments) -> str | None:
    text = call.optional_text(role)
    if text is not None and not has_visible_text(text):
        raise BadArgumentError("missing_argument", "the text is empty")
    return text


def task_tracker_action(call: CallArguments) -> UpdatePlan:
    command = call.required_text("command")
    if command == "view":
        call.value("steps")
        return UpdatePlan("view", rest=call.rest())
    if command != "plan":
        raise BadArgumentError("wrong_value", f"command {command!r:.40} is neither view nor plan")
    return plan_write_action(call)


def plan_view_action(call: CallArguments) -> UpdatePlan:
    return UpdatePlan("view", rest=call.rest())


def plan_write_action(call: CallArguments) -> UpdatePlan:
    steps = call.value("steps")
    if steps is None:
        raise BadArgumentError("missing_argument", f"no steps (one of {', '.join(ROLES['steps'])})")
    if not isinstance(steps, list):
        raise BadArgumentError("wrong_type", f"the plan is a {type(steps).__name__}, not a list")
    for step in steps:
        _check_step(step)
    return UpdatePlan("plan", len(steps), call.rest())


def _check_step(step: Json) -> None:
    if not isinstance(step, dict):
        raise BadArgumentError("wrong_type", f"a step is a {type(step).__name__}, not an object")
    text = next((step[name] for name in ROLES["step"] if name in step), None)
    if not isinstance(text, str) or not has_visible_text(text):
        raise BadArgumentError("missing_argument", "a step has no text")
    if not isinstance(step.get("status", ""), str):
        raise BadArgumentError("wrong_type", "a step's status is no string")


def ask_action(call: CallArguments) -> Ask:
    questions = call.value("questions")
    if isinstance(questions, str) and has_visible_text(questions):
        return Ask(1, questions, call.rest())
    if isinstance(questions, list) and questions:
        texts = [text for value in questions if (text := _question(value)) is not None]
        if len(texts) == len(questions):
            return Ask(len(questions), "\n".join(texts), call.rest())
    raise BadArgumentError("missing_argument" if not questions else "wrong_type", "no question")


def _question(value: Json) -> str | None:
    text = value.get("question") if isinstance(value, dict) else None
    return text if isinstance(text, str) and has_visible_text(text) else None
