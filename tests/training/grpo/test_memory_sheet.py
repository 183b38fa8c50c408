"""The memory sheet against numbers of published models that are known otherwise."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from paddock.training.grpo.memory_sheet import (
    GIB,
    RESERVED,
    MemorySheet,
    ModelSizes,
    memory_sheet,
    model_sizes,
    sheet_lines,
)
from paddock.training.grpo.policy_config import PolicyConfig

SMALL = ModelSizes(1024, 28, 3072, 16, 8, 128, 151936, tied=True)
"""Qwen3-0.6B."""
LARGE = ModelSizes(2560, 36, 9728, 32, 8, 128, 151936, tied=True)
"""Qwen3-4B."""


def sheet(sizes: ModelSizes = LARGE, **policy: Any) -> MemorySheet:
    own = {"model_name": "m", "max_total_sequence_length": 8192, **policy}
    return memory_sheet(PolicyConfig.model_validate(own), sizes)


LORA = {"lora_cfg": {"enabled": True, "dim": 32}, "activation_checkpointing": True}


def with_lora(**policy: Any) -> MemorySheet:
    return sheet(dtensor_cfg=LORA, **policy)


@pytest.mark.parametrize(("sizes", "parameters"), [(SMALL, 596_049_920), (LARGE, 4_022_468_096)])
def test_parameters_are_those_of_the_published_weights(sizes: ModelSizes, parameters: int) -> None:
    assert sizes.parameters == parameters


def test_adapters_are_counted_layer_by_layer() -> None:
    one = ModelSizes(8, 1, 16, 2, 1, 4, 10, tied=True)
    found = memory_sheet(
        PolicyConfig.model_validate({"model_name": "m", "dtensor_cfg": {"lora_cfg": {"enabled": True}}}), one
    )
    weights = 8 * ((8 + 8) + (8 + 4) * 2 + (8 + 8) + (8 + 16) * 2 + (16 + 8))
    assert found.gradients == 4 * weights
    assert found.optimizer == 8 * weights
    assert found.weights == 2 * one.parameters


def test_an_optimizer_of_8_bits_needs_a_quarter() -> None:
    small = sheet(optimizer={"name": "bitsandbytes.optim.AdamW8bit"})
    assert 4 * small.optimizer == sheet().optimizer == 8 * LARGE.parameters


@pytest.mark.parametrize("key", ["sequence_packing", "dynamic_batching"])
def test_a_micro_batch_is_as_large_as_its_bound_in_tokens_or_the_longest_row(key: str) -> None:
    large, small = ({"enabled": True, "train_mb_tokens": tokens} for tokens in (20_000, 100))
    assert sheet(LARGE, **{key: large}).tokens == 20_000
    assert sheet(LARGE, **{key: small}).tokens == 8192
    assert sheet(train_micro_batch_size=3).tokens == 3 * 8192


def test_there_are_no_more_logits_than_tokens() -> None:
    assert sheet(logprob_chunk_size=1_000_000).logits == sheet(logprob_chunk_size=8192).logits
    assert sheet(logprob_chunk_size=64).logits == 12 * 64 * LARGE.vocabulary


def test_what_a_checkpoint_has_is_what_a_copy_of_it_takes() -> None:
    assert sheet().stored == 12 * LARGE.parameters
    assert "with checkpointing.is_async as much memory of the CPU" in sheet_lines(sheet(), None)[-1]


def test_a_reference_is_a_second_model_unless_adapters_are_trained() -> None:
    whole, lora = PolicyConfig(model_name="m"), PolicyConfig.model_validate({"model_name": "m", "dtensor_cfg": LORA})
    added = [
        memory_sheet(own, LARGE, has_reference=True).training - memory_sheet(own, LARGE).training
        for own in (whole, lora)
    ]
    assert added == [2 * LARGE.parameters, 0]


def test_a_cache_of_qwen3_has_144_kib_for_each_token() -> None:
    assert sheet().cache_per_token == 144 << 10


def test_adapters_of_4b_fit_where_all_weights_do_not() -> None:
    assert with_lora().longest(24 * GIB) > 8192
    assert sheet(dtensor_cfg={"activation_checkpointing": True}).longest(48 * GIB) == 0


def test_what_is_longest_fills_the_gpu() -> None:
    found = with_lora()
    gpu = 24 * GIB
    longest = found.longest(gpu)
    again = with_lora(max_total_sequence_length=longest)
    assert gpu - again.activations / longest <= again.training <= gpu
    assert found.training == RESERVED + sum(found[:6])


def test_checkpointing_keeps_one_layer_and_the_inputs_of_the_others() -> None:
    assert sheet().activations > 8 * sheet(dtensor_cfg={"activation_checkpointing": True}).activations


def test_lines_say_what_fits() -> None:
    lines = sheet_lines(with_lora(), 0.85)
    assert lines[1].startswith("24 GiB: fits")
    cache = with_lora().cache_tokens(24 * GIB, 0.85)
    assert f"a cache of {cache:,}" in lines[1]
    assert with_lora().cache_tokens(8 * GIB, 0.85) == 0


def test_sizes_come_from_the_config_and_a_mixture_has_none(tmp_path: Path) -> None:
    config = {"hidden_size": 2560, "num_hidden_layers": 36, "intermediate_size": 9728, "num_attention_heads": 32}
    config |= {"num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936}
    own = {**config, "tie_word_embeddings": True, "model_type": "qwen3"}
    (tmp_path / "config.json").write_bytes(orjson.dumps(own))
    assert model_sizes(tmp_path) == LARGE
    (tmp_path / "config.json").write_bytes(orjson.dumps({**own, "num_experts": 128}))
    assert model_sizes(tmp_path) is None
    assert model_sizes(tmp_path / "other") is None
