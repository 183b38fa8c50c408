"""Claims about rows whose prompt is a template of their dataset's, as NeMo-Gym's benchmarks have it."""

import json
from pathlib import Path

import pytest

from paddock.collect import EvalSettings, make_plan
from paddock.collect.identity import differences
from paddock.collect.jobs import MemberJob, WorkerMessage
from paddock.collect.plan import row_problems
from paddock.collect.row_prompt import RowPrompt, read_prompt
from paddock.config import load
from paddock.errors import ConfigError, RowError
from paddock.types import JsonObject

MATH = {"question": "What is {1} + 1?", "expected_answer": "2"}
PROMPT = "user: |-\n  Put the answer inside \\boxed{{}}.\n\n  {question}\nsystem: Be brief.\n"
MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Put the answer inside \\boxed{}.\n\nWhat is {1} + 1?"},
]
CONFIG = """
policy_model: {models_servers: {openai: {base_url: "http://127.0.0.1:1/v1", model: m}}}
math: {resources_servers: {math: {}}}
math_agent:
  agents:
    single_step:
      resources_server: {type: resources_servers, name: math}
      model_server: {type: models_servers, name: policy_model}
      datasets: [{name: b, type: benchmark, jsonl_fpath: rows.jsonl, prompt_config: math.yaml}]
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """With rows and a prompt beside it."""
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in (MATH, {**MATH, "uuid": "b"})))
    (tmp_path / "math.yaml").write_text(PROMPT)
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG)
    return file


def test_a_dataset_gives_its_rows_their_prompt_on_a_worker_too(config: Path) -> None:
    plan = make_plan(load([config]), EvalSettings())
    assert list(row_problems(plan)) == []
    for group in plan.groups():
        assert group.row is not None
        assert group.row.responses_create_params["input"] == MESSAGES
        assert group.row.task["question"] == MATH["question"]
    job = MemberJob(next(iter(plan.lines())), 0)
    message = job.to_message(3)
    sent = WorkerMessage(json.loads(json.dumps(message.head)), message.body)
    assert MemberJob.from_message(sent).line == job.line


def test_files_of_the_command_have_one_by_the_settings(config: Path) -> None:
    rows = str(config.with_name("rows.jsonl"))
    (without,) = {one.kind for one in row_problems(make_plan(load([config]), EvalSettings(rows=[rows])))}
    assert without == "row_invalid"
    named = EvalSettings(rows=[rows], prompt_config=str(config.with_name("math.yaml")))
    assert list(row_problems(make_plan(load([config]), named))) == []


def test_a_run_goes_on_with_its_own_prompt_alone(config: Path) -> None:
    before = make_plan(load([config]), EvalSettings()).identity
    assert differences(before, make_plan(load([config]), EvalSettings()).identity) == []
    config.with_name("math.yaml").write_text(PROMPT.replace("brief", "kind"))
    (differing,) = differences(before, make_plan(load([config]), EvalSettings()).identity)
    assert differing.startswith("the prompt of rows in")


@pytest.mark.parametrize(
    ("row", "template", "why"),
    [
        ({"responses_create_params": {"input": "x"}, "question": "y"}, "{question}", "keep one of them"),
        ({"problem": "y"}, "{question}", "no key 'question' for its prompt; it has: problem"),
        ({"question": "y"}, "{question", "its prompt can't be made"),
        ({"question": "y"}, "{question.no}", "its prompt can't be made"),
    ],
)
def test_a_row_that_can_not_have_it_is_the_rows_fault(row: JsonObject, template: str, why: str) -> None:
    with pytest.raises(RowError, match="rows.jsonl:1: .*" + why):
        RowPrompt(template).fill(row, "rows.jsonl:1")


def test_other_parameters_of_the_request_are_kept() -> None:
    params = {"input": [], "temperature": 0.5}
    filled = RowPrompt("{question}").fill({"responses_create_params": params, "question": "q"}, "here")
    assert filled["responses_create_params"] == {"input": [{"role": "user", "content": "q"}], "temperature": 0.5}
    assert params["input"] == []


@pytest.mark.parametrize("text", ["system: x", "user: [a]", "user: x\nsystem: 1"])
def test_a_file_of_another_form_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "prompt.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match="a prompt needs `user`"):
        read_prompt(str(file))
    with pytest.raises(ConfigError, match="no file"):
        read_prompt(str(tmp_path / "none.yaml"))
