"""Tasks of the real inspect_ai: the scores of its own runner, and an outcome for all that goes wrong."""

import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from paddock.types import JsonObject
from paddock.types.responses import messages

PYTHON = os.environ.get("PADDOCK_INSPECT_PYTHON")
ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
TASKS = HERE / "sum_tasks.py"
PADDOCK = Path(sys.executable).with_name("paddock")
MODES = ("right", "wrong", "spelled", "empty", "right")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.trainer,
    pytest.mark.skipif(PYTHON is None, reason="PADDOCK_INSPECT_PYTHON names no interpreter with inspect_ai"),
]


def answer_to(body: JsonObject) -> JsonObject:
    """Answer a sum by rule: right, wrong, in another form, not at all; by a tool where there is one."""
    asked = [message for message in body["messages"] if message["role"] == "user"][-1]["content"]
    text = asked if isinstance(asked, str) else asked[0]["text"]
    if "GRADE: C" in text:
        return {"role": "assistant", "content": "GRADE: C"}
    found = re.search(r"(\d+) \+ (\d+)", text)
    assert found is not None
    left, right = (int(number) for number in found.groups())
    tools = body.get("tools")
    if tools and body["messages"][-1]["role"] != "tool":
        call = {"name": tools[0]["function"]["name"], "arguments": json.dumps({"left": left, "right": right})}
        calls = [{"id": "call_1", "type": "function", "function": call}]
        return {"role": "assistant", "content": None, "tool_calls": calls}
    said = {
        "right": f"It is ={left + right}.",
        "wrong": f"It is ={left + right + 1}.",
        "spelled": f"It is {left + right}",
        "empty": "",
    }[MODES[(left * 3 + right) % len(MODES)]]
    return {"role": "assistant", "content": said}


class SumsEndpoint(BaseHTTPRequestHandler):
    """Chat Completions of a model that answers sums."""

    protocol_version = "HTTP/1.1"
    status = 200
    reason = "stop"
    asked_as = Counter[str]()
    """Calls by the name of the model that was asked."""

    def do_POST(self) -> None:
        body = orjson.loads(self.rfile.read(int(self.headers["content-length"])))
        type(self).asked_as[body["model"]] += 1
        unasked = "What is the question?" in str(body["messages"][-1])
        message = {} if unasked else answer_to(body)
        finish = "tool_calls" if message.get("tool_calls") else type(self).reason
        choice = {"index": 0, "message": message, "finish_reason": finish}
        usage = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
        reply = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": usage}
        status = 500 if unasked else type(self).status
        good = status == 200
        data = orjson.dumps({**reply, "choices": [choice]} if good else {"error": {"message": "broken"}})
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        return


@pytest.fixture
def endpoint() -> Iterator[str]:
    SumsEndpoint.status, SumsEndpoint.reason = 200, "stop"
    SumsEndpoint.asked_as.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), SumsEndpoint) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            server.shutdown()
            thread.join()


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def rows_of(task: str, *options: str) -> list[JsonObject]:
    command = [str(PYTHON), "-m", "paddock.resources_servers.inspect_ai.make_rows", f"{TASKS}@{task}", *options]
    output = subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True).stdout
    return [orjson.loads(line) for line in output.splitlines()]


