"""`python measure_packed_rows.py`: rows that share a sequence beside the same rows padded, by kinds of models, in a
line of JSON. It claims nothing.

Runs in the environment that has torch; `test_packed_rows.py` says what the numbers have to be.
"""

import json
import sys
from typing import Any

import torch
from tests.training.grpo.tiny_policy import LENGTHS, batch
from transformers import AutoConfig, AutoModelForCausalLM

from paddock.training.grpo.language_model import LanguageModel
from paddock.training.grpo.microbatches import RankShare, micro_batches
from paddock.training.grpo.policy_config import PolicyConfig
from paddock.training.grpo.policy_settings import SINGLE_RANK
from paddock.training.grpo.sharding import ShardGroup

WINDOW = 5
VOCABULARY = 100
KINDS: dict[str, dict[str, Any]] = {
    "qwen3": {},
    "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    "llama": {"attention_bias": True},
    "mistral": {"sliding_window": WINDOW},
    "gemma3_text": {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]},
    "gpt_neox": {},
    "deepseek_v3": {
        "q_lora_rank": 16,
        "kv_lora_rank": 16,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8,
        "v_head_dim": 8,
        "n_routed_experts": 4,
        "n_group": 1,
        "topk_group": 1,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "first_k_dense_replace": 1,
        "n_shared_experts": 1,
    },
    "mamba2": {"num_heads": 4, "head_dim": 16, "state_size": 8, "n_groups": 1, "expand": 2},
    "qwen3_next": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    "lfm2": {"layer_types": ["conv", "full_attention"]},
    "llama4_text": {"num_local_experts": 2, "attention_chunk_size": 8, "layer_types": ["chunked_attention"] * 2},
}
SIZE = {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64, "num_attention_heads": 4}
MORE = {"num_key_value_heads": 2, "head_dim": 8, "vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 1}


def model_of(kind: str) -> Any:
    torch.manual_seed(0)
    more = {**MORE, **({"num_key_value_heads": 4} if kind == "deepseek_v3" else {}), "eos_token_id": 2}
    config = AutoConfig.for_model(kind, **{**SIZE, **more, **KINDS[kind]})
    attention = "eager" if kind == "mamba2" else "sdpa"
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation=attention)
    for value in model.parameters():
        torch.nn.init.normal_(value, std=0.3)  # so that much hangs on attention
    return model.train()


def found_of(kind: str, *, packing: bool) -> tuple[LanguageModel, list[torch.Tensor]]:
    """The model, and its log-probs and entropies by row, and gradients."""
    policy = PolicyConfig.model_validate(
        {"model_name": kind, "precision": "float32", "sequence_packing": {"enabled": packing}}
    )
    own = LanguageModel(model_of(kind), policy, ShardGroup(SINGLE_RANK, torch.device("cpu")))
    rows = batch(lengths=LENGTHS).rows
    scores: dict[int, torch.Tensor] = {}
    share = RankShare(0, 1, torch.device("cpu"))
    for micro in micro_batches(rows, range(len(rows)), share, size=3, capacity=64 if packing else None, packed=packing):
        one = own.scores(micro, entropies=True)
        (one.log_probs.sum() + one.entropies.sum()).backward()
        scores |= micro.by_row(one.log_probs)
    gradients = [value.grad for value in own.model.parameters() if value.grad is not None]
    return own, [torch.cat([scores[nth] for nth in range(len(rows))]), *gradients]


def apart(one: list[torch.Tensor], other: list[torch.Tensor]) -> float:
    largest = max(float(value.abs().max()) for value in other)
    return max(float((a - b).abs().max()) for a, b in zip(one, other, strict=True)) / largest


def measured(kind: str) -> dict[str, Any]:
    model, packed = found_of(kind, packing=True)
    if not model.packed:
        return {"packed": False}
    _, padded = found_of(kind, packing=False)
    return {"packed": True, "scores": apart(packed[:1], padded[:1]), "gradients": apart(packed[1:], padded[1:])}


def main() -> None:
    torch.set_num_threads(1)
    sys.stdout.write(json.dumps({kind: measured(kind) for kind in KINDS}) + "\n")


if __name__ == "__main__":
    main()
