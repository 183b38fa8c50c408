"""Claims about drift: equal records have none, each change is named where it is and once, and what is put in between
changes nothing else. The reports that are stored are those of the records that are stored."""

import copy
from pathlib import Path
from typing import Any

import pytest

from paddock.lab.wirelab import (
    RecordedRequest,
    ScenarioRecord,
    WireRecord,
    differences,
    find_subject,
    read_record,
    record_file,
    report,
)
from paddock.types import JsonObject

RECORDED = Path(__file__).parent / "recorded"
BODY: JsonObject = {
    "input": [
        {"type": "message", "role": "developer", "content": "lab-system"},
        {"type": "message", "role": "user", "content": "lab-task"},
        {"type": "function_call", "call_id": "call_lab1", "name": "run", "arguments": "lab-a", "id": "item_lab1"},
        {"type": "function_call_output", "call_id": "call_lab1", "output": {"prose": 9, "sha": "0"}},
    ],
    "model": "policy",
    "tools": [
        {"type": "function", "name": "run", "parameters": {"type": "object", "required": ["cmd"]}},
        {"type": "function", "name": "plan", "parameters": {"type": "object", "required": []}},
    ],
}


def transcripts(*bodies: JsonObject, version: str = "1.0", **ended: Any) -> WireRecord:
    """One scenario for each body."""
    runs = {
        f"s{nth}": ScenarioRecord(
            ended=ended or {"ended": "finished"},
            requests=[RecordedRequest(method="POST", path="/v1/responses", headers=["host"], body=body)],
        )
        for nth, body in enumerate(bodies)
    }
    return WireRecord(program="toy", version=version, dialect="responses", runs=runs)


def changed(*path: str | int, value: Any) -> JsonObject:
    body = copy.deepcopy(BODY)
    at: Any = body
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return body


def changes(after: JsonObject) -> list[tuple[str, str, str, str]]:
    found = [one.first for one in differences(transcripts(BODY), transcripts(after))]
    return [(one.kind, one.path.exact, one.before, one.after) for one in found]


def test_equal_records_have_no_difference() -> None:
    assert report(transcripts(BODY, BODY), transcripts(BODY, BODY, version="2.0")) == ""


def test_a_change_is_told_with_its_path() -> None:
    assert changes(changed("model", value="other")) == [("changed", "body.model", '"policy"', '"other"')]
    assert changes(changed("store", value=False)) == [("added", "body.store", "", "false")]
    assert changes(changed("input", 3, "output", value={"prose": 9, "sha": "1"})) == [
        (
            "changed",
            "body.input[3 function_call_output].output",
            '{"prose": 9, "sha": "0"}',
            '{"prose": 9, "sha": "1"}',
        )
    ]
    assert changes(changed("tools", 0, "parameters", "required", value=["cmd", "why"])) == [
        ("added", "body.tools[0 run].parameters.required[]", "", '"why"')
    ]


@pytest.mark.parametrize("nth", range(5))
def test_an_item_that_is_put_in_between_is_the_only_difference(nth: int) -> None:
    after = copy.deepcopy(BODY)
    after["input"].insert(nth, {"type": "message", "role": "user", "content": "lab-new"})
    assert [(kind, path) for kind, path, _, _ in changes(after)] == [("added", f"body.input[{nth} message user]")]


def test_tools_are_matched_by_name_and_their_order_counts() -> None:
    after = copy.deepcopy(BODY)
    after["tools"].reverse()
    assert changes(after) == [("changed", "body.tools (order)", '["plan", "run"]', '["run", "plan"]')] or changes(
        after
    ) == [("changed", "body.tools (order)", '["run", "plan"]', '["plan", "run"]')]
    after["tools"][1]["name"] = "walk"
    assert sorted(path for _, path, _, _ in changes(after)) == ["body.tools[0 run]", "body.tools[1 walk]"]


def test_the_order_of_keys_counts_within_tools_alone() -> None:
    after = copy.deepcopy(BODY)
    after["input"][2] = dict(reversed(after["input"][2].items()))
    assert changes(after) == []
    after["tools"][0] = dict(reversed(after["tools"][0].items()))
    assert [path for _, path, _, _ in changes(after)] == ["body.tools[0 run] (order of keys)"]


def test_the_same_difference_in_many_scenarios_is_told_once() -> None:
    without = copy.deepcopy(BODY)
    del without["input"][2]["id"]
    later = copy.deepcopy(BODY)
    later["input"][2] |= {"id": "item_lab7", "call_id": "call_lab7"}
    later["input"][3]["call_id"] = "call_lab7"
    later_without = copy.deepcopy(later)
    del later_without["input"][2]["id"]
    text = report(transcripts(BODY, later, BODY), transcripts(without, later_without, BODY, version="2.0"))
    assert text == (
        "toy 2.0 (responses) against toy 1.0 (responses): 1 differences over scenarios: 3\n"
        'removed  body.input[2 function_call].id: "item_lab1"\n'
        "    in s0 (1), s1 (1)\n"
    )


def test_how_a_run_ended_and_what_is_asked_beside_are_differences() -> None:
    before, after = transcripts(BODY, BODY), transcripts(BODY, ended="context_limit")
    after.runs["s0"].requests.append(RecordedRequest(method="HEAD", path="/v1", headers=[], body=None))
    assert [(one.first.kind, one.first.path.exact) for one in differences(before, after)] == [
        ("changed", "ended"),
        ("added", "request"),
        ("removed", "scenario"),
    ]


@pytest.mark.parametrize("file", sorted(RECORDED.glob("*.json")), ids=lambda file: file.stem)
def test_a_stored_report_is_that_of_the_stored_record(file: Path) -> None:
    record = read_record(file)
    subject = find_subject(record.program, dialect=record.dialect)
    golden = read_record(record_file(subject.folder, subject.program.version, record.dialect))
    assert report(golden, record) == file.with_suffix(".txt").read_text()
