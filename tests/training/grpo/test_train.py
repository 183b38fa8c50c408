"""Claims about what surrounds a run: whose its folder is, which devices its processes have, how rows are sampled."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from paddock.errors import ConfigError
from paddock.training.grpo.claiming import CONFIG, claim
from paddock.training.grpo.reading import ReadConfig, read_config
from paddock.training.grpo.train import devices_of, worker_settings

AGENT = {
    "resources_server": {"type": "resources_servers", "name": "pivot"},
    "model_server": {"type": "models_servers", "name": "policy_model"},
}
TREE: dict[str, Any] = {
    "grpo": {"num_prompts_per_step": 2, "num_generations_per_prompt": 4},
    "policy": {"model_name": "model", "generation": {"val_temperature": 0.0, "max_new_tokens": 16}},
    "env": {
        "nemo_gym": {
            "pivot": {"resources_servers": {"pivot": {"comparator": "compat"}}},
            "agent": {"agents": {"single_step": AGENT}},
            "policy_model": {"models_servers": {"vllm": {"api_key": "xyzzy-1", "launch": {"dtype": "float32"}}}},
        }
    },
}


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """The config with overrides."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text("{}\n")
    config = tmp_path / "run.yaml"
    config.write_text(yaml.safe_dump({**TREE, "data": {"train": {"data_path": str(rows)}}}))

    def read(*overrides: str) -> ReadConfig:
        return read_config(config, overrides)

    return read


def test_a_folder_is_claimed_once_and_gone_on_with_by_the_same_run(tmp_path: Path, read: Any) -> None:
    claim(read(), tmp_path, resume=False)
    with pytest.raises(ConfigError, match="holds a run already"):
        claim(read(), tmp_path, resume=False)
    claim(read(), tmp_path, resume=True)
    claim(read("grpo.max_num_steps=3", "logger.progress_every_s=1"), tmp_path, resume=True)


@pytest.mark.parametrize(
    "override",
    ["grpo.seed=7", "policy.optimizer.kwargs.lr=0.5", "env.nemo_gym.pivot.resources_servers.pivot.comparator=layered"],
)
def test_another_run_does_not_go_on_with_it(tmp_path: Path, read: Any, override: str) -> None:
    claim(read(), tmp_path, resume=False)
    with pytest.raises(ConfigError, match=override.partition("=")[0].rpartition(".")[2]):
        claim(read(override), tmp_path, resume=True)


def test_checkpoints_in_a_folder_of_their_own_are_of_one_run(tmp_path: Path, read: Any) -> None:
    shared = f"checkpointing.checkpoint_dir={tmp_path / 'shared'}"
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    claim(read(shared), first, resume=False)
    claim(read(shared), first, resume=True)
    for resume in (False, True):
        with pytest.raises(ConfigError, match=rf"of the run in {first}.*null for one below --out"):
            claim(read(shared), second, resume=resume)
        assert not list(second.iterdir()), "a refused run has taken no folder"
    claim(read(shared, "checkpointing.enabled=false"), second, resume=False)


def test_checkpoints_of_nobody_knows_whom_are_not_gone_on_from(tmp_path: Path, read: Any) -> None:
    (tmp_path / "shared" / "step_3").mkdir(parents=True)
    with pytest.raises(ConfigError, match="of another run"):
        claim(read(f"checkpointing.checkpoint_dir={tmp_path / 'shared'}"), tmp_path, resume=False)


def test_a_secret_is_not_stored(tmp_path: Path, read: Any) -> None:
    claim(read("+policy.generation.vllm.api_key=xyzzy-2"), tmp_path, resume=False)
    assert "xyzzy" not in (tmp_path / CONFIG).read_text()


def test_rows_are_sampled_as_training_and_validation_say(tmp_path: Path, read: Any) -> None:
    settings = worker_settings(read("policy.generation.temperature=0.8"), tmp_path)
    assert settings.sampling == {"temperature": 0.8, "top_p": 1.0, "max_output_tokens": 16}
    assert settings.validation_sampling == {"temperature": 0.0, "top_p": 1.0, "max_output_tokens": 16}


def test_the_policy_has_the_first_gpus_and_engines_the_others(read: Any) -> None:
    four = ("cluster.gpus_per_node=4", "policy.torch_cfg.processes=3", "policy.torch_cfg.device=cuda")
    told = devices_of(read(*four).config)
    assert (told.policy, told.rollouts) == ({"CUDA_VISIBLE_DEVICES": "0,1,2"}, {"CUDA_VISIBLE_DEVICES": "3"})
    assert devices_of(read().config) == ({}, {})
    with pytest.raises(ConfigError, match="none is left for engines"):
        devices_of(read("cluster.gpus_per_node=1").config)
