"""What `measure_critic.py` found where torch is, and claims about the `value` block."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError
from tests.support.pages import blocks

from paddock.ports import free_port
from paddock.training.grpo.config import TrainConfig
from paddock.training.grpo.policy_settings import PolicySettings

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


MAKE = "import pathlib, sys, tests.training.grpo.tiny_policy as t; t.make_model(pathlib.Path(sys.argv[1]))"


def started(*command: str) -> subprocess.Popen[str]:
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def told(process: subprocess.Popen[str]) -> Any:
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1]) if out else None


@pytest.fixture(scope="module")
def results(vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return told(started(vllm_python, str(HERE / "measure_critic.py"), str(tmp_path_factory.mktemp("critic"))))


@pytest.mark.vllm
@pytest.mark.long
def test_a_policy_learns_from_a_critic_alone(results: Any) -> None:
    first, last = (sum(results["rewards"][part]) / 5 for part in (slice(5), slice(-5, None)))
    assert first < 0.55
    assert last > 0.95


@pytest.mark.vllm
@pytest.mark.long
def test_the_critic_learns_alone_at_first(results: Any) -> None:
    assert results["policy_stays"]
    assert results["trained_from"] == 5
    assert results["values_before"] == 0, "its head is zeros"
    assert max(results["value_loss"][2:5]) < results["value_loss"][0] / 2


@pytest.mark.vllm
@pytest.mark.long
def test_a_resumed_run_has_its_critic_to_the_bit(results: Any) -> None:
    assert results["resumed"]


@pytest.mark.vllm
@pytest.mark.long
def test_padding_and_micro_batches_change_no_value(results: Any) -> None:
    assert results["apart"] < 1e-6


@pytest.mark.vllm
@pytest.mark.long
def test_a_scale_is_of_the_gradient_and_not_of_the_loss_that_is_shown(results: Any) -> None:
    (loss, norm), (scaled_loss, scaled_norm) = results["scaled"]
    assert scaled_loss == loss
    assert scaled_norm == pytest.approx(0.4 * norm, rel=1e-4)


@pytest.mark.vllm
@pytest.mark.long
def test_two_processes_hold_a_critic_as_one_does(vllm_python: str, tmp_path: Path) -> None:
    model, script, port = str(tmp_path / "model"), str(HERE / "measure_critic_shards.py"), str(free_port())
    told(started(vllm_python, "-c", MAKE, model))
    both = [started(vllm_python, script, model, "2", port, str(rank)) for rank in (0, 1)]
    two, _ = [told(one) for one in both]
    one = told(started(vllm_python, script, model, "1", "0", "0"))
    for name, values in one["metrics"].items():
        assert two["metrics"][name] == pytest.approx(values, rel=1e-3, abs=1e-5), name
    for found in (one, two):
        assert found["resumed"][0] == found["resumed"][1]


TREE: dict[str, Any] = {
    "policy": {"model_name": "model"},
    "data": {"train": {"data_path": "rows.jsonl"}},
    "value": {"enabled": True, "gae_lambda": 0.9},
}


def test_a_critic_needs_no_groups() -> None:
    grpo = {"num_generations_per_prompt": 1, "use_leave_one_out_baseline": False}
    config = TrainConfig.model_validate({**TREE, "grpo": grpo, "paddock": {"groups": {"min_members": 1}}})
    assert PolicySettings.of(config).value.gae_lambda == 0.9


def test_the_configs_of_the_page_are_read() -> None:
    page = (ROOT / "docs" / "warm_start.md").read_text()
    found = {block.title: yaml.safe_load(block.text) for block in blocks(page)}
    critic, vapo = (TrainConfig.model_validate({**TREE, **found[f"{name}.yaml"]}).value for name in ("critic", "vapo"))
    assert critic.policy_training_start_step == 10
    assert [critic.lam_returns, critic.lam_advantages(1000)] == [0.95, 0.95]
    assert [vapo.lam_returns, vapo.lam_advantages(1000), vapo.lam_advantages(5)] == [1.0, 0.98, 0.0]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"policy": {"model_name": "m", "megatron_cfg": {"enabled": True, "setup_hook": "a:b"}}}, "on torch alone"),
        ({"grpo": {"invalid_tool_call_advantage": -1.0}}, "invalid_tool_call_advantage"),
        ({"value": {"enabled": True, "gae_lambda": 1.1}}, "gae_lambda"),
        (
            {
                "on_policy_distillation": {
                    "enabled": True,
                    "teacher_model_by_agent_name": {"a": "b"},
                    "servers": {"b": {"base_url": "http://c"}},
                }
            },
            "both make the advantages",
        ),
    ],
)
def test_what_a_critic_cannot_be_beside_is_refused(change: Any, text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        TrainConfig.model_validate({**TREE, **change})
