"""Claims on tools that no table knows: the same name, equal arguments."""

from collections.abc import Callable
from typing import Any

import pytest

from paddock.types import JsonObject

BOOK: JsonObject = {
    "type": "function",
    "name": "book",
    "parameters": {
        "type": "object",
        "properties": {
            "event": {"type": "string"},
            "seats": {"type": "integer", "default": 1},
            "price": {"type": "number"},
            "note": {"type": ["string", "null"]},
            "rows": {"type": "array", "items": {"type": "integer"}},
            "vip": {"type": "boolean"},
        },
        "required": ["event"],
    },
}
SAME: list[tuple[JsonObject, JsonObject]] = [
    ({"event": "E1"}, {"event": "E1"}),
    ({"event": "E1", "price": 2}, {"price": 2, "event": "E1"}),
    ({"event": "E1", "price": 2}, {"event": "E1", "price": 2.0}),
    ({"event": "E1"}, {"event": "E1", "seats": 1}),
    ({"event": "E1", "seats": 1}, {"event": "E1"}),
    ({"event": "E1"}, {"event": "E1", "note": None}),
    ({"event": "E1", "note": None}, {"event": "E1", "seats": 1.0}),
    ({"event": "E1", "rows": [1, 2]}, {"event": "E1", "rows": [1, 2]}),
    ({"event": "E1", "rows": []}, {"event": "E1", "rows": []}),
    ({"event": "E 1 ü"}, {"event": "E 1 \u00fc"}),
    ({"event": "The user, Ann's, wants #W4 moved."}, {"event": "the user Ann's wants #W4 moved"}),
]
DIFFERENT: list[tuple[JsonObject, Any, str]] = [
    ({"event": "E1"}, {"event": "E2"}, "arguments_differ"),
    ({"event": "E1"}, {"event": "E2 "}, "arguments_differ"),
    ({"event": "Pay #W48 to Ann now."}, {"event": "Pay #W84 to Ann now."}, "arguments_differ"),
    ({"event": "Pay #W48 to Ann now."}, {"event": "Pay #w48 to ann now"}, "arguments_differ"),
    ({"event": "a = b; c"}, {"event": "a = b c"}, "arguments_differ"),
    ({"event": "E1"}, {"event": "E1 "}, "arguments_differ"),
    ({"event": "two words here"}, {"event": "two other words here"}, "arguments_differ"),
    ({"event": "E1"}, {"event": "E1", "seats": 2}, "arguments_differ"),
    ({"event": "E1", "seats": 2}, {"event": "E1"}, "arguments_differ"),
    ({"event": "E1", "rows": [1, 2]}, {"event": "E1", "rows": [2, 1]}, "arguments_differ"),
    ({"event": "E1"}, {"event": "E1", "extra": 1}, "arguments_differ"),
    ({"event": "E1", "note": "x"}, {"event": "E1", "note": None}, "arguments_differ"),
    ({"event": "E1", "seats": 1}, {"event": "E1", "seats": True}, "wrong_type"),
    ({"event": "E1", "seats": 1}, {"event": "E1", "seats": "1"}, "wrong_type"),
    ({"event": "E1", "vip": True}, {"event": "E1", "vip": 1}, "wrong_type"),
    ({"event": "E1"}, {"seats": 1}, "missing_argument"),
    ({"event": "E1"}, {}, "missing_argument"),
    ({"event": "E1"}, "", "not_json"),
    ({"event": "E1"}, "{'event': 'E1'}", "not_json"),
    ({"event": "E1", "price": 1}, '{"event": "E1", "price": NaN}', "not_json"),
    ({"event": "E1"}, "[]", "not_object"),
]


@pytest.mark.parametrize(("expected", "actual"), SAME)
def test_equal_arguments_score_1(score: Callable[..., Any], expected: JsonObject, actual: JsonObject) -> None:
    assert score(("book", expected), ("book", actual), tools=[BOOK]).reward == 1.0
    assert score(("book", actual), ("book", expected), tools=[BOOK]).reward == 1.0


@pytest.mark.parametrize(("expected", "actual", "reason"), DIFFERENT)
def test_other_arguments_score_0(score: Callable[..., Any], expected: JsonObject, actual: Any, reason: str) -> None:
    found = score(("book", expected), ("book", actual), tools=[BOOK])
    assert (found.reward, found.reason) == (0.0, reason)


