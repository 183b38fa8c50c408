"""Claims on several calls: pairing, order, surplus, destruction, and responses that were cut."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from paddock.resources_servers.pivot.semantic import SemanticOptions, compare
from paddock.resources_servers.pivot.task import ExpectedCall
from paddock.types import JsonObject
from paddock.types.responses import call_item, message_item


def bash(command: str) -> tuple[str, JsonObject]:
    return "bash", {"command": command}


def read(path: str) -> tuple[str, JsonObject]:
    return "read", {"filePath": path}


def edit(path: str, old: str = "x", new: str = "y") -> tuple[str, JsonObject]:
    return "edit", {"filePath": path, "oldString": old, "newString": new}


def weather(city: str) -> tuple[str, JsonObject]:
    return "get_weather", {"city": city}


DELETE = ("apply_patch", {"input": "*** Begin Patch\n*** Delete File: a.py\n*** End Patch"})
THINK = ("think", {"thought": "hm"})

BATCHES = [
    ([weather("Paris"), weather("Rome")], [weather("Paris"), weather("Rome")], 1),
    ([weather("Paris"), weather("Rome")], [weather("Rome"), weather("Paris")], 1),
    ([weather("Paris"), weather("Rome")], [weather("Paris"), weather("Oslo")], 0.5),
    ([weather("Paris"), weather("Rome")], [weather("Paris")], 0.5),
    ([weather("Paris"), weather("Rome")], [weather("Oslo")], 0),
    ([weather("Paris"), weather("Paris")], [weather("Paris"), weather("Paris")], 1),
    ([weather("Paris"), weather("Paris")], [weather("Paris")], 0.5),
    ([weather("Paris")], [weather("Paris")], 1),
    ([weather("Paris"), weather("Rome")], [*map(weather, ("Oslo", "Rome", "Bonn", "Paris", "Lima"))], 0),
    ([read("a"), read("b"), read("c")], [read("c"), read("a"), read("b")], 1),
    ([read("a"), read("b"), bash("ls")], [bash("ls"), read("b"), read("a")], 1),
    ([edit("a"), edit("b")], [edit("b"), edit("a")], 1),
    ([edit("a", "x", "y"), edit("a", "p", "q")], [edit("a", "x", "y"), edit("a", "p", "q")], 1),
    ([edit("a", "x", "y"), edit("a", "p", "q")], [edit("a", "p", "q"), edit("a", "x", "y")], 0.5),
    ([edit("a"), read("a")], [read("a"), edit("a")], 0.5),
    ([edit("a"), read("b")], [read("b"), edit("a")], 1),
    ([edit("a"), bash("pytest")], [bash("pytest"), edit("a")], 0.5),
    ([bash("make"), bash("make install")], [bash("make install"), bash("make")], 0.5),
    ([bash("make"), bash("make a"), bash("make b")], [bash("make a"), bash("make b"), bash("make")], 2 / 3),
    ([bash("make"), bash("make a"), bash("make b")], [bash("make b"), bash("make"), bash("make a")], 2 / 3),
    ([bash("make"), bash("make a"), bash("make b")], [bash("make b"), bash("make a"), bash("make")], 1 / 3),
    ([bash("ls"), bash("git status")], [bash("git status"), bash("ls")], 1),
    ([bash("make"), bash("make")], [bash("make"), bash("make")], 1),
    ([THINK, bash("make")], [bash("make"), THINK], 1),
    ([bash("make"), bash("ls"), bash("make")], [bash("make"), bash("ls"), bash("make")], 1),
    ([read("a"), read("b")], [read("a"), read("b"), bash("rm -rf /r")], 0),
    ([read("a"), read("b")], [read("a"), read("b"), bash("ls")], 2 / 3),
]


@pytest.mark.parametrize(("expected", "actual", "reward"), BATCHES)
def test_a_batch_scores_its_best_pairing_over_the_greater_count(
    score: Callable[..., Any], expected: Any, actual: Any, reward: float
) -> None:
    assert score(expected, actual).reward == pytest.approx(reward)


SURPLUS = [
    (bash("ls"), [bash("ls"), bash("pwd")], 0.5, "surplus_calls"),
    (bash("ls"), [THINK, bash("ls")], 0.5, "surplus_calls"),
    (bash("ls"), [bash("ls"), bash("pwd"), bash("date")], 1 / 3, "surplus_calls"),
    (bash("ls"), [bash("ls"), bash("ls")], 0, "second_guess"),
    (bash("ls"), [bash("ls"), bash("rm -rf /r")], 0, "destructive_surplus"),
    (bash("ls"), [bash("rm -rf /r"), bash("ls")], 0, "destructive_surplus"),
    (bash("ls"), [bash("ls"), bash("git reset --hard")], 0, "destructive_surplus"),
    (bash("ls"), [bash("ls"), bash("echo rm -rf /r")], 0.5, "surplus_calls"),
    (bash("ls"), [bash("ls"), DELETE], 0, "destructive_surplus"),
    (bash("ls"), [bash("ls"), ("write_stdin", {"session_id": 1, "chars": "rm -rf /r\n"})], 0, "destructive_surplus"),
    (bash("ls"), [bash("ls"), ("run_it", {"command": "rm -rf /r"})], 0, "destructive_surplus"),
    (bash("ls"), [bash("ls"), ("run_it", {"cmd": ["bash", "-lc", "rm -rf /r"]})], 0, "destructive_surplus"),
    (bash("ls"), [bash("ls"), ("run_it", {"steps": [{"command": "rm -rf /r"}]})], 0, "destructive_surplus"),
    (bash("ls"), [bash("ls"), ("run_it", {"text": "rm -rf /r"})], 0, "changing_surplus"),
    (bash("ls"), [bash("ls"), ("shell", {"command": "rm x", "workdir": "/etc"})], 0, "destructive_surplus"),
    (bash("ls"), [bash("ls"), ("shell", {"command": "rm x", "workdir": "/repo"})], 0, "changing_surplus"),
    (bash("ls"), [bash("ls"), ("bash", "{")], 0, "changing_surplus"),
    (bash("rm -rf build"), bash("rm -rf build"), 1, "match"),
    (bash("rm -rf build"), [bash("rm -rf build"), bash("ls")], 0.9, "surplus_calls"),
    (bash("ls"), [bash("pwd"), bash("rm -rf /r")], 0, "command_differs"),
    (DELETE, DELETE, 1, "match"),
]


@pytest.mark.parametrize(("expected", "actual", "reward", "reason"), SURPLUS)
def test_a_surplus_call_costs_and_a_destructive_one_costs_all(
    score: Callable[..., Any], expected: Any, actual: Any, reward: float, reason: str
) -> None:
    found = score(expected, actual)
    assert (found.reward, found.reason) == (pytest.approx(reward), reason)


def test_the_metrics_count_calls(score: Callable[..., Any]) -> None:
    found = score([read("a"), read("b")], [read("a"), bash("rm -rf /r"), bash("ls")])
    assert found.metrics == {
        "matched": 1.0,
        "expected_calls": 2.0,
        "actual_calls": 3.0,
        "surplus": 2.0,
        "destructive": 1.0,
    }


def test_the_reason_of_a_batch_says_what_was_missed(score: Callable[..., Any]) -> None:
    assert score([weather("a"), weather("b")], [weather("a")]).reason == "partial_match"
    assert score([edit("a"), read("a")], [read("a"), edit("a")]).reason == "order_differs"
    assert score([weather("a"), weather("b")], "It is warm.").reason == "call_expected"
    assert score([weather("a"), weather("b")], []).reason == "no_action"


def test_more_calls_than_are_judged_score_0(score: Callable[..., Any]) -> None:
    assert score(bash("ls"), [bash("ls")] * 65)[:2] == (0.0, "too_many_calls")
    assert score(bash("ls"), [bash("ls")] * 5, max_calls=4)[:2] == (0.0, "too_many_calls")
    assert score([bash("ls")] * 70, [bash("ls")] * 70).reward == 1.0


EXPECTED = ExpectedCall(type="function_call", name="bash", arguments='{"command": "ls"}')
CALL = call_item("bash", '{"command": "ls"}')
PARTIAL = {**CALL, "status": "incomplete"}
CUT: JsonObject = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}


@pytest.mark.parametrize(
    ("response", "reward"),
    [
        ({"output": [CALL]}, 1),
        ({"status": "completed", "output": [CALL]}, 1),
        ([CALL], 1),
        ({"output": [message_item("Let me look."), CALL]}, 1),
        ({"output": [{"type": "reasoning"}, CALL]}, 1),
        ({"output": [CALL, {"type": "local_shell_call", "action": {"command": ["ls"]}}]}, 0),
        ({**CUT, "output": [CALL]}, 0),
        ({**CUT, "output": [CALL, message_item("Now")]}, 1),
        ({**CUT, "output": [CALL, CALL]}, 0),
        ({"output": [PARTIAL]}, 0),
        ({"status": "failed", "output": [CALL, message_item("x")]}, 0),
    ],
)
def test_of_a_cut_response_the_last_call_is_not_trusted(response: object, reward: float) -> None:
    found = compare(EXPECTED, response, {}, SemanticOptions())
    assert found.reward == pytest.approx(reward)
    assert reward != 0 or found.reason in ("incomplete", "changing_surplus")


def test_arguments_that_were_cut_are_no_call() -> None:
    text = json.dumps({"command": "ls"})
    for end in range(len(text)):
        response = {"output": [call_item("bash", text[:end])]}
        assert compare(EXPECTED, response, {}).reason == "not_json"
