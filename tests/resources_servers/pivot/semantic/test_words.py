"""Claims on actions that only say something: finish, think, plan, ask, and messages."""

from collections.abc import Callable
from typing import Any

import pytest

from paddock.resources_servers.pivot.semantic import compare
from paddock.resources_servers.pivot.task import ExpectedMessage
from paddock.types.responses import message_item

PLAN = {"command": "plan", "task_list": [{"id": "1", "title": "look", "status": "todo"}]}
STEPS = {"plan": [{"step": "look", "status": "pending"}]}
TODOS = {"todos": [{"content": "look", "status": "pending", "priority": "low"}]}
QUESTIONS = {"questions": [{"question": "Which?", "header": "Pick", "options": []}]}

SAME = [
    (("finish", {"message": "Done."}), ("finish", {"message": "All tests pass now."})),
    (("finish", {"message": "Done."}), ("Finish", {"message": "ok", "summary": "end"})),
    (("finish", {}), ("finish", {"message": "Fixed."})),
    (("finish", {}), ("submit", {})),
    (("think", {"thought": "a"}), ("think", {"thought": "b"})),
    (("think", {"thought": "a"}), ("Think", {"thought": "quite another thought", "summary": "x"})),
    (("task_tracker", {"command": "view"}), ("task_tracker", {"command": "view"})),
    (("task_tracker", PLAN), ("todo_tracker", {"command": "plan", "task_list": [{"title": "x"}, {"title": "y"}]})),
    (("update_plan", STEPS), ("modify_plan", {"plan": [{"step": "x", "status": "completed"}], "explanation": "y"})),
    (("todowrite", TODOS), ("TodoWrite", {"todos": [{"content": "z", "status": "completed"}]})),
    (("task_tracker", {"command": "view"}), ("todo_read", {})),
    (("question", QUESTIONS), ("question", {"questions": [{"question": "Why?", "header": "h", "options": []}]})),
]
DIFFERENT = [
    (("finish", {"message": "Done."}), ("finish", {}), "missing_argument"),
    (("finish", {"message": "Done."}), ("finish", {"message": " "}), "missing_argument"),
    (("finish", {"message": "Done."}), ("finish", {"message": "\u200b\u2060"}), "missing_argument"),
    (("finish", {"message": "Done."}), ("finish", {"message": 1}), "wrong_type"),
    (("finish", {"message": "Done."}), ("finish", "{"), "not_json"),
    (("finish", {"message": "Done."}), ("think", {"thought": "Done."}), "kind_differs"),
    (("finish", {"message": "Done."}), ("execute_bash", {"command": "echo Done."}), "kind_differs"),
    (("finish", {"message": "Done."}), ("task_tracker", {"command": "view"}), "kind_differs"),
    (("finish", {"message": "Done.", "task_completed": "true"}), "Done.", "call_expected"),
    (("finish", {"message": "a", "task_completed": "true"}), ("finish", {"message": "a"}), "arguments_differ"),
    (("think", {"thought": "a"}), ("think", {}), "missing_argument"),
    (("think", {"thought": "a"}), ("think", {"thought": ""}), "missing_argument"),
    (("think", {"thought": "a"}), ("think", "[]"), "not_object"),
    (("think", {"thought": "a"}), ("finish", {"message": "a"}), "kind_differs"),
    (("think", {"thought": "a"}), "a", "call_expected"),
    (("task_tracker", PLAN), ("task_tracker", {"command": "view"}), "plan_differs"),
    (("task_tracker", {"command": "view"}), ("task_tracker", PLAN), "plan_differs"),
    (("task_tracker", PLAN), ("task_tracker", {"command": "plan"}), "missing_argument"),
    (("task_tracker", PLAN), ("task_tracker", {"command": "plan", "task_list": []}), "missing_argument"),
    (("task_tracker", PLAN), ("task_tracker", {"command": "plan", "task_list": "look"}), "wrong_type"),
    (("task_tracker", PLAN), ("task_tracker", {"command": "plan", "task_list": [{"title": ""}]}), "missing_argument"),
    (("update_plan", STEPS), ("update_plan", {}), "missing_argument"),
    (("update_plan", STEPS), ("update_plan", {"plan": [{"status": "pending"}]}), "missing_argument"),
    (("update_plan", STEPS), ("think", {"thought": "look"}), "kind_differs"),
    (("todowrite", TODOS), ("todo_read", {}), "plan_differs"),
    (("todowrite", TODOS), ("todowrite", {"todos": [{}]}), "missing_argument"),
    (("question", QUESTIONS), ("question", {"questions": []}), "missing_argument"),
    (("question", QUESTIONS), "Which?", "call_expected"),
]


