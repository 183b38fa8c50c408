"""The compat comparator answers as NeMo-Gym's single-step comparator does, its defects included."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from paddock.errors import RowError
from paddock.resources_servers.pivot.compat import CATEGORIES, CompatOptions, compare
from paddock.resources_servers.pivot.task import ActionComparison, read_expected

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def call(name: str, arguments: Any) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"type": "function_call", "call_id": "call_1", "name": name, "arguments": text}


def query(text: str) -> dict[str, Any]:
    return call("search", {"query": text})


def batch(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function_call_batch", "calls": list(calls)}


def message(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def judge(expected: dict[str, Any], *output: Any, **options: Any) -> ActionComparison:
    return compare(read_expected({"expected_action": expected}), {"output": list(output)}, CompatOptions(**options))


def judge_values(expected: Any, actual: Any, threshold: float = 0.1) -> tuple[float, str]:
    found = judge(call("t", {"v": expected}), call("t", {"v": actual}), word_count_similarity_threshold=threshold)
    return found.reward, found.reason


SINGLE = [
    ("any message earns a message", {"type": "message", "content": "Done."}, [message("No.")], 1.0, "message_match"),
    ("even an empty one", {"type": "message", "content": "Done."}, [message("")], 1.0, "message_match"),
    ("a call hides the text", {"type": "message", "content": "x"}, [message("x"), query("a")], 0.0, "message_expected"),
    ("a message earns no call", query("a"), [message("a")], 0.0, "call_expected"),
    ("no output is no action", query("a"), [], 0.0, "no_action"),
    ("nor for a message", {"type": "message", "content": "x"}, [], 0.0, "no_action"),
    ("reasoning is no action", query("a"), [{"type": "reasoning", "summary": []}], 0.0, "no_action"),
    ("a user's message is none", query("a"), [{**message("a"), "role": "user"}], 0.0, "no_action"),
    (
        "a refusal is none",
        query("a"),
        [{**message("a"), "content": [{"type": "refusal", "refusal": "a"}]}],
        0.0,
        "no_action",
    ),
    ("a message without parts is none", query("a"), [{**message("a"), "content": []}], 0.0, "no_action"),
    (
        "a custom tool call is none",
        query("a"),
        [{"type": "custom_tool_call", "name": "search", "input": "a"}],
        0.0,
        "no_action",
    ),
    ("text beside a call is ignored", query("a"), [message("let me see"), query("a")], 1.0, "match"),
    ("names are exact", query("a"), [call("Search", {"query": "a"})], 0.0, "tool_differs"),
    ("broken arguments", query("a"), [call("search", '{"query": "a"')], 0.0, "arguments_invalid"),
    ("empty arguments text", query("a"), [call("search", "")], 0.0, "arguments_invalid"),
    ("arguments that are an object already", query("a"), [{**query("a"), "arguments": {}}], 0.0, "arguments_invalid"),
    ("arguments that are a list", query("a"), [call("search", "[]")], 0.0, "type_differs"),
    ("a call without a name", query("a"), [{"type": "function_call", "arguments": "{}"}], 0.0, "tool_differs"),
]


@pytest.mark.parametrize(("claim", "expected", "output", "reward", "reason"), SINGLE, ids=[row[0] for row in SINGLE])
def test_the_action_is_read_as_the_contract_says(
    claim: str, expected: dict[str, Any], output: list[Any], reward: float, reason: str
) -> None:
    found = judge(expected, *output)
    assert (found.reward, found.reason) == (reward, reason), claim
    assert found.extras["category"] == CATEGORIES[found.reason]  # type: ignore[index]


VALUES = [
    (1, 1, 1.0, "match"),
    (1, 2, 0.0, "value_differs"),
    (1, True, 1.0, "match"),
    (0, False, 1.0, "match"),
    (True, 1, 0.0, "type_differs"),
    (1, 1.0, 0.0, "type_differs"),
    (1.0, 1, 0.0, "type_differs"),
    (1.0, 1.0000005, 1.0, "match"),
    (1.0, 1.00001, 0.0, "value_differs"),
    (float("nan"), float("nan"), 0.0, "value_differs"),
    (float("inf"), float("inf"), 0.0, "value_differs"),
    (None, None, 1.0, "match"),
    (None, "None", 0.0, "type_differs"),
    ("None", None, 0.0, "type_differs"),
    (True, False, 0.0, "value_differs"),
    ([1, 2], [1, 2], 1.0, "match"),
    ([1, 2], [2, 1], 0.0, "value_differs"),
    ([1, 2], [1], 0.0, "list_length_differs"),
    ([1, 2], {"0": 1}, 0.0, "type_differs"),
    ({"a": 1}, {"a": 1}, 1.0, "match"),
    ({"a": 1}, {"a": 1, "b": None}, 0.0, "keys_differ"),
    ({"a": 1, "b": None}, {"a": 1}, 0.0, "keys_differ"),
    ({"a": {"b": [0.5]}}, {"a": {"b": [0.5]}}, 1.0, "match"),
    ({"a": {"b": [0.5]}}, {"a": {"b": ["x"]}}, 0.0, "type_differs"),
    ("one", "one", 1.0, "match"),
    ("one", "One", 0.0, "value_differs"),
    ("one", "one ", 0.0, "value_differs"),
    ("one two", "two  ONE\n", 1.0, "match"),
    ("one two", "one", 0.0, "value_differs"),
    ("one two three", "four five six", 0.0, "value_differs"),
    ("", "", 1.0, "match"),
    ("", "  ", 0.0, "value_differs"),
]


@pytest.mark.parametrize(("expected", "actual", "reward", "reason"), VALUES)
def test_values_compare_by_the_rules_of_their_type(expected: Any, actual: Any, reward: float, reason: str) -> None:
    assert judge_values(expected, actual) == (reward, reason)


@pytest.mark.parametrize(
    ("threshold", "expected", "actual", "reward"),
    [
        (0.0, "pytest -q tests", "rm -rf /tmp/x", 1.0),
        (0.5, "pytest -q tests", "pytest -q tests", 1.0),
        (0.51, "pytest -q tests", "pytest -q tests", 0.0),
        (0.0, "ls", "ls ", 0.0),
        (0.25, "a b c d", "a b x y", 1.0),
        (0.26, "a b c d", "a b x y", 0.0),
        (0.3, "a a b", "a b b", 1.0),
        (0.34, "a a b", "a b b", 0.0),
    ],
)
def test_two_multi_word_strings_need_a_share_of_common_words_that_is_at_most_one_half(
    threshold: float, expected: str, actual: str, reward: float
) -> None:
    assert judge_values(expected, actual, threshold)[0] == reward


EDIT = {"command": "str_replace", "path": "/w/a.py", "old_str": "return x + 1", "new_str": "return x - 1"}
PROBES = [
    (0.0, {"command": 'grep -rn "def resolve" /testbed/src'}, {"command": "rm -rf / --no-preserve-root"}, 1.0),
    (0.0, EDIT, EDIT | {"old_str": "lorem ipsum dolor", "new_str": "foo bar baz"}, 1.0),
    (0.0, {"command": "view", "path": "/testbed/a.py"}, {"command": "view", "path": "/testbed/b.py"}, 0.0),
    (0.0, {"command": "ls -la"}, {"command": "ls -la", "timeout": 30}, 0.0),
    (0.3, {"command": "cp good.py bad.py && rm bad.bak"}, {"command": "cp bad.py good.py && rm bad.bak"}, 1.0),
    (0.3, {"command": "grep -rn foo src tests"}, {"command": "grep -rn foo src tests ; rm -rf /testbed"}, 1.0),
    (0.3, {"text": "    return total + 1"}, {"text": "return total + 1"}, 1.0),
    (0.3, {"n": 1}, {"n": True}, 1.0),
    (0.3, {"n": 1.0}, {"n": 1}, 0.0),
]


@pytest.mark.parametrize(("threshold", "expected", "actual", "reward"), PROBES)
def test_known_defects_of_the_contract_stay_as_they_are(
    threshold: float, expected: dict[str, Any], actual: dict[str, Any], reward: float
) -> None:
    found = judge(call("t", expected), call("t", actual), word_count_similarity_threshold=threshold)
    assert found.reward == reward


PARALLEL = [
    ("exact, any order", ["a", "b"], ["b", "a"], {}, (1.0, 1.0, 1.0), "batch_match"),
    ("one wrong", ["a", "b"], ["a", "x"], {}, (0.0, 0.5, 0.5), "value_differs"),
    ("one call, subset allowed", ["a", "b"], ["a"], {"allow_subset": True}, (1.0, 1.0, 2 / 3), None),
    ("one call, subset not allowed", ["a", "b"], ["a"], {"allow_superset": True}, (0.0, 0.0, 0.0), None),
    (
        "three surplus, superset allowed",
        ["a", "b"],
        ["a", "x", "b", "y", "z"],
        {"allow_superset": True},
        (1.0, 1.0, 4 / 7),
        None,
    ),
    ("surplus not allowed", ["a", "b"], ["a", "b", "x"], {"allow_subset": True}, (0.0, 0.0, 0.0), None),
    ("one expected, surplus", ["a"], ["x", "a"], {"allow_superset": True}, (1.0, 1.0, 2 / 3), None),
    ("a call serves once", ["a", "a"], ["a", "x"], {}, (0.0, 0.5, 0.5), "value_differs"),
    ("one third", ["a", "b", "c"], ["a", "x", "y"], {}, (0.0, 1 / 3, 1 / 3), "value_differs"),
]


@pytest.mark.parametrize("mode", [0, 1, 2], ids=["binary_strict", "fractional", "f1"])
@pytest.mark.parametrize(
    ("claim", "expected", "actual", "gate", "rewards", "reason"), PARALLEL, ids=[row[0] for row in PARALLEL]
)
def test_batches_earn_what_the_documented_table_says(
    mode: int,
    claim: str,
    expected: list[str],
    actual: list[str],
    gate: dict[str, bool],
    rewards: tuple[float, ...],
    reason: str | None,
) -> None:
    found = judge(
        batch(*map(query, expected)),
        *map(query, actual),
        parallel_tool_call_rewarding=True,
        parallel_tool_call_reward_mode=["binary_strict", "fractional", "f1"][mode],
        **gate,
    )
    assert found.reward == pytest.approx(rewards[mode]), claim
    if reason:
        assert found.reason == reason
    elif found.reward < 1.0:
        assert found.reason == "batch_length_differs"


def test_with_the_switch_off_surplus_calls_are_free_and_missing_ones_earn_nothing() -> None:
    modes = {"parallel_tool_call_reward_mode": "f1", "allow_subset": True}
    assert judge(query("a"), query("x"), query("a"), query("y"), **modes).reward == 1.0
    assert judge(batch(query("a"), query("b")), query("b"), query("x"), query("a"), **modes).reason == "batch_match"
    missing = judge(batch(query("a"), query("b")), query("a"), **modes)
    assert (missing.reward, missing.reason) == (0.0, "batch_length_differs")


def test_a_call_that_could_serve_two_expected_ones_is_given_to_the_one_that_needs_it() -> None:
    found = judge(
        batch(query("aa bb cc dd"), query("aa bb")),
        query("aa bb"),
        query("cc dd"),
        parallel_tool_call_rewarding=True,
        word_count_similarity_threshold=0.3,
    )
    assert found.reward == 1.0


def test_the_reason_of_a_batch_is_that_of_its_first_unmatched_call() -> None:
    expected = batch(query("a"), call("lookup", {"q": "b"}))
    assert judge(expected, query("a"), call("other", {"q": "b"})).reason == "tool_differs"
    assert judge(expected, query("a"), call("lookup", {"q": "x"})).reason == "value_differs"
    assert judge(expected, query("a"), call("lookup", "{")).reason == "arguments_invalid"


def test_there_is_one_category_sentence_per_reason() -> None:
    assert len(CATEGORIES) == len(set(CATEGORIES.values())) == 13


def test_an_expected_action_that_does_not_decode_is_the_rows_error() -> None:
    for broken in ("{", "", "[" * 100_000, '{"query":' + "[" * 201 + "]" * 201 + "}"):
        with pytest.raises(RowError, match="not JSON"):
            judge(call("search", broken), query("a"))
    with pytest.raises(RowError, match="no JSON object"):
        judge(call("search", "[]"), query("a"))


@pytest.mark.parametrize("options", [{"allow_both": True}, {"word_count_similarity_threshold": -0.1}])
def test_options_that_the_contract_does_not_have_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        CompatOptions(**options)


@pytest.mark.parametrize("levels", [201, 5_000, 200_000])
def test_arguments_nested_too_deep_do_not_decode(levels: int) -> None:
    deep = '{"query":' + "[" * levels + "]" * levels + "}"
    assert judge(query("a"), call("search", deep)).reason == "arguments_invalid"


def test_arguments_nested_199_levels_deep_are_compared() -> None:
    deep = call("t", '{"v":' + "[" * 199 + "]" * 199 + "}")
    assert judge(deep, deep).reward == 1.0


def test_thousands_of_calls_are_judged() -> None:
    calls = [query(f"q{index}") for index in range(2_000)]
    assert judge(query("q1999"), *calls).reward == 1.0


@settings(max_examples=30, deadline=None)
@given(response=JSON, items=st.lists(JSON, max_size=3), arguments=JSON)
def test_any_json_for_a_response_is_judged(response: Any, items: list[Any], arguments: Any) -> None:
    loose = {"type": "function_call", "name": "search", "arguments": arguments}
    for expected in (query("a"), batch(query("a"), query("b")), {"type": "message", "content": ""}):
        for given_response in (response, {"output": items}, {"output": [loose, *items]}, {"output": response}):
            found = compare(read_expected({"expected_action": expected}), given_response, CompatOptions())
            assert 0.0 <= found.reward <= 1.0


@settings(max_examples=30, deadline=None)
@given(arguments=st.dictionaries(st.text(max_size=4), JSON, max_size=4), threshold=st.floats(0.0, 0.5))
def test_an_action_played_back_earns_1_up_to_threshold_one_half(arguments: dict[str, Any], threshold: float) -> None:
    action = call("t", json.dumps(arguments).replace("Infinity", "1.0"))
    assert judge(action, action, word_count_similarity_threshold=threshold).reward == 1.0
