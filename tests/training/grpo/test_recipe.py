"""Keys of the published recipes: each is a setting, is read as one, says nothing here with a reason, or is refused."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from paddock.config import Note
from paddock.config.trees import KeyPath, split
from paddock.config.validation import valid_keys
from paddock.errors import ConfigError
from paddock.models_servers.vllm.config import VllmConfig
from paddock.training.grpo.config import TrainConfig
from paddock.training.grpo.read_config import RunConfig, read_config
from paddock.training.grpo.recipe import recipe_table

KEYS = Path(__file__).with_name("recipe_keys.txt")
SERVERS = {
    "pivot": {"resources_servers": {"pivot": {"comparator": "compat"}}},
    "agent": {"agents": {"single_step": {"resources_server": {"type": "resources_servers", "name": "pivot"}}}},
}
FREE_MAPPINGS = {"policy.generation.vllm.chat_template_kwargs", "policy.generation.vllm.launch.env"}
"""Settings that take any key."""
SAYS_NOTHING_WHATEVER_ITS_VALUE = {
    "grpo.debug_payload_metrics",
    "grpo.deduplicate_multimodal_data",
    "ppo.max_rollout_turns",
    "ppo.skip_reference_policy_logprobs_calculation",
    "ppo.batch_multiplier",
    "ppo.async_ppo.warmup_generation_lead_steps",
    "ppo.async_ppo.drop_incomplete_targets_on_restore",
    "grpo.max_rollout_turns",
    "grpo.calculate_advantages_on_gpu",
    "grpo.skip_reference_policy_logprobs_calculation",
    "grpo.batch_multiplier",
    "grpo.best_at_k_k",
    "grpo.best_at_k_m",
    "grpo.combined_training_weight_mode",
    "grpo.combined_training_best_at_k_weight",
    "grpo.combined_training_pass_at_1_weight",
    "on_policy_distillation.deduplicate_shared_teacher_checkpoints",
    "on_policy_distillation.non_colocated_teachers",
}
"""Of the blocks that make the loss, the mask, the advantages and the batch: each is read only where another key, which
is refused, is set; or moves a computation, and no result of it."""


def names() -> list[str]:
    out: list[str] = []
    block = ""
    for line in KEYS.read_text().splitlines():
        if line.startswith("#"):
            continue
        head, _, rest = line.rpartition(":")
        block = head or block
        out += [name if block == "." else f"{block}.{name}" for name in (rest if head else line).split()]
    return out


def is_setting(key: str) -> bool:
    path = split(key)
    return all(part in valid_keys(TrainConfig, path[:depth]) for depth, part in enumerate(path))


def has_entry(path: KeyPath) -> bool:
    """Whether the table says what becomes of the key. An entry of a block that is read as ours does as far as ours has
    the key; one of a block that may be disabled, or is a setting on the other backend, does not."""
    for end in range(len(path), 0, -1):
        rule = recipe_table().get(path[:end])
        below = path[end:]
        if rule is None or (below and (rule.backend is not None or (rule.disabled is not None and not rule.enabled))):
            continue
        return rule.to is None or not below or is_setting(".".join((rule.to, *below))) or rule.to in FREE_MAPPINGS
    return False


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(folder: Path, *overrides: str, strict: bool = False, **blocks: Any) -> RunConfig:
    """A recipe of ours with these blocks."""
    own: dict[str, Any] = {
        "policy": {"model_name": "/models/tiny"},
        "data": {"train": {"data_path": "rows.jsonl"}},
        "env": {"nemo_gym": {**SERVERS}},
    }
    for name, block in blocks.items():
        own[name] = {**own.get(name, {}), **block} if isinstance(block, dict) else block
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(own))
    return read_config(path, overrides, strict=strict)


def noted(found: RunConfig, key: str) -> Note:
    return next(note for note in found.notes if note.key == key)


def test_every_key_of_the_published_recipes_is_a_setting_or_has_an_entry() -> None:
    assert len(names()) > 800
    assert [key for key in names() if not is_setting(key) and not has_entry(split(key))] == []


def test_no_entry_is_about_a_setting() -> None:
    """It would hide what the setting does."""
    whole = [path for path, rule in recipe_table().items() if rule.disabled is None and rule.backend is None]
    assert [path for path in whole if is_setting(".".join(path))] == []


def test_nothing_that_changes_the_loss_the_mask_the_advantages_or_the_batch_is_inert() -> None:
    blocks = ("grpo", "ppo", "loss_fn", "value_loss_fn", "reward_penalties", "on_policy_distillation")
    inert = {".".join(path) for path, rule in recipe_table().items() if rule.inert is not None and rule.only is None}
    assert {key for key in inert if key.split(".")[0] in blocks} == SAYS_NOTHING_WHATEVER_ITS_VALUE


def test_what_is_moved_is_moved_to_a_setting() -> None:
    targets = {rule.to for rule in recipe_table().values() if rule.to is not None}
    shapes = {
        "policy.megatron_cfg.model_overrides",
        "policy.optimizer.kwargs.betas",
        "policy.scheduler",
        "policy.generation.vllm",
    }
    for target in sorted(targets):
        assert is_setting(target) or any(target.startswith(f"{shape}.") for shape in shapes), target


def test_an_inert_key_is_named_with_its_reason_and_refused_by_strict(folder: Path) -> None:
    found = read(folder, cluster={"segment_size": 4})
    assert str(noted(found, "cluster.segment_size")).endswith("ignored: nodes are taken as they come")
    assert noted(found, "cluster.segment_size").where.startswith("recipe.yaml:")
    with pytest.raises(ConfigError, match=r"cluster\.segment_size.*--strict refuses it"):
        read(folder, strict=True, cluster={"segment_size": 4})


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        ({"grpo": {"stop_at_validation_metric": "accuracy", "stop_at_validation_threshold": 0.5}}, "needs validations"),
        ({"grpo": {"use_best_at_k": True}}, "grpo_passk"),
        ({"on_policy_distillation": {"use_orm_advantage": True}}, "with_rewards"),
        ({"grpo": {"adv_estimator": {"name": "opd"}}}, "on_policy_distillation.enabled"),
        ({"grpo": {"reward_shaping": {"enabled": True, "max_response_length": 9}}}, "overlong_buffer_length"),
        ({"grpo": {"adv_estimator": {"name": "grpo", "reward_weights": [1.0]}}}, "for the estimator `gdpo`"),
        ({"grpo": {"adv_estimator": {"normalize_rewards": False}, "normalize_rewards": True}}, "keep one"),
        (
            {"loss_fn": {"use_kl_in_reward": True, "reference_policy_kl_penalty": 0.1}},
            "loss_fn.use_kl_in_reward: by grpo.adv_estimator.name grpo all tokens",
        ),
        ({"loss_fn": {"use_kl_in_reward": True}}, "set reference_policy_kl_penalty above 0"),
        ({"reward_penalties": {"penalize_unwanted_tokens": True}}, "token_ids.unwanted"),
        ({"on_policy_distillation": {"enabled": True}}, "which agent has which teacher"),
        ({"data": {"train": {"dataset_name": "OpenMathInstruct-2"}}}, "set data.train.data_path"),
        ({"env": {"nemo_gym": SERVERS, "should_mask_flagged_samples": False}}, "not trained on"),
        ({"ppo": {"adv_estimator": {"name": "raw_reward"}}}, "raw_reward is not done here; accepted: gae"),
        ({"ppo": {"num_prompts_per_step": 8}, "grpo": {"num_prompts_per_step": 9}}, "keep one"),
        ({"ppo": {"num_promts_per_step": 8}}, "unknown key `grpo.num_promts_per_step`"),
        ({"value": {"megatron_cfg": {"enabled": True}}}, "the critic runs on torch"),
        ({"value": {"dtensor_cfg": {"lora_cfg": {"enabled": True}}}}, "all weights of the critic are trained"),
        ({"policy": {"model_name": "m", "precision": "float32"}, "value": {"precision": "bfloat16"}}, "keep one"),
        ({"async_rl": {"sampler": {"name": "windowed", "max_staleness_versions": 1}}}, "paddock.groups.age_policy"),
        ({"async_rl": {"sampler": {"max_lookahed_versions": 1}}}, "max_lookahed_versions`: 1 is not done here"),
        ({"policy": {"model_name": "m", "quant_cfg": "NVFP4_DEFAULT_CFG"}}, "take policy.quant_cfg out"),
        ({"env": {"nemo_gym": {**SERVERS, "effort_levels": {"low": 1}}}}, "take env.nemo_gym.effort_levels out"),
        ({"policy": {"model_name": "m", "megatron_cfg": {"enabled": True, "mtp_num_layers": 5}}}, "further tokens"),
    ],
)
def test_what_would_have_to_be_done_and_is_not_is_refused(folder: Path, blocks: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read(folder, **blocks)


def test_a_disabled_block_says_nothing_as_a_whole(folder: Path) -> None:
    megatron = {"enabled": False, "optimizer": {"lr": 0.5}, "mtp_num_layers": 5, "whatever": 1}
    found = read(folder, policy={"megatron_cfg": megatron})
    assert found.config.policy.optimizer.kwargs.lr == 5e-6
    assert [note.key for note in found.notes if note.kind == "inert"] == ["policy.megatron_cfg"]


MEGATRON: dict[str, Any] = {
    "enabled": True,
    "tensor_model_parallel_size": 2,
    "moe_per_layer_logging": True,
    "optimizer": {"optimizer": "adam", "lr": 1e-5, "params_dtype": "float32", "clip_grad": "${policy.max_grad_norm}"},
    "scheduler": {"lr_warmup_iters": 10, "lr_warmup_init": 1e-6, "lr_decay_style": "constant"},
    "distributed_data_parallel_config": {"grad_reduce_in_fp32": True, "use_custom_fsdp": False},
}


def test_megatrons_block_is_settings_where_it_is_enabled(folder: Path) -> None:
    shared: dict[str, Any] = {"max_grad_norm": 0.5, "optimizer": None, "scheduler": None}
    shared |= {"dtensor_cfg": {"enabled": False}, "sequence_packing": {"enabled": True, "algorithm": "any"}}
    found = read(folder, policy={"megatron_cfg": MEGATRON, **shared})
    policy = found.config.policy
    config = policy.megatron_cfg
    assert (config.optimizer.lr, config.scheduler.lr_warmup_iters, config.optimizer.clip_grad) == (1e-5, 10, 0.5)
    assert config.distributed_data_parallel_config.grad_reduce_in_fp32
    assert (policy.n_processes, policy.sequence_packing.enabled) == (2, True)
    assert {note.key.removeprefix("policy.") for note in found.notes if note.kind == "inert"} == {
        "megatron_cfg.moe_per_layer_logging",
        "megatron_cfg.optimizer.params_dtype",
        "megatron_cfg.distributed_data_parallel_config.use_custom_fsdp",
        "optimizer",
        "scheduler",
        "dtensor_cfg",
        "sequence_packing.algorithm",
    }


@pytest.mark.parametrize("batching", ["sequence_packing", "dynamic_batching"])
def test_tokens_may_bound_a_micro_batch_on_torch_too(folder: Path, batching: str) -> None:
    found = read(folder, policy={batching: {"enabled": True, "train_mb_tokens": 64, "sequence_length_round": 64}})
    policy = found.config.policy
    assert [policy.micro_batch_tokens(learn=learn) for learn in (True, False)] == [64, 64]
    assert noted(found, f"policy.{batching}.sequence_length_round").kind == "inert"


def test_packing_and_padding_by_tokens_exclude_each_other(folder: Path) -> None:
    both = {name: {"enabled": True} for name in ("sequence_packing", "dynamic_batching")}
    with pytest.raises(ConfigError, match="enable one"):
        read(folder, policy=both)


def test_an_optimizer_of_torch_is_refused_beside_megatron(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"policy\.optimizer\.kwargs\.lr.*policy\.megatron_cfg\.optimizer"):
        read(folder, policy={"megatron_cfg": MEGATRON, "optimizer": {"kwargs": {"lr": 3e-5}}})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"processes": 3}, "no multiple of 2"),
        ({"expert_model_parallel_size": 2}, "sequence_parallel: set it to true"),
        ({"tensor_model_parallel_size": 1, "sequence_parallel": True}, "sequence_parallel needs"),
        ({"context_parallel_size": 2}, "sequence_packing.enabled: set it to true"),
        ({"expert_model_parallel_size": 4, "sequence_parallel": True, "processes": 4}, "no multiple of 8"),
        ({"optimizer": {"lr": 1e-7}}, "lr_warmup_init"),
        ({"optimizer": {"clip_grad": 0.3}}, "keep one"),
        ({"optimizer": {"sgd": 0.3}}, "unknown key `policy.megatron_cfg.optimizer.sgd`"),
        ({"tensor_parallel_size": 2}, "nearest: `policy.megatron_cfg.tensor_model_parallel_size`"),
        ({"model_overrides": {"moe_aux_loss_coeff": 0.1}}, "keys of their own say: moe_aux_loss_coeff"),
        ({"setup_hook": "no hook"}, "setup_hook"),
    ],
)
def test_a_layout_that_cannot_be_is_refused(folder: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read(folder, policy={"megatron_cfg": {**MEGATRON, **changes}, "max_grad_norm": 1.0})


def test_an_override_of_a_setting_wins_over_the_recipes_key(folder: Path) -> None:
    theirs = {"http_server_serving_chat_kwargs": {"tool_parser": "hermes"}}
    found = read(folder, "policy.generation.vllm.tool_parser=qwen3_coder", policy={"generation": {"vllm_cfg": theirs}})
    assert found.environment.block("policy_model")["tool_parser"] == "qwen3_coder"
    with pytest.raises(ConfigError, match="keep one"):
        read(folder, policy={"generation": {"vllm_cfg": theirs, "vllm": {"tool_parser": "qwen3_coder"}}})


def test_keys_of_the_engine_are_handed_to_it(folder: Path) -> None:
    theirs = {
        "tensor_parallel_size": 2,
        "pipeline_parallel_size": 3,
        "enable_prefix_caching": True,
        "gpu_memory_utilization": 0.8,
        "http_server_serving_chat_kwargs": {"tool_parser": "hermes", "default_chat_template_kwargs": {"a": 1}},
    }
    kwargs = {"moe_backend": "triton", "compilation_config": {"backend": "eager"}, "enforce": False, "nothing": None}
    vllm = {"launch": {"extra_args": ["--seed=1"]}}
    found = read(folder, policy={"generation": {"vllm_cfg": theirs, "vllm_kwargs": kwargs, "vllm": vllm}})
    block = found.environment.block("policy_model")
    assert (block["tool_parser"], block["chat_template_kwargs"]) == ("hermes", {"a": 1})
    assert (block["launch"]["gpus_per_replica"], block["launch"]["pipeline_parallel_size"]) == (6, 3)
    assert sorted(block["launch"]["extra_args"][:-1]) == [
        '--compilation-config={"backend": "eager"}',
        "--enable-prefix-caching",
        "--gpu-memory-utilization=0.8",
        "--moe-backend=triton",
        "--no-enforce",
    ]
    assert block["launch"]["extra_args"][-1] == "--seed=1"


TEMPLATE = "{%- for message in messages %}\n    {{- '<|im_start|>' + message.role + '\\n' }}\n{%- endfor %}\n"


def test_a_template_in_a_recipe_is_the_model_servers(folder: Path) -> None:
    generation: dict[str, Any] = {"vllm_cfg": {"http_server_serving_chat_kwargs": {"chat_template": TEMPLATE}}}
    found = read(folder, policy={"generation": generation})
    assert VllmConfig(**found.environment.block("policy_model")).template == TEMPLATE
    found = read(folder, "policy.generation.vllm.chat_template=thinking", policy={"generation": generation})
    assert found.environment.block("policy_model")["chat_template"] == "thinking"
    with pytest.raises(ConfigError, match="keep one"):
        read(folder, policy={"generation": {**generation, "vllm": {"chat_template": "thinking"}}})
    unsaid: dict[str, Any] = {"vllm_cfg": {"http_server_serving_chat_kwargs": {"chat_template": None}}}
    found = read(folder, policy={"generation": {**unsaid, "vllm": {"chat_template": "thinking"}}})
    assert found.environment.block("policy_model")["chat_template"] == "thinking"


def test_routers_are_frozen_where_a_recipe_says_so(folder: Path) -> None:
    megatron = {"enabled": True, "freeze_moe_router": True}
    assert read(folder, policy={"megatron_cfg": megatron}).config.policy.freeze_moe_router
    assert not read(folder, policy={"megatron_cfg": {**megatron, "enabled": False}}).config.policy.freeze_moe_router


def test_a_last_hour_is_told_in_seconds(folder: Path) -> None:
    found = read(folder, checkpointing={"checkpoint_must_save_by": "00:03:35:00"})
    assert found.config.checkpointing.must_save_by_s == 3 * 3600 + 35 * 60
