"""NeMo-RL's PPO and its single controller are read onto the same loop; recipes of other algorithms are refused."""

from pathlib import Path
from typing import Any

import pytest
from tests.training.grpo.test_recipe import noted, read

from paddock.errors import ConfigError
from paddock.training.core.settings import RewardScalingSettings
from paddock.training.grpo.recipe import OTHER_ALGORITHMS

PPO: dict[str, Any] = {
    "ppo": {
        "num_prompts_per_step": 32,
        "num_generations_per_prompt": 4,
        "max_num_steps": 7,
        "max_rollout_turns": 1,
        "ppo_epochs": 4,
        "policy_training_start_step": 5,
        "val_period": 0,
        "async_ppo": {"enabled": True, "max_trajectory_age_steps": 2, "warmup_generation_lead_steps": None},
        "reward_scaling": {"enabled": True, "target_min": -1.0},
        "adv_estimator": {
            "name": "gae",
            "gae_lambda": 0.9,
            "gae_gamma": 0.99,
            "gae_lambda_value": 1.0,
            "length_adaptive_alpha": 0.05,
            "normalize_advantages": False,
        },
    },
    "value_loss_fn": {"scale": 0.4, "cliprange": 0.5},
    "value": {
        "model_name": "/models/critic",
        "precision": "bfloat16",
        "train_micro_batch_size": 2,
        "optimizer": {"name": "torch.optim.AdamW", "kwargs": {"lr": 2.0e-6, "foreach": False}},
        "dtensor_cfg": {"enabled": True, "tensor_parallel_size": 2, "lora_cfg": {"enabled": False, "dim": 8}},
        "megatron_cfg": {"enabled": False, "whatever": 1},
        "reward_model_cfg": {"enabled": True, "reward_model_type": "regression"},
    },
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_recipe_of_ppo_trains_the_critic_that_it_describes(folder: Path) -> None:
    found = read(folder, **PPO)
    grpo, value = found.config.grpo, found.config.value
    assert (grpo.num_prompts_per_step, grpo.num_generations_per_prompt, grpo.max_num_steps) == (32, 4, 7)
    assert grpo.ppo_epochs == 4
    assert (grpo.async_grpo.enabled, grpo.async_grpo.max_trajectory_age_steps) == (True, 2)
    assert grpo.reward_scaling == RewardScalingSettings(enabled=True, target_min=-1.0)
    assert (value.enabled, value.model_name, value.policy_training_start_step) == (True, "/models/critic", 5)
    assert (value.gae_lambda, value.gae_gamma, value.gae_lambda_value) == (0.9, 0.99, 1.0)
    assert (value.length_adaptive_alpha, value.normalize_advantages) == (0.05, False)
    assert (value.loss_scale, value.cliprange, value.optimizer.kwargs.lr) == (0.4, 0.5, 2e-6)
    assert str(noted(found, "ppo.num_prompts_per_step")).endswith("read as `grpo.num_prompts_per_step`")
    inert = {note.key for note in found.notes if note.kind == "inert"}
    assert {"ppo.max_rollout_turns", "value.megatron_cfg", "value.dtensor_cfg.lora_cfg"} <= inert
    assert "value.dtensor_cfg.tensor_parallel_size" in inert


def test_an_override_in_our_names_wins_over_a_block_in_theirs(folder: Path) -> None:
    assert read(folder, "grpo.num_prompts_per_step=16", **PPO).config.grpo.num_prompts_per_step == 16
    assert read(folder, "ppo.num_prompts_per_step=8", **PPO).config.grpo.num_prompts_per_step == 8


def test_a_block_that_is_null_says_nothing(folder: Path) -> None:
    found = read(folder, ppo=None, async_rl=None, value={"dtensor_cfg": None, "megatron_cfg": None})
    assert found.config.grpo.num_prompts_per_step == 32
    assert not found.config.value.enabled


def test_the_single_controller_in_order_is_our_default_policy_of_ages(folder: Path) -> None:
    sampler = {"name": "in_order", "max_lookahead_versions": 3}
    failure = {"max_consecutive_dropped_prompts": 4, "max_infra_attempts_per_prompt": 5}
    controller = {"sampler": sampler, "rollout_failure": failure, "recompute_kv_cache_after_weight_updates": False}
    found = read(folder, grpo={"async_grpo": None}, async_rl=controller)
    ages = found.config.grpo.async_grpo
    assert (ages.enabled, ages.max_trajectory_age_steps, ages.in_flight_weight_updates) == (True, 3, True)
    assert (ages.max_generation_failures, ages.recompute_kv_cache_after_weight_updates) == (4, False)
    assert found.config.paddock.groups.age_policy == "target_step"
    assert "retried by agents" in str(noted(found, "async_rl.rollout_failure.max_infra_attempts_per_prompt"))


def test_no_asynchrony_is_a_synchronous_run(folder: Path) -> None:
    assert read(folder, grpo={"async_grpo": None}).config.grpo.max_age == 0


def test_an_entry_below_one_of_its_block_counts(folder: Path) -> None:
    megatron = {"enabled": True, "checkpoint": {"async_save": True, "ckpt_assume_constant_structure": False}}
    found = read(folder, policy={"megatron_cfg": megatron})
    assert found.config.checkpointing.is_async
    assert noted(found, "policy.megatron_cfg.checkpoint.ckpt_assume_constant_structure").kind == "inert"


def test_a_recipe_of_gdpo_weighs_parts_in_the_order_of_their_names(folder: Path) -> None:
    estimator = {"name": "gdpo", "normalize_rewards": True, "reward_weights": [1.0, 0.5, 0.25]}
    found = read(folder, grpo={"adv_estimator": {**estimator, "use_leave_one_out_baseline": False}})
    assert found.config.grpo.adv_estimator.reward_weights == (1.0, 0.5, 0.25)
    assert not found.config.grpo.use_leave_one_out_baseline


@pytest.mark.parametrize("block", sorted(OTHER_ALGORITHMS))
def test_a_recipe_of_another_algorithm_is_refused_by_that_alone(folder: Path, block: str) -> None:
    blocks: dict[str, Any] = {"grpo": {"sed": 1}, block: {"max_num_epochs": 1}}
    with pytest.raises(ConfigError, match=f"`{block}` makes it a recipe of another algorithm") as raised:
        read(folder, **blocks)
    assert "sed" not in raised.value.message
