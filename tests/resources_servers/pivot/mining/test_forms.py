"""Claims about trajectories: one history has the same items in every form in which it is published."""

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from paddock.resources_servers.pivot.mining.files import read_trajectories
from paddock.resources_servers.pivot.mining.forms import read_record
from paddock.resources_servers.pivot.mining.trajectory import TrajectoryError
from paddock.types import JsonObject

ARGUMENTS = '{"command":"ls src"}'
CALL = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": ARGUMENTS}}
CHAT: list[JsonObject] = [
    {"role": "system", "content": "You fix bugs."},
    {"role": "user", "content": "Fix it."},
    {"role": "assistant", "content": "I look.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "a.py"},
]
ITEMS: list[JsonObject] = [
    {"type": "message", "role": "system", "content": "You fix bugs."},
    {"type": "message", "role": "user", "content": "Fix it."},
    {"type": "message", "role": "assistant", "content": "I look."},
    {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": ARGUMENTS},
    {"type": "function_call_output", "call_id": "c1", "output": "a.py"},
]
TOOL_CALL = {"function_name": "bash", "tool_call_id": "c1"}
FORMS: dict[str, JsonObject] = {
    "chat": {"messages": CHAT},
    "chat as text": {"messages": json.dumps(CHAT), "instance_id": "a__b-1", "resolved": True},
    "anthropic": {
        "system": "You fix bugs.",
        "messages": [
            {"role": "user", "content": "Fix it."},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": "ls src"}},
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "a.py"}]},
        ],
    },
    "responses": {"input": ITEMS[:2], "output": ITEMS[2:]},
    "rollout": {"responses_create_params": {"input": ITEMS[:2]}, "response": {"output": ITEMS[2:]}, "reward": 1.0},
    "swe_agent": {
        "history": [
            {"role": "system", "content": "You fix bugs."},
            {"role": "user", "content": "Fix it."},
            {"role": "assistant", "content": "x", "thought": "I look.", "action": "ls src", "tool_calls": [CALL]},
            {"role": "tool", "content": "a.py"},
        ]
    },
    "openhands server": {
        "history": [
            {"action": "system", "source": "agent", "args": {"content": "You fix bugs."}},
            {"action": "message", "source": "user", "args": {"content": "Fix it."}},
            {
                "action": "run",
                "source": "agent",
                "args": {"command": "ls src"},
                "tool_call_metadata": {
                    **TOOL_CALL,
                    "model_response": {"choices": [{"message": {"content": "I look.", "tool_calls": [CALL]}}]},
                },
            },
            {"observation": "run", "content": "a.py", "tool_call_metadata": TOOL_CALL},
        ]
    },
    "openhands sdk": {
        "events": [
            {"kind": "SystemPromptEvent", "system_prompt": {"type": "text", "text": "You fix bugs."}},
            {"kind": "MessageEvent", "llm_message": {"role": "user", "content": [{"type": "text", "text": "Fix it."}]}},
            {
                "kind": "ActionEvent",
                "thought": [{"type": "text", "text": "I look."}],
                "tool_name": "bash",
                "tool_call": {"id": "c1", "name": "bash", "arguments": ARGUMENTS},
            },
            {"kind": "ObservationEvent", "tool_call_id": "c1", "observation": {"content": "a.py"}},
        ]
    },
    "atif": {
        "schema_version": "ATIF-v1.4",
        "session_id": "s",
        "steps": [
            {"step_id": 1, "source": "system", "message": "You fix bugs."},
            {"step_id": 2, "source": "user", "message": "Fix it."},
            {
                "step_id": 3,
                "source": "agent",
                "message": "I look.",
                "tool_calls": [{"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "ls src"}}],
                "observation": {"results": [{"source_call_id": "c1", "content": "a.py"}]},
            },
        ],
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_one_history_has_the_same_items_in_every_form(form: str) -> None:
    trajectory = read_record(FORMS[form], "t")
    assert trajectory.items == ITEMS
    assert [(tool["name"], list(tool["parameters"]["properties"])) for tool in trajectory.tools] == [
        ("bash", ["command"])
    ]


def test_commands_in_fenced_blocks_are_calls_of_a_shell() -> None:
    messages = [
        {"role": "user", "content": "Fix it."},
        {"role": "assistant", "content": "THOUGHT: look\n\n```bash\nls src\n```"},
        {"role": "user", "content": "<output>a.py</output>"},
        {"role": "assistant", "content": "```bash\na\n```\n```bash\nb\n```"},
        {"role": "user", "content": "Only one block."},
    ]
    items = read_record({"messages": messages}, "t").items
    assert [item["type"] for item in items] == [
        "message",
        "message",
        "function_call",
        "function_call_output",
        "message",
        "message",
    ]
    assert json.loads(items[2]["arguments"]) == {"command": "ls src"}


def test_what_a_record_says_of_itself_is_known() -> None:
    environment = {"cwd": "/testbed", "image": "sweb:1"}
    record = {"messages": CHAT, "info": {"config": {"environment": environment}, "resolved": False}, "repo": "a/b"}
    trajectory = read_record(record, "t")
    assert (trajectory.cwd, trajectory.image, trajectory.resolved) == ("/testbed", "sweb:1", False)
    assert (trajectory.repository, trajectory.name) == ("a/b", "t")
    assert read_record({**record, "instance_id": "a__b-1"}, "t").name == "a__b-1"


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({"x": 1}, "of no known form"),
        ({"messages": [{"role": "user", "content": "hi"}]}, "nothing is called"),
        ({"messages": "no JSON"}, "of no known form"),
        ({"schema_version": "ATIF-v1.4", "steps": [{"source": "user", "message": "hi"}]}, "nothing is called"),
    ],
)
def test_what_is_no_trajectory_says_why(record: dict[str, Any], why: str) -> None:
    with pytest.raises(TrajectoryError, match=why):
        read_record(record, "t")


def test_a_rollout_whose_harness_wrote_the_prompt_begins_with_its_task() -> None:
    params = {"responses_create_params": {"input": []}, "problem_statement": "Fix it."}
    items = read_record({**FORMS["rollout"], **params}, "t").items
    assert items == [{"type": "message", "role": "user", "content": "Fix it."}, *ITEMS[2:]]


def test_of_a_runs_folder_its_rollouts_are_read(tmp_path: Path) -> None:
    for name in ("run.json", "summary.json", "index.jsonl", "results.jsonl"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "rollouts.jsonl").write_bytes(orjson.dumps(FORMS["chat"]) + b"\n")
    (entry,) = read_trajectories(tmp_path)
    assert entry.where.endswith("rollouts.jsonl:1")


def test_a_folder_is_read_file_by_file_and_what_is_wrong_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(orjson.dumps(FORMS["chat"]) + b"\n\nno JSON\n")
    (tmp_path / "b__b-1.traj").write_bytes(orjson.dumps(FORMS["swe_agent"]))
    (tmp_path / "c.json").write_bytes(orjson.dumps(FORMS["openhands sdk"]["events"]))
    (tmp_path / "d.txt").write_text("no trajectory")
    entries = list(read_trajectories(tmp_path))
    assert [entry.trajectory.form if entry.trajectory else entry.problem[:7] for entry in entries] == [
        "chat",
        "no JSON",
        "swe_agent",
        "openhands",
    ]
    assert entries[1].where.endswith("a.jsonl:3")
    assert entries[2].trajectory is not None
    assert entries[2].trajectory.name == "b__b-1"