def evaluate(folder: Path, endpoint: str, rows: list[JsonObject], **agent: Any) -> list[JsonObject]:
    """Run rows through `paddock eval`, and return their rollouts by the row's order."""
    (folder / "rows.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    block = {
        "resources_server": {"type": "resources_servers", "name": "samples"},
        "model_server": {"type": "models_servers", "name": "policy_model"},
        "python": PYTHON,
        **agent,
    }
    config = {
        "samples": {"resources_servers": {"inspect_ai": agent.get("resources", {})}},
        "policy_model": {"models_servers": {"openai": {"base_url": endpoint, "model": "m", "attempts": 1}}},
        "judge_model": {"models_servers": {"openai": {"base_url": endpoint, "model": "judge", "attempts": 1}}},
        "sampler": {"agents": {"inspect_ai": {key: value for key, value in block.items() if key != "resources"}}},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    names = {name: str(folder / name) for name in ("config.yaml", "rows.jsonl", "out")}
    command = [str(PADDOCK), "eval", names["config.yaml"], "--rows", names["rows.jsonl"], "--out", names["out"]]
    done = subprocess.run(
        [*command, "eval.max_attempts=1"], env=ENVIRONMENT, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 3), done.stderr[-3000:]
    lines = [orjson.loads(line) for line in (folder / "out" / "rollouts.jsonl").read_bytes().splitlines()]
    lines += [orjson.loads(line) for line in (folder / "out" / "failures.jsonl").read_bytes().splitlines()]
    return sorted(lines, key=lambda line: int(line.get("_ng_task_index", line.get("group_id"))))


def outcome_of(line: JsonObject) -> str:
    """Return the outcome of a rollout's line, or of a failure's."""
    return str(line["rollout"]["outcome"] if "rollout" in line else line["outcome"])


@pytest.mark.timeout(1800)
def test_scores_are_those_of_its_own_runner(tmp_path: Path, endpoint: str) -> None:
    rows = rows_of("sums")
    command = [str(PYTHON), str(HERE / "own_run.py"), f"{TASKS}@sums", endpoint, str(tmp_path / "logs")]
    own = orjson.loads(subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True).stdout)
    ours = evaluate(tmp_path, endpoint, rows, workers=2)
    assert len(ours) == len(own) == 200
    rewards = Counter[float]()
    for row, line in zip(rows, ours, strict=True):
        expected = {"C": 1.0, "I": 0.0}[own[row["sample_id"]]["includes"]]
        assert (outcome_of(line), line.get("reward")) == ("completed", expected), (row, line)
        rewards[expected] += 1
        (turn,) = line["rollout"]["turns"]
        assert messages(line["response"]) == [text for text in messages(turn["output"]) if text]
    assert min(rewards[0.0], rewards[1.0]) > 50


def test_tools_run_and_each_call_is_a_turn(tmp_path: Path, endpoint: str) -> None:
    (line,) = evaluate(tmp_path, endpoint, rows_of("tool_sums", "--count", "1"))
    assert outcome_of(line) == "completed", line
    assert len(line["rollout"]["turns"]) == 2
    assert [item["type"] for item in line["response"]["output"]][:2] == ["function_call", "function_call_output"]


def test_several_scores_are_metrics_and_one_is_the_reward(tmp_path: Path, endpoint: str) -> None:
    rows = rows_of("several_scores", "--count", "2")
    lines = evaluate(tmp_path, endpoint, rows, resources={"reward": "several/right"})
    for line in lines:
        metrics = line["rollout"]["verdict"]["metrics"]
        assert sorted(metrics) == ["several/length", "several/right"]
        assert line["reward"] == metrics["several/right"]


@pytest.mark.parametrize(
    ("task", "agent", "outcome", "said"),
    [
        ("broken_scorer", {}, "verifier", "the scorer is broken"),
        ("broken_solver", {}, "infra", "the solver is broken"),
        ("hanging", {"rollout_timeout_s": 20}, "infra", "time"),
        ("several_scores", {"resources": {"reward": "nothing"}}, "verifier", "no score 'nothing'"),
        ("model_fails_first", {}, "infra", "gave no answer"),
        ("model_fails_second", {}, "infra", "gave no answer"),
        ("no_part", {}, "verifier", "no finite number"),
        ("unscored", {}, "verifier", "no finite number"),
    ],
)
def test_what_goes_wrong_is_no_reward(
    tmp_path: Path, endpoint: str, task: str, agent: Any, outcome: str, said: str
) -> None:
    (line,) = evaluate(tmp_path, endpoint, rows_of(task, "--count", "1"), **agent)
    assert (outcome_of(line), line.get("reward")) == (outcome, None)
    assert said in line["message"]


@pytest.mark.parametrize(
    ("task", "named", "calls"),
    [
        ("graded_by_model", "model_graded_qa", 0),
        ("graded_by_default_model", "model_graded_fact", 0),
        ("asks_policy", "a scorer asked the policy", 2),
        ("asks_grader", "a scorer asked the policy", 2),
    ],
)
def test_a_policy_does_not_grade_itself(tmp_path: Path, endpoint: str, task: str, named: str, calls: int) -> None:
    (line,) = evaluate(tmp_path, endpoint, rows_of(task, "--count", "1"))
    assert (outcome_of(line), line.get("reward")) == ("verifier", None)
    assert named in line["message"]
    assert "judge" in line["message"]
    assert SumsEndpoint.asked_as.total() == calls


