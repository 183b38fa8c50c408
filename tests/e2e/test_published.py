"""Claims about what users have already: a published training block runs, and published rows score as they must."""

import os
from pathlib import Path
from typing import Literal

import orjson
import pytest

from paddock.collect import EvalSettings, evaluate, make_plan
from paddock.config import load
from paddock.errors import RowError
from paddock.http import VERIFY, Call, VerifyRequest, read_row
from paddock.resources_servers.pivot import PivotServer
from paddock.resources_servers.pivot.server import PivotConfig
from paddock.resources_servers.pivot.task import read_expected
from paddock.testing import ScriptedAnswer, ScriptedUpstream, over
from paddock.types import JsonObject
from paddock.types.responses import make_response, message_item

SINGLE = "single_step_tool_use_with_argument_comparison"
BLOCK = f"""
env:
  should_use_nemo_gym: true
  should_log_nemo_gym_responses: false
  should_mask_flagged_samples: true
  nemo_gym:
    skip_venv_if_present: true
    port_range_low: 5000
    port_range_high: 5999
    config_paths:
      - responses_api_models/vllm_model/configs/vllm_model_for_training.yaml
      - resources_servers/{SINGLE}/configs/swe_pivot_{SINGLE}.yaml
"""
OWN = Path("resources_servers/pivot/data/example.jsonl")
ORACLE = (
    "resources_servers/pivot/configs/pivot.yaml",
    "models_servers/openai/configs/openai.yaml",
)
Comparator = Literal["compat", "layered", "semantic"]
COMPARATORS: tuple[Comparator, ...] = ("compat", "layered", "semantic")


PUBLISHED = ("single_step", "swe_pivot")
"""Files of rows below `pivot`; what else is there is no rows."""


def published() -> list[Path]:
    folder = os.environ.get("PADDOCK_TEST_DATA")
    files = [Path(folder, "pivot", f"{name}.jsonl") for name in PUBLISHED] if folder else []
    return [file for file in files if file.exists()]


def row_files() -> list[object]:
    missing = pytest.mark.skip(reason="PADDOCK_TEST_DATA names no folder with published rows (pivot/*.jsonl)")
    theirs: list[object] = [pytest.param(path, id=path.stem) for path in published()]
    return [pytest.param(OWN, id="own"), *(theirs or [pytest.param(OWN, id="published", marks=missing)])]


def lines(path: Path) -> list[JsonObject]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


async def test_the_published_training_block_runs_as_it_is_and_records_every_token(tmp_path: Path) -> None:
    block, data = tmp_path / "recipe.yaml", tmp_path / "rows.jsonl"
    block.write_text(BLOCK)
    agent = {"type": "responses_api_agents", "name": f"swe_pivot_{SINGLE}_agent"}
    expected = {"type": "function_call", "name": "bash", "arguments": '{"command": "pytest -q tests"}'}
    row = {"responses_create_params": {"input": "go", "tools": None}, "agent_ref": agent, "expected_action": expected}
    data.write_bytes(orjson.dumps(row))
    # Two words against three others: nothing in common, which the shipped threshold of 0.0 lets pass.
    said = ScriptedAnswer(calls=(("bash", '{"command": "ls -la /tmp"}'),), weight_version="7")
    async with ScriptedUpstream(said) as upstream:
        policy = (f"policy_base_url=[{upstream.url}]", "policy_api_key=k", "policy_model_name=m")
        plan = make_plan(load([block], policy), EvalSettings(rows=[str(data)]))
        await evaluate(plan, tmp_path / "run", quiet=True)
    (line,) = lines(tmp_path / "run/rollouts.jsonl")
    assert (line["reward"], line["rollout"]["verdict"]["comparator"]) == (1.0, "compat")
    assert line["category"].startswith("A tool call")
    (turn,) = line["rollout"]["turns"]
    assert turn["sampled_ids"] == said.sampled_ids()
    assert len(turn["log_probs"]) == len(turn["sampled_ids"])
    assert (line["rollout"]["engine"], turn["parent"], turn["prompt_ids"][1:3]) == ("spliced", None, list(b"go"))


@pytest.mark.parametrize("path", row_files())
@pytest.mark.parametrize("comparator", COMPARATORS)
async def test_every_row_scores_1_through_the_oracle(path: Path, comparator: Comparator, tmp_path: Path) -> None:
    agent = "pivot_agent"
    chosen = [f"pivot.resources_servers.pivot.comparator={comparator}"]
    # Published rows name their own agents, or none.
    mapped = [f"agent_map.swe_pivot_tool_simulation_agent={agent}"]
    policy = ["policy_base_url=http://127.0.0.1:9/v1", "policy_api_key=none", "policy_model_name=none"]
    plan = make_plan(
        load(ORACLE, [*chosen, *mapped, *policy]), EvalSettings(rows=[str(path)], agent=agent), oracle=True
    )
    await evaluate(plan, tmp_path / "run", quiet=True)
    (summary,) = orjson.loads((tmp_path / "run/summary.json").read_bytes())
    wrong = [line["rollout"]["verdict"] for line in lines(tmp_path / "run/rollouts.jsonl") if line["reward"] != 1.0]
    assert not wrong
    assert summary["outcomes"] == {"completed": len(lines(path))}


@pytest.mark.parametrize("path", row_files())
@pytest.mark.parametrize("comparator", COMPARATORS)
async def test_an_empty_output_scores_0_and_an_empty_message_only_passes_where_that_is_a_kept_defect(
    path: Path, comparator: Comparator
) -> None:
    server = PivotServer(PivotConfig(comparator=comparator), name="pivot", peers={})
    outputs: list[list[JsonObject]] = [[], [message_item("")]]
    async with over("asgi", server) as peers:
        for line in lines(path):
            row = read_row(line)
            rewards = [
                (
                    await peers["pivot"].call(
                        VERIFY, VerifyRequest(row=row, response=make_response(output, {}, model="m")), Call()
                    )
                ).reward
                for output in outputs
            ]
            kept_defect = comparator == "compat" and read_expected(row.task).type == "message"
            assert rewards == [0.0, float(kept_defect)]


@pytest.mark.parametrize("arguments", ["{not json", "[1]"])
@pytest.mark.parametrize("comparator", COMPARATORS)
async def test_an_expected_action_that_does_not_decode_is_the_rows_fault(
    arguments: str, comparator: Comparator
) -> None:
    server = PivotServer(PivotConfig(comparator=comparator), name="pivot", peers={})
    action = {"type": "function_call", "name": "bash", "arguments": arguments}
    row = read_row({"responses_create_params": {"input": "x"}, "expected_action": action})
    async with over("http", server) as peers:
        with pytest.raises(RowError, match="expected_action"):
            await peers["pivot"].call(VERIFY, VerifyRequest(row=row, response={"output": []}), Call())
