"""Over whole rows: every expert's action played back scores 1, nothing scores 0, and no JSON makes it raise."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paddock.resources_servers.pivot as pivot
from paddock.resources_servers.pivot.semantic import Reason, SemanticOptions, compare
from paddock.resources_servers.pivot.task import ExpectedCall, ExpectedMessage, expected_calls, read_expected
from paddock.types import JsonObject, Row
from paddock.types.responses import call_item, content_text, message_item

EXAMPLES = Path(pivot.__path__[0]) / "data" / "example.jsonl"
REASONS = set(get_args(Reason))


def rows_in(path: Path) -> Iterator[Row]:
    for line in path.read_text().splitlines():
        yield Row.from_wire(json.loads(line))


def published() -> list[Path]:
    folder = os.environ.get("PADDOCK_TEST_DATA")
    if not folder:
        pytest.skip("PADDOCK_TEST_DATA is not set: no published rows")
    files = [Path(folder, "pivot", f"{name}.jsonl") for name in ("single_step", "swe_pivot")]
    found = [path for path in files if path.exists()]
    if not found:
        pytest.skip(f"none of pivot/single_step.jsonl and pivot/swe_pivot.jsonl in {folder}")
    return found


def played_back(row: Row) -> JsonObject:
    expected = read_expected(row.task)
    if isinstance(expected, ExpectedMessage):
        output = [message_item(content_text(expected.content))]
    else:
        output = [call_item(call.name, call.arguments) for call in expected_calls(expected)]
    return {"object": "response", "status": "completed", "output": output}


def wrong_rows(rows: Iterator[Row]) -> list[str]:
    wrong = []
    for number, row in enumerate(rows):
        expected, params = read_expected(row.task), row.responses_create_params
        found = compare(expected, played_back(row), params)
        nothing = compare(expected, {"object": "response", "status": "completed", "output": []}, params)
        if found.reward != 1.0 or nothing.reward != 0.0:
            wrong.append(f"{number}: {found.reward} {found.reason} {found.detail}; nothing scores {nothing.reward}")
    return wrong


def test_every_example_played_back_scores_1_and_nothing_scores_0() -> None:
    assert wrong_rows(rows_in(EXAMPLES)) == []


def test_every_published_row_played_back_scores_1_and_nothing_scores_0() -> None:
    assert [line for path in published() for line in wrong_rows(rows_in(path))] == []


def respelled(arguments: str) -> str:
    value = json.loads(arguments)
    return json.dumps(dict(reversed(value.items())), indent=1, ensure_ascii="\\u" not in arguments)


def test_how_the_json_is_spelled_does_not_matter() -> None:
    wrong = []
    for row in rows_in(EXAMPLES):
        expected = read_expected(row.task)
        output = [call_item(call.name, respelled(call.arguments)) for call in expected_calls(expected)]
        if output and compare(expected, {"output": output}, row.responses_create_params).reward != 1.0:
            wrong.append(row.task.get("uuid"))
    assert wrong == []


@pytest.mark.slow
def test_no_examples_action_passes_for_that_of_another_kind() -> None:
    rows = list(rows_in(EXAMPLES))
    # Last words are said by a tool or by a message: both are one kind of action, and their words are compared alike.
    kinds = [row.task["metadata"]["kind"].replace("finish", "message") for row in rows]
    passing = []
    for row, kind in zip(rows, kinds, strict=True):
        for other, other_kind in zip(rows, kinds, strict=True):
            if kind != other_kind and compare(read_expected(row.task), played_back(other), {}).reward == 1.0:
                passing.append((row.task.get("uuid"), other.task.get("uuid")))
    assert passing == []


TEXT = st.text(st.characters() | st.sampled_from("\ud800\0`<$('"), max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(["bash", "edit", "apply_patch", "read", "grep", "finish", "update_plan", "get_weather", ""])
TEXTS = st.sampled_from(
    ['{"command": "ls -la"}', '{"command": ["bash", "-lc", "ls"]}', '{"filePath": "a"}', "{", "[]", '{"x": [1]}']
)
ITEMS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["function_call", "custom_tool_call", "message", "function_call_output"]) | JSON,
        "name": NAMES | JSON,
        "arguments": TEXTS | JSON,
        "input": TEXTS | JSON,
        "call_id": JSON,
        "output": JSON,
        "content": JSON,
        "status": JSON,
    },
)
TOOLS = st.fixed_dictionaries({}, optional={"name": NAMES | JSON, "parameters": JSON, "function": JSON, "tools": JSON})
RESPONSES = st.fixed_dictionaries(
    {}, optional={"output": st.lists(ITEMS | JSON, max_size=4) | JSON, "status": JSON, "incomplete_details": JSON}
)
PARAMS = st.fixed_dictionaries(
    {}, optional={"input": st.lists(ITEMS | JSON, max_size=4) | JSON, "tools": st.lists(TOOLS | JSON) | JSON}
)
CALLS = st.builds(
    ExpectedCall,
    type=st.just("function_call"),
    name=st.sampled_from(["bash", "edit", "read", "get_weather", "apply_patch", "finish"]),
    arguments=st.dictionaries(
        st.sampled_from(["command", "filePath", "oldString", "newString", "x"]), JSON, max_size=4
    ).map(json.dumps),
)


@settings(max_examples=150, deadline=None)
@given(CALLS | st.just(ExpectedMessage(type="message")), RESPONSES | ITEMS | JSON, PARAMS)
def test_any_json_gets_a_reward_from_0_to_1_with_a_reason(expected: Any, response: Any, params: Any) -> None:
    found = compare(expected, response, params, SemanticOptions())
    assert 0.0 <= found.reward <= 1.0
    assert found.reason in REASONS
    assert found.reward == 1.0 or found.detail
    found.detail.encode()
    assert all(value >= 0 for value in found.metrics.values())


@settings(max_examples=60, deadline=None)
@given(CALLS, CALLS)
def test_the_order_of_two_calls_other_than_looks_does_not_matter(one: ExpectedCall, other: ExpectedCall) -> None:
    def scored(expected: ExpectedCall, actual: ExpectedCall) -> float:
        return compare(expected, {"output": [call_item(actual.name, actual.arguments)]}, {}).reward

    assert one.name == "read" or scored(one, other) == scored(other, one)
