"""The example rows are what their script makes, well-formed, and earn 1 when the expert's action is played back.

The published rows are judged too where `PADDOCK_TEST_DATA` names a folder that holds them (`pivot/NAME.jsonl`, of
`PUBLISHED`).
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from paddock.collect import EvalSettings, make_plan, row_problems
from paddock.config import load
from paddock.resources_servers.pivot import compat, layered
from paddock.resources_servers.pivot.layered_kinds import kind_of
from paddock.resources_servers.pivot.task import ExpectedMessage, expected_calls, read_expected
from paddock.types import Row
from paddock.types.responses import call_item, content_text, make_response, message_item

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "resources_servers" / "pivot" / "data" / "example.jsonl"

PUBLISHED = ("single_step", "swe_pivot")
KINDS = {"shell", "edit", "read", "search", "list", "finish", "plan", "message", "batch"}


def published_rows() -> list[Any]:
    folder = os.environ.get("PADDOCK_TEST_DATA")
    if not folder:
        return [pytest.param(None, marks=pytest.mark.skip(reason="PADDOCK_TEST_DATA is not set: no published rows"))]
    files = [path for name in PUBLISHED if (path := Path(folder, "pivot", f"{name}.jsonl")).exists()]
    if not files:
        missing = f"{folder}/pivot holds none of {', '.join(PUBLISHED)} as .jsonl"
        return [pytest.param(None, marks=pytest.mark.skip(reason=missing))]
    return [
        pytest.param(json.loads(line), id=f"{path.stem}-{number}")
        for path in files
        for number, line in enumerate(path.read_text().splitlines())
    ]


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in EXAMPLES.read_text().splitlines()]


def played_back(row: dict[str, Any]) -> dict[str, Any]:
    expected = read_expected(Row.from_wire(row).task)
    if isinstance(expected, ExpectedMessage):
        items = [message_item(content_text(expected.content))]
    else:
        items = [call_item(call.name, call.arguments) for call in expected_calls(expected)]
    return make_response(items, row["responses_create_params"], model="replay")


def rewards(row: dict[str, Any], response: object) -> list[float]:
    """Of compat at the shipped thresholds, as a batch with the switch on, and of layered binary."""
    expected = read_expected(Row.from_wire(row).task)
    options: list[dict[str, Any]] = [
        {"word_count_similarity_threshold": 0.0},
        {"word_count_similarity_threshold": 0.1},
        {"parallel_tool_call_rewarding": True, "parallel_tool_call_reward_mode": "f1"},
    ]
    found = [compat.compare(expected, response, compat.CompatOptions(**one)).reward for one in options]
    return [*found, layered.compare(expected, response, layered.LayeredOptions()).reward]


def test_the_committed_rows_are_what_the_script_makes() -> None:
    script = [sys.executable, "scripts/make_pivot_examples.py", "--stdout"]
    made = subprocess.run(script, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert made == EXAMPLES.read_text(), "run python scripts/make_pivot_examples.py"


def test_every_expected_action_played_back_earns_1(rows: list[dict[str, Any]]) -> None:
    wrong = {row["uuid"]: found for row in rows if (found := rewards(row, played_back(row))) != [1.0] * 4}
    assert wrong == {}


def test_an_empty_output_earns_0_everywhere(rows: list[dict[str, Any]]) -> None:
    assert {reward for row in rows for reward in rewards(row, {"output": []})} == {0.0}


def test_an_empty_message_earns_0_but_for_a_message_in_compat(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        is_message = isinstance(read_expected(Row.from_wire(row).task), ExpectedMessage)
        assert rewards(row, {"output": [message_item("")]}) == [float(is_message)] * 3 + [0.0]


def test_malformed_calls_of_the_right_tool_earn_0(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        for call in expected_calls(read_expected(Row.from_wire(row).task)):
            for broken in (call.arguments[:-1], "", "[]", "{}"):
                assert set(rewards(row, {"output": [call_item(call.name, broken)]})) == {0.0}


def test_an_action_with_a_target_earns_nothing_on_another_row(rows: list[dict[str, Any]]) -> None:
    targets = [row for row in rows if row["metadata"]["kind"] in ("shell", "edit", "read", "search", "list", "call")]
    for row in targets:
        expected = read_expected(Row.from_wire(row).task)
        for other in targets:
            same_target = expected_calls(expected) == expected_calls(read_expected(Row.from_wire(other).task))
            if row is not other and not same_target:
                found = layered.compare(expected, played_back(other), layered.LayeredOptions())
                assert found.reward == 0.0, (row["uuid"], other["uuid"], found)


def test_rows_cover_every_kind_in_every_family(rows: list[dict[str, Any]]) -> None:
    seen = {(row["metadata"]["family"], row["metadata"]["kind"]) for row in rows}
    assert len(rows) >= 72
    for family in ("openhands", "codex", "opencode"):
        assert {kind for kind in KINDS if (family, kind) not in seen} == set()
    assert ("openhands", "think") in seen
    assert {("chat", "call"), ("chat", "batch"), ("chat", "message")} <= seen


def test_rows_have_stable_unique_ids(rows: list[dict[str, Any]]) -> None:
    assert len({row["uuid"] for row in rows}) == len(rows)


@pytest.mark.parametrize("path", sorted(EXAMPLES.parents[1].glob("configs/*.yaml")), ids=lambda path: path.stem)
def test_each_config_of_the_server_can_run_its_rows(path: Path) -> None:
    model: dict[str, Any] = {"policy_model": {"models_servers": {"replay": {}}}}
    plan = make_plan(load([path], extra=model), EvalSettings(), oracle=True)
    assert plan.n_rows > 100
    assert list(row_problems(plan)) == []


def test_rows_use_every_place_for_the_expected_action_and_every_dialect_of_the_request(
    rows: list[dict[str, Any]],
) -> None:
    places = Counter(
        "expected_action" if "expected_action" in row else "expected_answer" if "expected_answer" in row else "metadata"
        for row in rows
    )
    assert min(places[place] for place in ("expected_action", "expected_answer", "metadata")) >= 1
    assert sum(None in row["responses_create_params"].values() for row in rows) >= 9
    text = EXAMPLES.read_text()
    for name in ("run_bash", "file_editor", "ShellRun", "exec_cmd", "patch_file", "Terminal", "CatFile", "MatchFiles"):
        assert f'"name": "{name}"' in text
    for shown in ("result of running `cat -n`", "L1: ", "<content>\\\\n1: "):
        assert shown in text.replace("\\n", "\\\\n")


def test_each_expected_call_is_valid_for_a_tool_of_its_row(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        tools = {tool["name"]: tool["parameters"] for tool in row["responses_create_params"]["tools"]}
        for call in expected_calls(read_expected(Row.from_wire(row).task)):
            parameters, arguments = tools[call.name], call.decoded
            assert arguments.keys() <= parameters["properties"].keys(), (row["uuid"], call.name)
            assert set(parameters["required"]) <= arguments.keys(), (row["uuid"], call.name)


def test_tools_of_the_harness_families_have_a_kind_and_defaults(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        tools = row["responses_create_params"]["tools"]
        assert any("default" in value for tool in tools for value in tool["parameters"]["properties"].values())
        if row["metadata"]["family"] != "chat":
            assert all(kind_of(tool["name"]) != "other" for tool in tools)


def test_histories_answer_each_call_once_and_start_with_the_task(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        items = row["responses_create_params"]["input"]
        assert [item["role"] for item in items[:2]] == ["system", "user"]
        made = [item["call_id"] for item in items if item["type"] == "function_call"]
        answered = [item["call_id"] for item in items if item["type"] == "function_call_output"]
        assert made == answered
        assert len(made) == len(set(made))
        assert all(isinstance(json.loads(item["arguments"]), dict) for item in items if item["type"] == "function_call")


@pytest.mark.parametrize("row", published_rows())
def test_published_rows_earn_1_for_the_experts_action_and_0_for_none(row: dict[str, Any]) -> None:
    assert rewards(row, played_back(row)) == [1.0] * 4
    assert rewards(row, {"output": []}) == [0.0] * 4
