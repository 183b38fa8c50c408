"""Claims about `paddock data check`: each wrong row with its line, by the server that will read it."""

import json
import os
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.published_rows import swe_bench_row

from paddock.cli import main
from paddock.http import read_row
from paddock.training.data.row_check import prompt_digest

CALL = {"type": "function_call", "name": "bash", "arguments": '{"command": "ls"}'}
PIVOT = "single_step_tool_use_with_argument_comparison_swe"
CONFIG = """
mine:
  resources_servers: {pivot: {comparator: compat}}
my_agent:
  agents:
    single_step:
      resources_server: {type: resources_servers, name: mine}
      model_server: {type: models_servers, name: policy_model}
"""


def row(prompt: Any = "Look.", *, agent: str | None = PIVOT, **task: Any) -> dict[str, Any]:
    named = {"agent_ref": {"type": "responses_api_agents", "name": agent}} if agent else {}
    return {"responses_create_params": {"input": prompt}, **named, "expected_action": CALL, **task}


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Check a file of these lines; the exit code and what was told."""
    monkeypatch.chdir(tmp_path)

    def run(*lines: Any, words: tuple[str, ...] = ()) -> tuple[int, list[str]]:
        texts = [line if isinstance(line, bytes) else orjson.dumps(line) for line in lines]
        Path("rows.jsonl").write_bytes(b"\n".join(texts) + b"\n")
        code = main(["data", "check", "rows.jsonl", *words])
        return code, capsys.readouterr().out.splitlines()

    return run


def test_each_wrong_row_has_its_line_and_its_key(check: Any) -> None:
    bad_arguments = row("b", expected_action={**CALL, "arguments": "{"})
    no_input = {**row(), "responses_create_params": {}}
    code, told = check(row("a"), b"", bad_arguments, b"{", no_input, b"[]", row("c", expected_action=None))
    assert code == 1
    lines = ["rows.jsonl:3", "rows.jsonl:4", "rows.jsonl:5", "rows.jsonl:6", "rows.jsonl:7"]
    assert [line.partition(": ")[0] for line in told[:-1]] == lines
    for line, key in zip(told, ["arguments", "no JSON", "input", "JSON object", "expected_action"], strict=False):
        assert key in line
    assert told[-1] == "6 rows, 5 wrong, 1 read by pivot"


def test_rows_go_to_the_server_of_their_agent(check: Any) -> None:
    swe = {**row([], agent="swe_agents_train"), "expected_action": None}
    other = {**row("x", agent="math"), "expected_action": 3}
    code, told = check(row(), swe, other, row("y", agent=None))
    assert code == 1
    assert told[0].startswith("rows.jsonl:2: row: of no known form")
    counts = "1 read by pivot, 1 of math, only their form was checked, 1 of no agent, only their form was checked"
    assert told[1:] == [f"4 rows, 1 wrong, {counts}"]


def test_one_server_reads_all_rows_when_it_is_named(check: Any) -> None:
    code, told = check(row(agent="math"), row("x", agent=None, expected_action=7), words=("--server", "pivot"))
    assert (code, len(told)) == (1, 2)
    assert told[0].startswith("rows.jsonl:2: expected_action")
    assert check(row(), words=("--server", "pivto"))[0] == 2


def test_rows_whose_agents_make_the_request_need_not_bring_one(check: Any) -> None:
    published = swe_bench_row()
    assert check(published, words=("--server", "swe")) == (0, ["1 rows, 0 wrong, 1 read by swe"])
    code, told = check(published, words=("--server", "pivot"))
    assert (code, told[0]) == (1, "rows.jsonl:1: responses_create_params: missing; needs a Responses API request")


def test_a_config_says_whose_rows_they_are(check: Any) -> None:
    Path("mine.yaml").write_text(CONFIG)
    config = ("--config", "mine.yaml")
    code, told = check(row(agent="my_agent"), row("x", agent=None), row("y", agent="my_agnt"), words=config)
    assert code == 1
    assert told == [told[0], "3 rows, 1 wrong, 2 read by my_agent"]
    assert told[0].startswith("rows.jsonl:3: agent_ref.name: no agent 'my_agnt'; nearest: 'my_agent'")
    mapped = (*config, "--config", "agent_map.my_agnt=my_agent")
    assert check(row("y", agent="my_agnt"), words=mapped)[0] == 0


@pytest.mark.slow
def test_rows_of_one_first_prompt_are_named_and_no_mistake(check: Any) -> None:
    as_message = row(
        [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}], "id": None}]
    )
    tools = row("a")
    tools["responses_create_params"]["tools"] = [{"type": "function", "name": "bash"}]
    code, told = check(row("a"), row("b"), as_message, tools, row("b", note=1))
    assert code == 0
    assert told == [
        "rows.jsonl:3: warning: has the first prompt of rows.jsonl:1: NeMo-RL makes one group of them",
        "rows.jsonl:5: warning: has the first prompt of rows.jsonl:2: NeMo-RL makes one group of them",
        "5 rows, 0 wrong, 5 read by pivot, 2 with the first prompt of another",
    ]


def test_rows_without_messages_are_told_apart_by_their_problem() -> None:
    def digest(statement: str | None) -> bytes | None:
        metadata = {"problem_statement": statement} if statement else {}
        return prompt_digest(read_row({"responses_create_params": {"input": [], "metadata": metadata}}))

    assert digest("It breaks.") == digest("It breaks.")
    assert digest("It breaks.") != digest("It hangs.")
    assert digest(None) is None


def test_many_repeated_prompts_are_counted_and_not_all_named(check: Any) -> None:
    code, told = check(*[row("same", index=index) for index in range(60)])
    assert code == 0
    assert len(told) == 21
    assert told[-1].endswith("59 with the first prompt of another")


@pytest.mark.parametrize("name", ["pivot/single_step.jsonl", "pivot/swe_pivot.jsonl", "genrm/compare.jsonl"])
def test_published_rows_are_right(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = os.environ.get("PADDOCK_TEST_DATA")
    if not folder:
        pytest.skip("PADDOCK_TEST_DATA names no folder of published rows")
    server = name.partition("/")[0]
    assert main(["data", "check", f"{folder}/{name}", "--server", server]) == 0
    assert f"0 wrong, 5 read by {server}" in capsys.readouterr().out


def test_example_rows_of_every_server_are_right(capsys: pytest.CaptureFixture[str]) -> None:
    root = Path(__file__).resolve().parents[3] / "resources_servers"
    for server in ("pivot", "genrm"):
        example = root / server / "data/example.jsonl"
        assert main(["data", "check", str(example), "--server", server]) == 0
        count = sum(1 for line in example.read_text().splitlines() if json.loads(line))
        assert f"{count} rows, 0 wrong" in capsys.readouterr().out
