"""Where a recipe is from: what it says of its deviations has to hold, and a plan tells it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from paddock.cli import main
from paddock.errors import ConfigError
from paddock.training.grpo.read_config import RunConfig, read_config
from paddock.training.grpo.recipe import recipe_table
from paddock.training.grpo.recipe_source import unread_table

SERVERS = {
    "pivot": {"resources_servers": {"pivot": {"comparator": "compat"}}},
    "agent": {
        "agents": {
            "single_step": {
                "resources_server": {"type": "resources_servers", "name": "pivot"},
                "model_server": {"type": "models_servers", "name": "policy_model"},
            }
        }
    },
}


def read(folder: Path, deviations: Any, **blocks: Any) -> RunConfig:
    return read_config(written(folder, deviations, **blocks))


def written(folder: Path, deviations: Any, **blocks: Any) -> Path:
    tree = {
        "policy": {"model_name": "/models/tiny"},
        "data": {"train": {"data_path": "rows.jsonl"}},
        "env": {"nemo_gym": SERVERS},
        "paddock": {"recipe": {"source": "a guide, its table 3", "deviations": deviations}},
        **blocks,
    }
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path


def test_deviations_are_told_with_both_values_and_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deviations = {
        "grpo.seed": {"source": 1, "reason": "ours is luckier"},
        "env.nemo_gym.effort_levels": {"source": {"low_weight": 0.0}, "reason": "not done"},
    }
    path = written(tmp_path, deviations, grpo={"seed": 7}, cluster={"num_nodes": 2})
    assert main(["train", str(path), "--dry-run"]) == 0
    plan = capsys.readouterr().out
    assert "deviations from a guide, its table 3 (2):" in plan
    assert "  grpo.seed: 7, there 1: ours is luckier" in plan
    assert "  env.nemo_gym.effort_levels: not given here, there low_weight 0.0: not done" in plan


def test_a_recipe_that_is_its_source_says_so(tmp_path: Path) -> None:
    assert read(tmp_path, {}).deviations == ["deviations from a guide, its table 3: none"]
    assert read(tmp_path, {"grpo.seed": None}).deviations == ["deviations from a guide, its table 3: none"]
    assert read(tmp_path, {}, paddock={}).deviations == []


@pytest.mark.parametrize(
    ("deviations", "said"),
    [
        ({"grpo.seed": {"source": 7, "reason": "x"}}, "`grpo.seed`: the value is the source's, 7"),
        ({"grop.seed": {"source": 1, "reason": "x"}}, "recipes have no block `grop`"),
        ({"grpo.val_period": {"source": None, "reason": "x"}}, "given neither here nor in the source"),
        ({"grpo.seed": {"source": 1, "reason": ""}}, "reason"),
        ({"grpo.seed": {"source": 1}}, "reason"),
    ],
)
def test_a_deviation_that_is_none_or_says_nothing_is_refused(tmp_path: Path, deviations: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read(tmp_path, deviations, grpo={"seed": 7})


def test_keys_that_their_own_trainer_does_not_read_are_told(tmp_path: Path) -> None:
    megatron = {"enabled": True, "moe_aux_loss_coeff": 0.0, "moe_router_enable_expert_bias": True}
    policy = {"model_name": "/models/tiny", "megatron_cfg": megatron}
    found = read(tmp_path, {}, policy=policy, grpo={"penalize_invalid_tool_call": True})
    assert {one.key for one in found.unread_keys} == {
        "grpo.penalize_invalid_tool_call",
        "policy.megatron_cfg.moe_aux_loss_coeff",
        "policy.megatron_cfg.moe_router_enable_expert_bias",
    }
    off = read(tmp_path, {}, policy={**policy, "megatron_cfg": {**megatron, "enabled": False}})
    assert off.unread_keys == []


def test_each_unread_key_of_a_trainers_is_a_known_one() -> None:
    """Else the entry would be about no recipe."""
    settings: set[tuple[str, ...]] = {("grpo", "penalize_invalid_tool_call"), ("grpo", "penalize_malformed_thinking")}
    settings |= {("grpo", "invalid_tool_call_strategy"), ("policy", "megatron_cfg", "moe_aux_loss_coeff")}
    theirs = {path for path in unread_table() if path[0] != "env"}
    assert theirs - settings <= recipe_table().keys()
