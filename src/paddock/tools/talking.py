"""Calls that end the task, think, plan or ask: what they say is not read, only that they say it.

Source  finish, think and task_tracker (OpenHands), update_plan and request_user_input (Codex), todowrite and question
        (OpenCode), TodoWrite and AskUserQuestion (Claude Code).
Rules   a new plan has steps, each with a text; a text that is given is not empty; a status is a string and not read.
"""

from paddock.tools.actions import Ask, Finish, Plan, Think
from paddock.tools.arguments import ROLES, Arguments, BadArgumentError
from paddock.tools.values import says_something
from paddock.types import Json


def finish_action(given: Arguments) -> Finish:
    return Finish(_filled("said", given), given.rest())


def think_action(given: Arguments) -> Think:
    text = _filled("thought", given)
    if text is None:
        raise BadArgumentError("missing_argument", "no thought")
    return Think(text, given.rest())


def _filled(role: str, given: Arguments) -> str | None:
    text = given.maybe(role)
    if text is not None and not says_something(text):
        raise BadArgumentError("missing_argument", "the text is empty")
    return text


def task_tracker_action(given: Arguments) -> Plan:
    command = given.filled("command")
    if command == "view":
        given.any("steps")
        return Plan("view", rest=given.rest())
    if command != "plan":
        raise BadArgumentError("wrong_value", f"command {command!r:.40} is neither view nor plan")
    return plan_write_action(given)


def plan_view_action(given: Arguments) -> Plan:
    return Plan("view", rest=given.rest())


def plan_write_action(given: Arguments) -> Plan:
    steps = given.any("steps")
    if steps is None:
        raise BadArgumentError("missing_argument", f"no steps (one of {', '.join(ROLES['steps'])})")
    if not isinstance(steps, list):
        raise BadArgumentError("wrong_type", f"the plan is a {type(steps).__name__}, not a list")
    for step in steps:
        _check_step(step)
    return Plan("plan", len(steps), given.rest())


def _check_step(step: Json) -> None:
    if not isinstance(step, dict):
        raise BadArgumentError("wrong_type", f"a step is a {type(step).__name__}, not an object")
    text = next((step[name] for name in ROLES["step"] if name in step), None)
    if not isinstance(text, str) or not says_something(text):
        raise BadArgumentError("missing_argument", "a step has no text")
    if not isinstance(step.get("status", ""), str):
        raise BadArgumentError("wrong_type", "a step's status is no string")


def ask_action(given: Arguments) -> Ask:
    questions = given.any("questions")
    if isinstance(questions, str) and says_something(questions):
        return Ask(1, given.rest())
    if isinstance(questions, list) and questions and all(_is_question(each) for each in questions):
        return Ask(len(questions), given.rest())
    raise BadArgumentError("missing_argument" if not questions else "wrong_type", "no question")


def _is_question(value: Json) -> bool:
    text = value.get("question") if isinstance(value, dict) else None
    return isinstance(text, str) and says_something(text)
