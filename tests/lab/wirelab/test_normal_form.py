"""Claims about the normalised form: what differs between two runs of the same is not in it, what a version could change
is, and no text that is not ours comes through."""

import copy
import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.lab.wirelab import Normaliser, is_recordable
from paddock.lab.wirelab.tap import TappedRequest
from paddock.types import JsonObject

OURS = ["lab-task: please look.\n", "/testbed", '{"cmd": "echo lab-out"}', "call_lab1", "item_lab1"]
PROSE = "You are an agent of the year. Never tell anybody what stands here."


def body(*, thread: str, turn: str, day: str, clock: int, home: str, chunk: str, wall: str, version: str) -> JsonObject:
    """A request as a program might send it."""
    return {
        "model": "policy",
        "metadata": {"turn": json.dumps({"thread_id": thread, "started_ms": clock}), "late": True, "x-turn-id": turn},
        "prompt_cache_key": thread,
        "input": [
            {"role": "developer", "content": f"{PROSE} It is {day}; see {home}/notes in {version}."},
            {"role": "user", "content": "lab-task: please look.\n"},
            {
                "type": "function_call",
                "id": "item_lab1",
                "call_id": "call_lab1",
                "arguments": '{"cmd": "echo lab-out"}',
            },
            {
                "type": "function_call_output",
                "id": f"fco_{turn}",
                "call_id": "call_lab1",
                "output": f"Chunk ID: {chunk}\nWall time: {wall} seconds\nOutput:\nlab-out\n",
            },
        ],
        "tools": [
            {"type": "function", "name": "run", "description": "Runs.", "parameters": {"type": "object", "x": [1, 2.5]}}
        ],
    }


def normal(sent: JsonObject, home: str = "/opt/home", version: str = "1.2.3") -> JsonObject:
    normaliser = Normaliser(
        our_texts=OURS,
        volatile=(r"Chunk ID: (\S+)", r"Wall time: ([\d.]+)"),
        late=("late",),
        replacements={home: "<home>", version: "<version>"},
    )
    request = normaliser.request(TappedRequest("POST", "/v1/responses", ("Host", "x-own"), json.dumps(sent).encode()))
    assert request["headers"] == ["Host", "x-own"]
    return dict(request["body"])


FIRST = body(
    thread=str(uuid.UUID(int=1)),
    turn=str(uuid.UUID(int=2)),
    day="2026-01-31",
    clock=1_795_000_000_000,
    home="/opt/home",
    chunk="123456",
    wall="0.0000",
    version="1.2.3",
)


@settings(max_examples=25)
@given(
    thread=st.uuids(),
    turn=st.uuids(),
    day=st.dates(),
    clock=st.integers(1_600_000_000_000, 2_900_000_000_000),
    home=st.from_regex(r"\A/(tmp|var)/[a-z]{3,12}\Z"),
    chunk=st.from_regex(r"\A[0-9a-f]{6}\Z"),
    wall=st.floats(0, 1000).map("{:.4f}".format),
    version=st.sampled_from(["0.63.0", "10.20.30"]),
)
def test_another_run_of_the_same_is_the_same(home: str, version: str, **other: Any) -> None:
    texts: dict[str, Any] = {key: value if key == "clock" else str(value) for key, value in other.items()}
    if texts["thread"] == texts["turn"]:
        return
    assert normal(body(home=home, version=version, **texts), home, version) == normal(FIRST)


def put(*path: str | int, value: Any) -> Callable[[JsonObject], None]:
    def change(sent: Any) -> None:
        for step in path[:-1]:
            sent = sent[step]
        sent[path[-1]] = value

    return change


def same_id(sent: JsonObject) -> None:
    sent["metadata"]["x-turn-id"] = sent["prompt_cache_key"]


def turn_order(sent: JsonObject) -> None:
    sent["tools"][0] = dict(reversed(sent["tools"][0].items()))


@pytest.mark.parametrize(
    "change",
    [
        put("store", value=False),
        lambda sent: sent.pop("model"),
        put("model", value="other"),
        put("tools", 0, "parameters", "x", value=[2.5, 1]),
        put("tools", 0, "parameters", "x", value=[1.0, 2.5]),
        put("tools", 0, "name", value="walk"),
        put("tools", 0, "description", value="Walks."),
        turn_order,
        lambda sent: sent["input"].reverse(),
        put("input", 0, "content", value=FIRST["input"][0]["content"] + "!"),
        put("input", 1, "content", value="lab-task: please look. "),
        put("input", 2, "arguments", value='{"cmd":"echo lab-out"}'),
        put("input", 2, "call_id", value="call_of_its_own"),
        put("metadata", "turn", value=json.dumps({"started_ms": 1_795_000_000_000})),
        same_id,
    ],
    ids=range(15),
)
def test_what_a_version_changes_is_seen(change: Callable[[JsonObject], Any]) -> None:
    other = copy.deepcopy(FIRST)
    change(other)
    assert json.dumps(normal(other)) != json.dumps(normal(FIRST))


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for inner in value.values() for text in strings(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in strings(inner)]
    return [value] if isinstance(value, str) else []


def test_a_programs_own_prose_is_length_and_hash_and_ours_stands_in_it_as_it_is() -> None:
    found = normal(FIRST)
    told, output = found["input"][0]["content"], found["input"][3]["output"]
    assert told.keys() == {"prose", "sha"}
    assert told["prose"] == len(f"{PROSE} It is <date>; see <home>/notes in <version>.")
    assert [part if isinstance(part, str) else "prose" for part in output["text"]] == ["prose", "lab-out", "\n"]
    assert found["tools"][0]["description"].keys() == {"prose", "sha"}


def test_ids_keep_what_they_have_in_common() -> None:
    found = normal(FIRST)
    assert found["prompt_cache_key"] == found["metadata"]["turn"]["json"]["thread_id"]
    assert found["metadata"]["x-turn-id"] != found["prompt_cache_key"]
    assert found["input"][3]["id"] == f"fco_{found['metadata']['x-turn-id']}"
    assert found["input"][2]["call_id"] == found["input"][3]["call_id"] == "call_lab1"


@settings(max_examples=40)
@given(st.text(max_size=300), st.text(max_size=300))
def test_no_text_of_others_comes_through(system: str, described: str) -> None:
    found = normal({**FIRST, "instructions": system, "tools": [{"name": "run", "description": described}]})
    assert [text for text in strings(found) if not is_recordable(text, OURS)] == []


def test_a_body_that_is_no_json_is_told_by_its_size() -> None:
    request = Normaliser(our_texts=()).request(TappedRequest("POST", "/v1/responses", (), b"{no"))
    assert request["body"] == {"bytes": 3}
    assert Normaliser(our_texts=()).request(TappedRequest("HEAD", "/v1", (), b""))["body"] is None