@pytest.mark.parametrize(("expected", "actual"), SAME)
def test_other_words_score_1(score: Callable[..., Any], expected: Any, actual: Any) -> None:
    assert score(expected, actual).reward == 1.0


@pytest.mark.parametrize(("expected", "actual", "reason"), DIFFERENT)
def test_another_kind_or_a_call_that_says_nothing_scores_0(
    score: Callable[..., Any], expected: Any, actual: Any, reason: str
) -> None:
    found = score(expected, actual)
    assert (found.reward, found.reason) == (0.0, reason)


MESSAGES = [
    "Hello.",
    "Quite something else, at length.",
    " x ",
    "Use `<tool_call>` in the template.",
    "Write it so:\n```xml\n<tool_call>{}</tool_call>\n```\nand run it.",
    "a < b and b > a, so <b>it</b> holds",
    "The `<function=x>` form is old.",
    "call(tool) works",
    '{"answer": 42}',
    '[{"name": "Ada"}]',
    'Send this:\n```json\n{"name": "bash", "arguments": {}}\n```',
    "\U0001f44d",
    "日本語",
]
NO_MESSAGES = [
    ("", "message_empty"),
    (" \n\t", "message_empty"),
    ("\u200b", "message_empty"),
    ('<tool_call>{"name": "bash"}</tool_call>', "message_markup"),
    ("I will look.\n<function=bash><parameter=command>ls</parameter></function>", "message_markup"),
    ("done </tool_call>", "message_markup"),
    ("<function_call>ls</function_call>", "message_markup"),
    ("<|tool_call_begin|>ls", "message_markup"),
    ("<TOOL_CALL>ls</TOOL_CALL>", "message_markup"),
    ("```\nopen fence <tool_call>ls</tool_call>", "message_markup"),
    ("a ` tick <tool_call>ls</tool_call>", "message_markup"),
    ('[TOOL_CALLS] [{"name": "bash"}]', "message_markup"),
    ('<invoke name="bash">ls</invoke>', "message_markup"),
    ('{"name": "bash", "arguments": {"command": "ls"}}', "message_markup"),
    ('[{"name": "bash", "arguments": {}}, {"name": "bash", "parameters": {}}]', "message_markup"),
    ('```json\n{"name": "bash", "arguments": {"command": "ls"}}\n```', "message_markup"),
    ('<|start|>assistant to=functions.bash {"command": "ls"}', "message_markup"),
    ("*** Begin Patch\n*** Delete File: a\n*** End Patch", "message_markup"),
    (("bash", {"command": "ls"}), "message_expected"),
    (["Let me look.", ("bash", {"command": "ls"})], "message_expected"),
    ([], "no_action"),
]


@pytest.mark.parametrize("text", MESSAGES)
def test_any_message_passes_for_a_message(score: Callable[..., Any], text: str) -> None:
    assert score("How can I help?", text).reward == 1.0


@pytest.mark.parametrize(("actual", "reason"), NO_MESSAGES)
def test_what_is_no_message_scores_0(score: Callable[..., Any], actual: Any, reason: str) -> None:
    found = score("How can I help?", actual)
    assert (found.reward, found.reason) == (0.0, reason)


def test_one_message_of_several_may_be_empty(score: Callable[..., Any]) -> None:
    assert score("Hi.", ["", "Hello."]).reward == 1.0
    assert score("Hi.", ["Hello.", "<tool_call>"]).reward == 0.0


def test_a_call_that_the_provider_runs_is_no_message() -> None:
    expected = ExpectedMessage(type="message", content="Hi.")
    response = {"output": [message_item("Hello."), {"type": "web_search_call", "status": "completed"}]}
    assert compare(expected, response, {})[:2] == (0.0, "message_expected")