@pytest.mark.parametrize(
    ("expected", "actual", "reward"),
    [
        ({"n": 1}, {"n": True}, 0),
        ({"n": 1.0}, {"n": 1}, 1),
        ({"n": 1}, {"n": None}, 0),
        ({"n": None}, {}, 0),
        ({"n": None}, {"n": None}, 1),
        ({"n": [{"a": 1, "b": [2]}]}, {"n": [{"b": [2.0], "a": 1}]}, 1),
        ({"n": 0.1 + 0.2}, {"n": 0.3}, 0),
    ],
)
def test_without_a_schema_nothing_is_a_default(
    score: Callable[..., Any], expected: JsonObject, actual: JsonObject, reward: float
) -> None:
    assert score(("get_weather", expected), ("get_weather", actual)).reward == reward


@pytest.mark.parametrize("name", ["get_forecast", "Get_Weather", "getWeather", "", "get_weather "])
def test_an_unknown_tool_is_matched_by_its_exact_name_alone(score: Callable[..., Any], name: str) -> None:
    assert score(("get_weather", {"city": "Rome"}), (name, {"city": "Rome"}))[:2] == (0.0, "tool_differs")


def test_a_tool_that_the_row_does_not_offer_is_unknown(score: Callable[..., Any]) -> None:
    found = score(("book", {"event": "E1"}), ("reserve", {"event": "E1"}), tools=[BOOK])
    assert (found.reward, found.reason) == (0.0, "unknown_tool")
    bash = {"type": "function", "name": "bash", "parameters": {"properties": {"command": {"type": "string"}}}}
    assert (
        score(("bash", {"command": "ls"}), ("execute_bash", {"command": "ls"}), tools=[bash]).reason == "unknown_tool"
    )


@pytest.mark.parametrize(
    "tool",
    [
        BOOK,
        {"type": "function", "function": {"name": "book", "parameters": BOOK["parameters"]}},
        {"name": "book", "input_schema": BOOK["parameters"]},
        {"type": "namespace", "name": "shop", "tools": [BOOK]},
    ],
)
def test_a_schema_is_found_in_each_form_of_a_tool(score: Callable[..., Any], tool: JsonObject) -> None:
    assert score(("book", {"event": "E1"}), ("book", {"event": "E1", "seats": 1}), tools=[tool]).reward == 1.0


def test_a_schema_that_the_experts_own_call_breaks_is_not_believed(score: Callable[..., Any]) -> None:
    parameters = {"properties": {"command": {"type": "string"}}, "required": ["command", "security_risk"]}
    bash = {"type": "function", "name": "execute_bash", "parameters": parameters}
    plain, risky = {"command": "ls -la"}, {"command": "ls -al", "security_risk": "LOW"}
    assert score(("execute_bash", plain), ("execute_bash", risky), tools=[bash]).reward == 1.0
    assert score(("execute_bash", plain), ("execute_bash", plain), tools=[bash]).reward == 1.0
    assert score(("execute_bash", risky), ("execute_bash", plain), tools=[bash]).reason == "missing_argument"


def test_a_schema_is_believed_for_all_calls_of_a_batch_or_for_none(score: Callable[..., Any]) -> None:
    whole = {"event": "E1", "seats": 1}
    broken = {"event": "E2", "seats": "two"}
    batch = [("book", {"event": "E1"}), ("book", broken)]
    assert score(batch, batch, tools=[BOOK]).reward == 1.0
    assert score(batch, [("book", whole), ("book", broken)], tools=[BOOK]).reward == 0.5
    assert score(batch[::-1], [("book", broken), ("book", whole)], tools=[BOOK]).reward == 0.5


def test_a_known_name_whose_arguments_the_table_cannot_read_is_matched_by_equal_arguments_alone(
    score: Callable[..., Any],
) -> None:
    assert score(("read", {"invoice": "7"}), ("read", {"invoice": "7"})).reward == 1.0
    assert score(("read", {"invoice": "7"}), ("read", {"invoice": "8"})).reward == 0.0
    assert score(("read", {"invoice": "7"}), ("read", {"filePath": "7"})).reward == 0.0


def test_a_custom_tools_text_is_its_input(score: Callable[..., Any]) -> None:
    tools = [{"type": "custom", "name": "exec"}, {"type": "custom", "name": "apply_patch"}]
    assert score(("exec", {"input": "text(1)"}), ("exec", "text(1)"), tools=tools).reward == 1.0
    assert score(("exec", {"input": "text(1)"}), ("exec", "text(2)"), tools=tools).reward == 0.0
    deletion = "*** Begin Patch\n*** Delete File: a.py\n*** End Patch"
    assert score(("apply_patch", {"input": deletion}), ("apply_patch", deletion), tools=tools).reward == 1.0
