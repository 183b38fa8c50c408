"""The settings of a run: what can't be together is refused with what would be right."""

from typing import Any

import pytest
from pydantic import ValidationError

from paddock.server.vllm.launch_settings import LaunchSettings
from paddock.training.core.settings import GrpoSettings
from paddock.training.grpo.config import CheckpointConfig, TrainConfig
from paddock.training.grpo.placement import ClusterNode, needs_of, place
from paddock.training.grpo.policy_config import PolicyConfig
from paddock.training.grpo.policy_settings import PolicySettings
from paddock.training.grpo.preflight import missing_of, missing_packages

SMALL: dict[str, Any] = {
    "grpo": {"num_prompts_per_step": 4, "num_generations_per_prompt": 8},
    "policy": {"model_name": "model"},
    "data": {"train": {"data_path": "rows.jsonl"}},
}
COLOCATED: dict[str, Any] = {
    "policy__generation__colocated__enabled": True,
    "grpo__async_grpo__max_trajectory_age_steps": 0,
}


def config(**changes: Any) -> TrainConfig:
    """The small config with keys `block__key` changed."""
    tree: dict[str, Any] = {name: dict(block) for name, block in SMALL.items()}
    for path, value in changes.items():
        *above, last = path.split("__")
        node = tree
        for key in above:
            node = node.setdefault(key, {})
        node[last] = value
    return TrainConfig.model_validate(tree)


def test_policy_and_engine_take_turns_on_one_gpu() -> None:
    read = config(**COLOCATED, cluster__gpus_per_node=1)
    placed = place(needs_of(read, LaunchSettings()), [ClusterNode("node", gpus=1)])
    assert [role.gpus for role in placed.policy] == [0], "a role that takes none sees all"
    assert [role.gpus for role in placed.engines] == [1]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"optimizer": {"name": "bitsandbytes.optim.AdamW8bit"}}, "works on a GPU alone: set dtensor_cfg.cpu_offload"),
        ({"generation": {"colocated": {"enabled": True}}}, "the policy leaves the GPU between its turns"),
    ],
)
def test_offloading_is_refused_with_what_has_a_place_of_its_own(change: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        PolicyConfig.model_validate({"model_name": "m", "dtensor_cfg": {"cpu_offload": True}, **change})


def test_a_critics_optimizer_is_checked_as_the_policys_is() -> None:
    critic = {"enabled": True, "optimizer": {"name": "bitsandbytes.optim.AdamW8bit"}}
    with pytest.raises(ValidationError, match=r"value\.optimizer\.name .* knows no sharded"):
        config(value=critic, policy__torch_cfg__processes=2)
    added = set(missing_packages(config(value=critic))) - set(missing_packages(config()))
    assert added == set(missing_of(["bitsandbytes"]))


def test_what_nobody_says_is_derived() -> None:
    read = config()
    assert (read.rollouts_per_step, read.global_batch_size, read.optimizer_steps) == (32, 32, 1)
    assert read.groups_in_flight == 8
    assert not read.validates
    assert config(policy__train_global_batch_size=8).optimizer_steps == 4
    assert config(policy__train_global_batch_size=8, grpo__ppo_epochs=3).optimizer_steps == 12
    assert config(grpo__async_grpo={"enabled": False}).groups_in_flight == 4


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"policy__train_global_batch_size": 7}, "does not divide the 32 rollouts"),
        ({"policy__train_micro_batch_size": 5}, "train_micro_batch_size"),
        ({"policy__train_global_batch_size": 8, "loss_fn__force_on_policy_ratio": True}, "to 32, or leave it out"),
        ({"grpo__ppo_epochs": 2, "loss_fn__force_on_policy_ratio": True}, "grpo.ppo_epochs to 1"),
        ({"paddock__groups__min_members": 9}, "min_members"),
        ({"loss_fn__use_importance_sampling_correction": False}, "use_importance_sampling_correction"),
        ({"grpo__val_period": 5}, "data.validation.data_path"),
        ({"checkpointing__metric_name": "val:accuracy"}, "needs validations"),
        ({"checkpointing__metric_name": "accuracy"}, "train:total_reward/mean"),
        ({**COLOCATED, "grpo__async_grpo__max_trajectory_age_steps": 1}, "max_trajectory_age_steps to 0"),
        ({**COLOCATED, "policy__torch_cfg__processes": 2}, "set torch_cfg.processes to 1"),
        ({**COLOCATED, "cluster__gpus_per_node": 2}, "set cluster.gpus_per_node to 1"),
        ({"policy__generation__top_p": 0.9}, "val_top_p"),
        ({"policy__generation__max_new_tokens": 5000}, "max_total_sequence_length"),
        ({"policy__torch_cfg__processes": 2, "policy__dtensor_cfg__enabled": False}, "there is one"),
        ({"policy__scheduler": [{"name": "torch.optim.lr_scheduler.LinearLR"}, {"milestones": [5]}]}, "milestones"),
        ({"policy__optimizer__kwargs__lr2": 1}, "lr2"),
    ],
)
def test_what_can_not_be_is_refused_with_what_would_be_right(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        config(**changes)


def test_a_run_that_waits_for_its_rollouts_needs_no_correction() -> None:
    config(loss_fn__use_importance_sampling_correction=False, grpo__async_grpo={"max_trajectory_age_steps": 0})


def test_a_schedule_is_read_in_the_recipes_form_and_written_so() -> None:
    written = [
        {"name": "torch.optim.lr_scheduler.LinearLR", "kwargs": {"start_factor": 0.1, "total_iters": 5}},
        {"name": "torch.optim.lr_scheduler.ConstantLR", "kwargs": {"factor": 1.0}},
        {"milestones": [5]},
    ]
    assert config(policy__scheduler=written).policy.scheduler.entries == written
    assert config(policy__scheduler=None).policy.scheduler.entries == []


def test_metrics_are_named_as_they_are_logged() -> None:
    both = {"train:total_reward/mean": "train/total_reward/mean", "train/loss": "train/loss"}
    for name, metric in both.items():
        assert config(checkpointing__metric_name=name).checkpointing.metric == metric
    validated = CheckpointConfig(metric_name="val:total_reward/mean")
    assert validated.metric == "validation/accuracy"


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"val_period": 2}, [2, 4, 6, 8]),
        ({"val_period": 2, "val_start_at": 4}, [4, 6, 8]),
        ({"val_period": 3, "val_start_at": 4}, [6]),
        ({"val_period": 2, "val_start_at": 0}, [2, 4, 6, 8]),
        ({"val_period": 0, "val_start_at": 4}, []),
    ],
)
def test_validations_may_begin_later(keys: dict[str, Any], expected: list[int]) -> None:
    read = GrpoSettings.model_validate(keys)
    assert [step for step in range(1, 9) if read.validates_after(step)] == expected


@pytest.mark.parametrize(
    ("megatron", "needed"),
    [
        ({}, False),
        ({"model_overrides": {"qk_layernorm": True}}, False),
        ({"moe_router_load_balancing_type": "aux_loss", "moe_aux_loss_coeff": 0.01}, True),
        ({"moe_router_bias_update_rate": 0.001}, True),
        ({"model_overrides": {"moe_z_loss_coeff": 0.001}}, True),
    ],
)
def test_rows_without_an_advantage_are_computed_where_routers_learn_from_them(
    megatron: dict[str, Any], *, needed: bool
) -> None:
    own = config(policy__megatron_cfg={"enabled": True, **megatron})
    assert PolicySettings.of(own).needs_every_row == needed
