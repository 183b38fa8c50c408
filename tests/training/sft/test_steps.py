"""Claims about which samples each step of a fine-tuning run has, and about its settings."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.support.pages import ROOT, blocks

from paddock.errors import ConfigError
from paddock.training.sft.loop import SftSteps
from paddock.training.sft.read_config import read_sft_config


@given(st.integers(1, 60), st.integers(1, 20), st.integers(), st.booleans())
def test_an_epoch_has_each_sample_once_in_steps_of_like_size(
    n_samples: int, batch_size: int, seed: int, shuffle: bool
) -> None:
    steps = SftSteps(n_samples, batch_size, seed, shuffle)
    first, second = (
        [steps.samples(epoch * steps.per_epoch + nth) for nth in range(steps.per_epoch)] for epoch in (0, 1)
    )
    for epoch in (first, second):
        assert sorted(at for step in epoch for at in step) == list(range(n_samples))
        assert max(map(len, epoch)) - min(map(len, epoch)) <= 1
    assert abs(steps.per_epoch - n_samples / batch_size) <= 0.5 or steps.per_epoch == 1
    if not shuffle:
        assert first == second


def test_each_epoch_has_an_order_of_its_own() -> None:
    steps = SftSteps(40, 40, seed=0, shuffle=True)
    assert steps.samples(0) != steps.samples(1)


@pytest.fixture
def config(tmp_path: Path) -> Any:
    file = tmp_path / "warm.yaml"

    def write(**blocks: Any) -> Path:
        tree = {"policy": {"model_name": "model"}, "data": {"rollouts": ["runs/a"]}, **blocks}
        file.write_text(yaml.safe_dump(tree))
        return file

    return write


def test_the_policy_block_of_a_recipe_is_taken_as_it_is(config: Any) -> None:
    policy = {
        "model_name": "model",
        "generation": {"temperature": 0.6, "vllm_cfg": {"async_engine": True}},
        "logprob_batch_size": 4,
    }
    read = read_sft_config([config(policy=policy)], ["policy.train_global_batch_size=8"])
    assert {note.key for note in read.notes if note.kind == "inert"} >= {"policy.logprob_batch_size"}
    assert read.config.batch_size == 8
    settings = read.config.policy_settings
    assert settings.policy.generation.temperature == 1.0, "the loss is the model's own"
    assert settings.optimizer_steps(1000) == 1
    with pytest.raises(ConfigError, match=r"policy\.logprob_batch_size.*--strict"):
        read_sft_config([config(policy=policy)], strict=True)


@pytest.mark.parametrize(
    ("override", "text"),
    [
        ("sft.max_num_epoch=2", "unknown key `sft.max_num_epoch`.*max_num_epochs"),
        ("data.choose.outcomes=[leak]", "data.choose.outcomes"),
        ("checkpointing.metric_name=val:accuracy", "val:val_loss, train:loss, null"),
        ("data.held_out_share=1", "data.held_out_share"),
        ("data.rollouts=[]", "data.rollouts"),
    ],
)
def test_a_mistake_is_named(config: Any, override: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        read_sft_config([config()], [override])


def test_the_configs_of_the_page_are_read(tmp_path: Path) -> None:
    found = [block for block in blocks((ROOT / "docs" / "warm_start.md").read_text()) if block.title == "warm.yaml"]
    assert found
    for block in found:
        (tmp_path / block.title).write_text(block.text)
        assert read_sft_config([tmp_path / block.title], strict=True).config.data.choose.max_per_row == 4


def test_the_held_out_loss_can_only_be_asked_for_where_rows_are_held_out(config: Any) -> None:
    with pytest.raises(ConfigError, match=r"data\.held_out_share"):
        read_sft_config([config()], ["data.held_out_share=0", "checkpointing.metric_name=val:val_loss"])
    assert read_sft_config([config()], ["data.held_out_share=0"]).config.data.held_out_share == 0
