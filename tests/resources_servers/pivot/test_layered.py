"""Layered: the same action on the same target earns; what is malformed, empty or missing never does."""

import json
from difflib import SequenceMatcher
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from paddock.resources_servers.pivot.layered import LayeredOptions, compare
from paddock.resources_servers.pivot.layered_kinds import kind_of
from paddock.resources_servers.pivot.layered_similarity import similarity
from paddock.resources_servers.pivot.task import ActionComparison, read_expected

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def call(name: str, arguments: Any) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"type": "function_call", "call_id": "call_1", "name": name, "arguments": text}


def message(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def batch(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function_call_batch", "calls": list(calls)}


def judge(expected: dict[str, Any], *output: Any, **options: Any) -> ActionComparison:
    return compare(read_expected({"expected_action": expected}), {"output": list(output)}, LayeredOptions(**options))


PYTEST = call("bash", {"command": "pytest -q tests/unit/test_parse.py"})
GREP = call("grep", {"pattern": "def foo", "path": "/a/b"})
VIEW = call("str_replace_editor", {"command": "view", "path": "/a/b.py", "view_range": [40, 80]})
OLD, NEW = "    if total > limit:\n        return None", "    if total >= limit:\n        return None"
REPLACE = {"command": "str_replace", "path": "/w/src/cart.py", "old_str": OLD, "new_str": NEW}
EDIT = call("str_replace_editor", REPLACE)
INSERT = {"command": "insert", "path": "/w/src/cart.py", "insert_line": 3, "new_str": "import os"}
PATCH = "*** Begin Patch\n*** Update File: src/cart.py\n@@\n-    return 1\n+    return 2\n*** End Patch"
PLAN = call("task_tracker", {"command": "plan", "task_list": [{"id": "1", "title": "Fix", "status": "todo"}]})

EARN_NOTHING = [
    ("undecodable arguments", PYTEST, call("bash", '{"command": "pytest'), "arguments_invalid"),
    ("no arguments", PYTEST, call("bash", {}), "arguments_missing"),
    ("a list for arguments", PYTEST, call("bash", [1]), "arguments_invalid"),
    ("empty text for arguments", PYTEST, call("bash", ""), "arguments_invalid"),
    ("a blank command", PYTEST, call("bash", {"command": "  "}), "arguments_missing"),
    ("a null command", PYTEST, call("bash", {"command": None}), "arguments_missing"),
    ("a number for a command", PYTEST, call("bash", {"command": 3}), "arguments_invalid"),
    ("another argument name for the command", PYTEST, call("bash", {"cmd": "pytest -q"}), "arguments_missing"),
    ("any edit tool, undecodable", VIEW, call("edit", "{"), "arguments_invalid"),
    ("an editor without arguments", VIEW, call("str_replace_editor", {}), "arguments_missing"),
    ("grep without a path", GREP, call("grep", {"pattern": "zzz"}), "arguments_missing"),
    ("grep for something else", GREP, call("grep", {"pattern": "zzz", "path": "/a/b"}), "similarity_below_threshold"),
    ("grep without a pattern", GREP, call("grep", {"path": "/a/b"}), "arguments_missing"),
    (
        "reading another file under another key",
        call("read", {"path": "/a/b.py"}),
        call("read", {"filePath": "/etc/passwd"}),
        "arguments_missing",
    ),
    (
        "reading another file",
        call("read", {"filePath": "/a/b.py"}),
        call("read", {"filePath": "/etc/passwd"}),
        "target_differs",
    ),
    ("finish without its message", call("finish", {"message": "Done."}), call("finish", {}), "arguments_missing"),
    ("finish undecodable", call("finish", {"message": "Done."}), call("submit", "!"), "arguments_invalid"),
    ("an empty thought", call("think", {"thought": "Hm."}), call("think", {"thought": ""}), "arguments_missing"),
    ("a plan without tasks", PLAN, call("task_tracker", {"command": "plan", "task_list": []}), "arguments_missing"),
    ("a plan viewed, not made", PLAN, call("task_tracker", {"command": "view"}), "arguments_missing"),
    ("a view without lines", VIEW, call("str_replace_editor", {"command": "view", "path": "/a/b.py"}), None),
    ("an edit without its old text", EDIT, call("str_replace_editor", REPLACE | {"old_str": ""}), "arguments_missing"),
    ("an edit without its new text", EDIT, call("str_replace_editor", REPLACE | {"new_str": ""}), "arguments_missing"),
    ("a patch under a wrong name", call("apply_patch", {"input": PATCH}), call("apply_patch", {"x": PATCH}), None),
    ("an unknown tool without arguments", call("book", {"seat": "4A"}), call("book", {}), "arguments_missing"),
    ("an unknown tool, undecodable", call("book", {"seat": "4A"}), call("book", "{"), "arguments_invalid"),
    ("an unknown tool, other values", call("book", {"n": 2}), call("book", {"n": 3}), "similarity_below_threshold"),
    ("a nested value gone", call("book", {"who": {"id": 1}}), call("book", {"who": {}}), "arguments_missing"),
    ("a command where the expert only waited", call("execute_bash", {"command": "", "is_input": "true"}), None, None),
    ("a call without a name", PYTEST, {"type": "function_call", "arguments": PYTEST["arguments"]}, "kind_differs"),
    ("a message", PYTEST, message("pytest -q tests/unit/test_parse.py"), "call_expected"),
    ("a blank message", PYTEST, message(" "), "no_action"),
    ("reasoning alone", PYTEST, {"type": "reasoning", "summary": []}, "no_action"),
]


@pytest.mark.parametrize("mode", ["binary", "continuous"])
@pytest.mark.parametrize(("claim", "expected", "actual", "reason"), EARN_NOTHING, ids=[row[0] for row in EARN_NOTHING])
def test_what_is_malformed_empty_or_missing_earns_nothing(
    claim: str, expected: dict[str, Any], actual: dict[str, Any] | None, reason: str | None, mode: str
) -> None:
    found = judge(
        expected, actual or call("execute_bash", {"command": "rm -rf /w", "is_input": "true"}), reward_mode=mode
    )
    assert found.reward == 0.0, claim
    assert reason is None or found.reason == reason


SAME = [
    ("itself", PYTEST, PYTEST),
    ("another name of the kind", PYTEST, call("execute_bash", json.loads(PYTEST["arguments"]))),
    ("another spelling of the name", PYTEST, call("Bash", json.loads(PYTEST["arguments"]))),
    ("the other harness's argument name", PYTEST, call("exec_command", {"cmd": "pytest -q tests/unit/test_parse.py"})),
    (
        "a command as a list of words",
        call("shell", {"command": ["bash", "-lc", "ls -la src/app"]}),
        call("shell", {"command": ["bash", "-lc", "ls -la src/app"]}),
    ),
    ("one more flag", PYTEST, call("bash", {"command": "pytest -q -x tests/unit/test_parse.py"})),
    ("a surplus optional argument", PYTEST, call("bash", json.loads(PYTEST["arguments"]) | {"timeout": 60})),
    ("another repository root", EDIT, call("str_replace_editor", REPLACE | {"path": "/testbed/src/cart.py"})),
    ("an edit with a comment more", EDIT, call("str_replace_editor", REPLACE | {"new_str": NEW + "  # full"})),
    ("camel-case arguments", call("edit", {"filePath": "/a/b.py", "oldString": "x = 1", "newString": "x = 2"}), None),
    ("a deletion", call("edit", {"filePath": "/a/b.py", "oldString": "x = 1\n", "newString": ""}), None),
    (
        "a view that covers most of the lines",
        VIEW,
        call("str_replace_editor", {"command": "view", "path": "/a/b.py", "view_range": [45, 90]}),
    ),
    (
        "one line viewed",
        call("str_replace_editor", {"command": "view", "path": "/a/b.py", "view_range": [7, 7]}),
        None,
    ),
    (
        "a view to the end of the file",
        call("str_replace_editor", {"command": "view", "path": "/a/b.py", "view_range": [40, -1]}),
        call("str_replace_editor", {"command": "view", "path": "/a/b.py", "view_range": [30, -1]}),
    ),
    ("another path with the same tail", GREP, call("grep", {"pattern": "def foo", "path": "/a/b/"})),
    ("finish in other words", call("finish", {"message": "Done."}), call("finish", {"message": "Fixed it."})),
    ("other thoughts", call("think", {"thought": "Why?"}), call("think", {"thought": "The cache is stale."})),
    ("a patch", call("apply_patch", {"input": PATCH}), None),
    (
        "a patch as custom tool call",
        call("apply_patch", {"input": PATCH}),
        {"type": "custom_tool_call", "name": "apply_patch", "input": PATCH},
    ),
    ("a tool without arguments", call("todo_read", {}), None),
    ("an unknown tool", call("book", {"seat": "4A", "n": 2, "window": True, "who": {"id": [1, 2]}}), None),
    ("waiting for more output", call("execute_bash", {"command": "", "is_input": "true"}), None),
    ("null optional arguments", call("read", {"filePath": "/a/b.py", "offset": None}), None),
]


@pytest.mark.parametrize(("claim", "expected", "actual"), SAME, ids=[row[0] for row in SAME])
def test_the_same_action_on_the_same_target_earns_1(
    claim: str, expected: dict[str, Any], actual: dict[str, Any] | None
) -> None:
    found = judge(expected, actual or expected)
    assert (found.reward, found.reason) == (1.0, "match"), f"{claim}: {found.detail}"


OTHER = [
    ("another kind", PYTEST, GREP, "kind_differs"),
    ("listing is no search", call("list_dir", {"path": "/a/b"}), GREP, "kind_differs"),
    ("finding is no search", call("glob", {"pattern": "def foo", "path": "/a/b"}), GREP, "kind_differs"),
    ("an unknown tool of another name", call("book", {"n": 1}), call("cancel", {"n": 1}), "kind_differs"),
    ("another program", PYTEST, call("bash", {"command": "rm -rf tests/unit/test_parse.py"}), "target_differs"),
    ("another path", PYTEST, call("bash", {"command": "pytest -q tests/unit/test_other.py"}), "target_differs"),
    ("no path", PYTEST, call("bash", {"command": "pytest -q"}), "target_differs"),
    ("any other cd", call("bash", {"command": "cd x"}), call("bash", {"command": "cd aaaaaaaaaaaaaaaaaaa"}), None),
    ("another sub-command", EDIT, call("str_replace_editor", REPLACE | {"command": "create"}), "target_differs"),
    ("another file", EDIT, call("str_replace_editor", REPLACE | {"path": "/w/src/order.py"}), "target_differs"),
    ("other lines", VIEW, call("str_replace_editor", json.loads(VIEW["arguments"]) | {"view_range": [1, 40]}), None),
    ("no lines at all", VIEW, call("str_replace_editor", json.loads(VIEW["arguments"]) | {"view_range": [80]}), None),
    (
        "another place to insert",
        call("str_replace_editor", INSERT),
        call("str_replace_editor", INSERT | {"insert_line": 9}),
        "target_differs",
    ),
    (
        "another file in the patch",
        call("apply_patch", {"input": PATCH}),
        call("apply_patch", {"input": PATCH.replace("cart.py", "order.py")}),
        "target_differs",
    ),
    (
        "text that is no patch",
        call("apply_patch", {"input": PATCH}),
        call("apply_patch", {"input": "please"}),
        "target_differs",
    ),
    (
        "a far page of the same file",
        call("read", {"filePath": "/a/b.py", "offset": 1, "limit": 50}),
        call("read", {"filePath": "/a/b.py", "offset": 400, "limit": 50}),
        "target_differs",
    ),
    (
        "other new text",
        EDIT,
        call("str_replace_editor", REPLACE | {"new_str": "    raise SystemExit"}),
        "similarity_below_threshold",
    ),
    (
        "right new text at a wrong place",
        EDIT,
        call("str_replace_editor", REPLACE | {"old_str": "lorem ipsum"}),
        "similarity_below_threshold",
    ),
    ("another plan command", call("task_tracker", {"command": "view"}), PLAN, "target_differs"),
]


@pytest.mark.parametrize(("claim", "expected", "actual", "reason"), OTHER, ids=[row[0] for row in OTHER])
def test_another_action_or_target_earns_0(
    claim: str, expected: dict[str, Any], actual: dict[str, Any], reason: str | None
) -> None:
    found = judge(expected, actual)
    assert found.reward == 0.0, claim
    assert reason is None or found.reason == reason, found.detail


def test_levels_can_be_switched_off_but_not_the_arguments() -> None:
    other_file = call("str_replace_editor", REPLACE | {"path": "/w/src/order.py"})
    other_text = call("str_replace_editor", REPLACE | {"new_str": "    raise SystemExit"})
    assert judge(EDIT, other_file, enable_target_match=False).reward == 1.0
    assert judge(EDIT, other_text, enable_argument_similarity=False).reward == 1.0
    off = {"enable_target_match": False, "enable_argument_similarity": False}
    assert judge(EDIT, call("str_replace_editor", {}), **off).reward == 0.0
    assert judge(EDIT, call("str_replace_editor", "{"), **off).reward == 0.0


def test_continuous_mode_pays_in_proportion_between_the_thresholds() -> None:
    expected = call("bash", {"command": "make abcdefghij"})
    options: dict[str, Any] = {"reward_mode": "continuous"}
    near, half, far = ("make abcdefghiz", "make abcdeVWXYZ", "make ABCDEFGHIJ")
    assert judge(expected, call("bash", {"command": near}), **options).reward == 1.0
    likeness = 2 * 10 / 30
    found = judge(expected, call("bash", {"command": half}), **options)
    assert found.reward == pytest.approx(0.5 + 0.5 * (likeness - 0.4) / 0.4)
    assert found.reason == "partial_match"
    assert found.extras["similarity_score"] == pytest.approx(likeness)
    assert judge(expected, call("bash", {"command": far}), **options).reward == 0.0
    assert judge(expected, call("bash", {"command": half})).reward == 0.0


def test_size_costs_in_continuous_mode_alone_and_at_most_alpha() -> None:
    long = call("write", {"filePath": "/a/b.py", "content": "x" * 250})
    longer = call("write", {"filePath": "/a/b.py", "content": "x" * 5_000})
    assert judge(long, long).reward == 1.0
    assert judge(long, long, reward_mode="continuous").reward == pytest.approx(0.95)
    assert judge(longer, longer, reward_mode="continuous").reward == pytest.approx(0.9)
    assert judge(longer, longer, reward_mode="continuous", diff_size_alpha=1.0).reward == 0.0
    assert judge(long, long, reward_mode="continuous", enable_diff_size_shaping=False).reward == 1.0


def read(name: str) -> dict[str, Any]:
    return call("read", {"filePath": f"/w/src/{name}"})


@pytest.mark.parametrize(
    ("expected", "actual", "reward", "reason"),
    [
        (["a", "b"], ["b", "a"], 1.0, "match"),
        (["a", "b"], ["a"], 0.5, "calls_missing"),
        (["a", "b"], ["a", "x"], 0.5, "target_differs"),
        (["a"], ["a", "x"], 0.5, "surplus_calls"),
        (["a"], ["x", "y", "a", "z"], 0.25, "surplus_calls"),
        (["a", "a"], ["a", "x"], 0.5, "target_differs"),
        (["a", "b"], ["x", "y"], 0.0, "target_differs"),
        (["a", "b"], ["a", "b", *"uvwxyz"], 0.25, "surplus_calls"),
    ],
)
def test_a_batch_earns_its_pairs_over_the_greater_count(
    expected: list[str], actual: list[str], reward: float, reason: str
) -> None:
    wanted = read(expected[0]) if len(expected) == 1 else batch(*map(read, expected))
    found = judge(wanted, *map(read, actual))
    assert found.reward == pytest.approx(reward)
    assert found.reason == reason


def test_pairing_finds_the_greatest_sum_not_the_first_fit() -> None:
    first, second = call("bash", {"command": "make abcdefghij"}), call("bash", {"command": "make abcdefghiz"})
    swapped = judge(batch(first, second), second, first, reward_mode="continuous", similarity_full_credit=1.0)
    assert swapped.reward == 1.0


def test_thousands_of_surplus_calls_cost_as_many() -> None:
    found = judge(read("a"), read("a"), *[read(f"x{index}") for index in range(1_999)])
    assert found.reward == pytest.approx(1 / 2_000)


MESSAGE = {"type": "message", "content": "Which branch?"}


@pytest.mark.parametrize(
    ("output", "reward", "reason"),
    [
        ([message("Do you mean main?")], 1.0, "match"),
        ([message("")], 0.0, "message_empty"),
        ([message(" \n")], 0.0, "message_empty"),
        ([], 0.0, "no_action"),
        ([message("I will look."), GREP], 0.0, "message_expected"),
    ],
)
def test_an_expected_message_needs_text_and_no_call(output: list[Any], reward: float, reason: str) -> None:
    found = judge(MESSAGE, *output)
    assert (found.reward, found.reason) == (reward, reason)


def test_a_message_that_the_token_budget_cut_earns_nothing() -> None:
    response = {"output": [message("Which")], "status": "incomplete"}
    assert compare(read_expected({"expected_action": MESSAGE}), response, LayeredOptions()).reason == "message_cut"


@pytest.mark.parametrize(
    ("actual", "wire"),
    [(PYTEST, "none"), (GREP, "tool_name_mismatch"), (call("bash", "{"), "model_output_invalid")],
)
def test_the_reply_carries_the_wires_failure_reason(actual: dict[str, Any], wire: str) -> None:
    assert judge(PYTEST, actual).extras["failure_reason"] == wire


@pytest.mark.parametrize(
    "options", [{"reward": 1}, {"reward_mode": "fuzzy"}, {"similarity_threshold": 0.9, "similarity_full_credit": 0.8}]
)
def test_options_without_a_meaning_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        LayeredOptions(**options)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ExecuteBash", "shell"),
        ("str_replace_editor", "edit"),
        ("todowrite", "plan"),
        ("ReadFile", "read"),
        ("x", "other"),
    ],
)
def test_a_name_has_one_kind_in_any_spelling(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_a_small_change_in_a_long_text_leaves_it_alike() -> None:
    text = "ab" * 900
    assert similarity(text, text[:900] + "X" + text[901:]) > 0.99


@settings(max_examples=80, deadline=None)
@given(st.text("ab \n", max_size=40), st.text("ab \n", max_size=40), st.sampled_from([0.0, 0.4, 0.8]))
def test_likeness_is_exact_from_the_floor_up_and_a_bound_below_it(one: str, other: str, floor: float) -> None:
    found, exact = similarity(one, other, floor), similarity(one, other)
    assert 0.0 <= found <= 1.0
    assert found == exact if exact >= floor else exact <= found < floor
    assert exact <= SequenceMatcher(None, one, other).quick_ratio() + 1e-9


@settings(max_examples=25, deadline=None)
@given(response=JSON, items=st.lists(JSON, max_size=3), arguments=JSON)
def test_any_json_for_a_response_is_judged(response: Any, items: list[Any], arguments: Any) -> None:
    loose = {"type": "function_call", "name": "str_replace_editor", "arguments": json.dumps(arguments)}
    for expected in (EDIT, VIEW, batch(GREP, PYTEST), MESSAGE):
        for given_response in (response, {"output": items}, {"output": [loose, *items]}, {"output": response}):
            found = compare(read_expected({"expected_action": expected}), given_response, LayeredOptions())
            assert 0.0 <= found.reward <= 1.0


ARGUMENTS = st.dictionaries(
    st.sampled_from(["command", "path", "view_range", "offset", "limit", "old_str", "new_str", "content", "x"]), JSON
)


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(["bash", "edit", "read", "grep", "task_tracker", "finish", "book"]),
    arguments=ARGUMENTS,
    other=ARGUMENTS,
    mode=st.sampled_from(["binary", "continuous"]),
)
def test_any_arguments_are_judged_and_those_of_the_expert_earn_1(
    name: str, arguments: dict[str, Any], other: dict[str, Any], mode: str
) -> None:
    action = call(name, json.dumps(arguments).replace("Infinity", "1.0"))
    assert judge(action, action).reward == 1.0
    assert 0.0 <= judge(action, call(name, other), reward_mode=mode).reward <= 1.0