JUDGED = {"judge": {"type": "models_servers", "name": "judge_model"}}


def test_a_judge_grades_and_its_calls_are_no_turns(tmp_path: Path, endpoint: str) -> None:
    for number, task in enumerate(("graded_by_model", "asks_grader"), 1):
        folder = tmp_path / task
        folder.mkdir()
        (line,) = evaluate(folder, endpoint, rows_of(task, "--count", "1"), **JUDGED)
        assert (outcome_of(line), line.get("reward")) == ("completed", 1.0), line
        assert len(line["rollout"]["turns"]) == 1
        assert SumsEndpoint.asked_as == {"m": number, "judge": number}


def test_a_scorer_that_asks_the_policy_beside_a_judge_is_no_reward(tmp_path: Path, endpoint: str) -> None:
    (line,) = evaluate(tmp_path, endpoint, rows_of("asks_policy", "--count", "1"), **JUDGED)
    assert (outcome_of(line), line.get("reward")) == ("verifier", None)


def test_a_task_does_not_learn_the_rollouts_secret(tmp_path: Path, endpoint: str) -> None:
    (line,) = evaluate(tmp_path, endpoint, rows_of("shows_endpoint", "--count", "1"))
    shown = line["response"]["inspect_ai"]["explanations"]["curious"]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/v1/? [0-9a-f]{32}", shown), shown


def test_a_model_that_fails_and_a_sample_that_is_not_there_are_no_reward(tmp_path: Path, endpoint: str) -> None:
    SumsEndpoint.status = 500
    good = rows_of("sums", "--count", "1")[0]
    (line,) = evaluate(tmp_path, endpoint, [good])
    assert (outcome_of(line), line.get("reward")) == ("infra", None)
    SumsEndpoint.status = 200
    (tmp_path / "again").mkdir()
    lines = evaluate(tmp_path / "again", endpoint, [{**good, "sample_id": "none"}, {**good, "sample_id": "s*"}, good])
    assert [outcome_of(line) for line in lines] == ["row", "row", "completed"]


def test_limits_truncate_and_are_scored(tmp_path: Path, endpoint: str) -> None:
    (line,) = evaluate(tmp_path, endpoint, rows_of("short_talk", "--count", "1"))
    assert (outcome_of(line), line.get("reward")) == ("truncated", 0.0), line
    assert line["response"]["inspect_ai"]["limit"] == "message"
    SumsEndpoint.reason = "length"
    (tmp_path / "cut").mkdir()
    (line,) = evaluate(tmp_path / "cut", endpoint, rows_of("sums", "--count", "1"))
    assert outcome_of(line) == "truncated", line


def test_a_solver_that_asks_no_model_is_scored(tmp_path: Path, endpoint: str) -> None:
    (line,) = evaluate(tmp_path, endpoint, rows_of("no_call"))
    assert (outcome_of(line), line.get("reward")) == ("completed", 1.0), line


def test_a_worker_ends_with_the_agent_in_the_middle_of_a_sample(tmp_path: Path) -> None:
    """The agent's end, in whatever way, is the end of its standard input."""
    policy = {"base_url": "http://127.0.0.1:9/v1", "api_key": "x", "model": "m"}
    job = {"task": f"{TASKS}@hanging", "sample_id": "s[0]", "policy": policy}
    command = [str(PYTHON), "-m", "paddock.agents.inspect_ai.worker"]
    with subprocess.Popen(
        command, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, cwd=tmp_path
    ) as worker:
        assert worker.stdin is not None
        try:
            worker.stdin.write(orjson.dumps(job) + b"\n")
            worker.stdin.flush()
            with pytest.raises(subprocess.TimeoutExpired):
                worker.wait(15)
            worker.stdin.close()
            assert worker.wait(10) != 0
        finally:
            worker.kill()
