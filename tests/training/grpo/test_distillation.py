"""What `measure_distillation.py` found where torch is, and claims about the `on_policy_distillation` block."""

import json
import math
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.pages import blocks

from paddock.errors import ConfigError
from paddock.training.grpo.dry_run import plan_text
from paddock.training.grpo.read_config import RunConfig, read_config
from paddock.training.grpo.train import worker_settings

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
AGENT = {
    "resources_server": {"type": "resources_servers", "name": "pivot"},
    "model_server": {"type": "models_servers", "name": "policy_model"},
}
SERVERS = {
    "pivot": {"resources_servers": {"pivot": {"comparator": "compat"}}},
    "coder": {"agents": {"single_step": AGENT}},
    "talker": {"agents": {"single_step": AGENT}},
    "policy_model": {"models_servers": {"vllm": {"launch": {"dtype": "float32"}}}},
}
MOPD = {
    "enabled": True,
    "teacher_model_by_agent_name": {"coder": "big-coder", "others": "big"},
    "default_teacher_alias": "others",
    "deduplicate_shared_teacher_checkpoints": True,
    "non_colocated_teachers": {"enabled": True, "default_teacher_cfg": {"num_nodes": 1}},
    "servers": {
        "big-coder": {"base_url": "http://127.0.0.1:9/v1", "api_key": "xyzzy-1"},
        "big": {"base_url": "http://b"},
    },
}
"""NeMo-RL's keys, and where the teachers are served."""


@pytest.mark.vllm
@pytest.mark.long
def test_a_policy_comes_nearer_to_a_teacher_that_scores_what_it_samples(vllm_python: str, tmp_path: Path) -> None:
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    command = [vllm_python, str(HERE / "measure_distillation.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=env)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    first, *_, last = told["exact"]
    assert first > 0.5
    assert last < first / 2
    assert told["measured"][0] == pytest.approx(first, rel=0.25), "the metric estimates the divergence itself"


@pytest.fixture
def read(tmp_path: Path) -> Any:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("{}\n" * 40)

    def read(block: Any, *overrides: str) -> RunConfig:
        tree = {
            "grpo": {"num_prompts_per_step": 2, "num_generations_per_prompt": 4},
            "policy": {"model_name": "model"},
            "env": {"nemo_gym": SERVERS},
            "data": {"train": {"data_path": str(rows)}},
            "on_policy_distillation": block,
        }
        file = tmp_path / "run.yaml"
        file.write_text(yaml.safe_dump(tree))
        return read_config(file, overrides)

    return read


def test_nemo_rls_block_is_read_and_its_agents_have_their_teachers(read: Any, tmp_path: Path) -> None:
    found = read(MOPD)
    block = found.config.on_policy_distillation
    assert [block.teacher_of(agent) for agent in ("coder", "talker")] == ["big-coder", "big"]
    inert = {note.key for note in found.notes if note.kind == "inert"}
    assert "on_policy_distillation.deduplicate_shared_teacher_checkpoints" in inert
    assert "on_policy_distillation.non_colocated_teachers" in {".".join(key.split(".")[:2]) for key in inert}
    plan = plan_text(found, tmp_path / "out")
    assert "coder by big-coder, talker by big; in place of the rewards' advantages" in plan
    assert "xyzzy-1" not in plan
    settings = worker_settings(found)
    assert settings.distillation is block
    assert settings.tokenizer == Path("model")


def test_the_config_of_the_page_is_read(read: Any) -> None:
    page = (ROOT / "docs" / "warm_start.md").read_text()
    (block,) = (block for block in blocks(page) if block.title == "teacher.yaml")
    found = read(
        yaml.safe_load(block.text)["on_policy_distillation"],
        "loss_fn.disable_ppo_ratio=true",
        "grpo.adv_estimator.name=opd",
    )
    found.config.on_policy_distillation.require_teachers(found.environment)
    assert found.config.loss_fn.disable_ppo_ratio


@pytest.mark.parametrize("block", [None, {}, {"enabled": False}])
def test_without_it_no_teacher_is_asked(read: Any, block: Any) -> None:
    found = read(block)
    assert not found.config.on_policy_distillation.enabled
    found.config.on_policy_distillation.require_teachers(found.environment)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"servers": {}}, "no server for the teacher 'big-coder'"),
        ({"teacher_model_by_agent_name": {}}, "which agent has which teacher"),
        ({"default_teacher_alias": "nobody"}, "'nobody' is not in teacher_model_by_agent_name"),
        ({"servers": {"big": {"base_url": "b"}}}, "base_url"),
        ({"coefficient": 0}, "coefficient"),
        ({"coefficient": math.inf}, "coefficient"),
    ],
)
def test_a_block_that_cannot_be_is_refused(read: Any, change: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        read({**MOPD, **change})


@pytest.mark.parametrize("change", [{"default_teacher_alias": None}, {"strict_agent_name_match": True}])
def test_an_agent_without_a_teacher_is_refused_before_a_start(read: Any, change: Any, tmp_path: Path) -> None:
    found = read({**MOPD, **change})
    with pytest.raises(ConfigError, match="no teacher for talker"):
        plan_text(found, tmp_path / "out")


def test_a_teacher_of_an_agent_that_is_not_there_is_refused_before_a_start(read: Any, tmp_path: Path) -> None:
    found = read({**MOPD, "teacher_model_by_agent_name": {"codr": "big-coder", "others": "big"}})
    with pytest.raises(ConfigError, match="no agent `codr`; nearest: `coder`"):
        plan_text(found, tmp_path / "out")
