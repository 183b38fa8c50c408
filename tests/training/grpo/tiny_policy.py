"""Tiny random models, batches for it, and the settings of their policy. Runs in the environment that has torch."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from resource import RLIMIT_FSIZE, getrlimit, setrlimit
from typing import Any

import numpy as np
import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from transformers import Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

from paddock.server.vllm.weights.replicas import ReplicaInfo, SendResult, WeightsSource
from paddock.server.vllm.weights.sender import WeightSender
from paddock.server.vllm.weights.settings import WeightsSettings
from paddock.server.vllm.weights.transfer import TransferGroup, TransferTarget
from paddock.training.core.records import Batch, TrainRow, VersionSpan
from paddock.training.grpo.policy_settings import PolicySettings

VOCABULARY, PROMPT = 97, 4
LENGTHS = (9, 30, 14, 22, 6, 17)


def make_model(folder: Path, vocabulary: int = VOCABULARY) -> None:
    """With dropout in its config, and files of a tokenizer that nobody reads."""
    torch.manual_seed(0)
    size: dict[str, Any] = {"hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 128, "head_dim": 32}
    heads: dict[str, Any] = {"num_attention_heads": 4, "num_key_value_heads": 2, "attention_dropout": 0.3}
    config = Qwen3Config(
        **size,
        **heads,
        vocab_size=vocabulary,
        tie_word_embeddings=True,
        initializer_range=0.1,
        max_position_embeddings=256,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)
    (folder / "tokenizer.json").write_text("{}")
    (folder / "chat_template.jinja").write_text("{{ messages }}")


def make_experts(folder: Path, vocabulary: int = VOCABULARY) -> None:
    torch.manual_seed(0)
    size: dict[str, Any] = {"hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 128, "head_dim": 32}
    heads: dict[str, Any] = {"num_attention_heads": 4, "num_key_value_heads": 2}
    experts: dict[str, Any] = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    Qwen3MoeForCausalLM(Qwen3MoeConfig(**size, **heads, **experts, vocab_size=vocabulary)).save_pretrained(folder)


class RecordingSender(WeightSender):
    """What is to be sent stays here."""

    def __init__(self) -> None:
        super().__init__(_no_connection, WeightsSettings())
        self.weights: dict[str, torch.Tensor] = {}

    def send(
        self,
        version: int,
        source: WeightsSource,
        replicas: Sequence[ReplicaInfo],
        *,
        clear_cache: bool,
        leave: Callable[[], None] = lambda: None,
    ) -> SendResult:
        self.weights = {name: value.clone() for name, value in source()}
        leave()
        return SendResult(version, tuple(one.name for one in replicas), 0.0, 0.0, 0.0)


def _no_connection(engines: Sequence[TransferTarget]) -> TransferGroup:
    raise AssertionError(f"nothing connects with {engines}")


def settings(
    folder: Path, loss: Any = None, threshold: float | None = None, grpo: Any = None, **policy: Any
) -> PolicySettings:
    optimizer = {"kwargs": {"lr": 7e-4, "weight_decay": 0.0}}
    own = {"max_total_sequence_length": 64, "precision": "float32", "optimizer": optimizer, "max_grad_norm": 0.3}
    own["logprob_chunk_size"] = 10  # several for most micro-batches
    place = {"device": "cpu", "threads": 1}
    return PolicySettings.model_validate(
        {
            "policy": {"model_name": str(folder), "torch_cfg": place, **own, **policy},
            "loss": loss or {},
            "grpo": {"seq_logprob_error_threshold": threshold, **(grpo or {})},
        }
    )


@contextmanager
def full_disk() -> Iterator[None]:
    """No file of this process grows beyond 4 KiB."""
    limits = getrlimit(RLIMIT_FSIZE)
    setrlimit(RLIMIT_FSIZE, (4096, limits[1]))
    try:
        yield
    finally:
        setrlimit(RLIMIT_FSIZE, limits)


def stored_tensors(state: Path) -> dict[str, torch.Tensor]:
    """All tensors of a policy's state, whole, however many processes wrote it."""
    whole = state / "whole.pt"
    dcp_to_torch_save(state / "shards", whole)
    tensors: dict[str, torch.Tensor] = torch.load(whole, weights_only=True)
    return tensors


def stored_weights(state: Path) -> dict[str, torch.Tensor]:
    tensors = stored_tensors(state)
    return {name.removeprefix("weights."): value for name, value in tensors.items() if name.startswith("weights.")}


def batch(step: int = 0, lengths: tuple[int, ...] = LENGTHS) -> Batch:
    """Other rows in each step; some tokens between trained ones are not trained on."""
    chance = random.Random(step)
    return Batch(step, [row(chance, length, nth) for nth, length in enumerate(lengths)], [], [], [])


def row(chance: random.Random, length: int, nth: int, vocabulary: int = VOCABULARY) -> TrainRow:
    mask = np.array([False] * PROMPT + [chance.random() < 0.7 for _ in range(length - PROMPT)])
    mask[-1] = True
    ids = np.array([chance.randrange(vocabulary) for _ in range(length)], np.int32)
    log_probs = np.array([chance.uniform(-6, -3) * on for on in mask], np.float32)
    advantages = np.float32(chance.choice([-1.0, 0.5, 1.5])) * mask
    spans = (VersionSpan(PROMPT, length, 0),)
    return TrainRow(nth, 0, 0, ids, mask, log_probs, advantages, 1.0, 0, 0, spans)
