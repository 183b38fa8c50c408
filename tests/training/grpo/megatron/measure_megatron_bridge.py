"""`python measure_megatron_bridge.py FOLDER PORT RANK`: one of two processes that import tiny checkpoints through
Megatron-Bridge in several layouts, compute log-probs and export; rank 0 writes a line of JSON.

Runs in the environment of `scripts/setup_megatron_bridge.sh`; `test_megatron_bridge.py` says what has to come of it.
Two processes in each layout: what is left of them is data parallel, and both compute the same rows.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.pipeline_parallel import get_forward_backward_func
from safetensors.torch import load_file
from tests.training.grpo.megatron import without_transformer_engine
from transformers import AutoModelForCausalLM, Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

from paddock.errors import ConfigError
from paddock.training.grpo.megatron.layout import ParallelLayout

N_PROCESSES, ROWS, TOKENS, VOCABULARY = 2, 3, 40, 96
DENSE, EXPERTS = "dense", "experts"
LAYOUTS = {
    "TP1": (DENSE, ParallelLayout()),
    "TP2": (DENSE, ParallelLayout(tensor_model_parallel_size=2)),
    "PP2": (DENSE, ParallelLayout(pipeline_model_parallel_size=2)),
    "MoE": (EXPERTS, ParallelLayout()),
    "MoE EP2": (EXPERTS, ParallelLayout(expert_model_parallel_size=2)),
    "MoE PP2": (EXPERTS, ParallelLayout(pipeline_model_parallel_size=2)),
    "MoE TP2 EP2 ETP1": (
        EXPERTS,
        ParallelLayout(
            tensor_model_parallel_size=2,
            expert_model_parallel_size=2,
            expert_tensor_parallel_size=1,
            sequence_parallel=True,
        ),
    ),
}
"""Name -> model and layout."""
REFUSED = {
    "heads": ParallelLayout(tensor_model_parallel_size=3),
    "unknown": ParallelLayout(more={"moe_router_dtypo": "fp32"}),
}


def make(folder: Path) -> None:
    """One of each kind; weights of the size of a trained model's, so that a wrong order of them shows."""
    size: dict[str, Any] = {"hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 128, "head_dim": 32}
    heads: dict[str, Any] = {"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": VOCABULARY}
    experts: dict[str, Any] = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    torch.manual_seed(0)
    dense = Qwen3Config(**size, **heads, tie_word_embeddings=True, initializer_range=0.1)
    Qwen3ForCausalLM(dense).save_pretrained(folder / DENSE)
    sparse = Qwen3MoeConfig(**size, **heads, **experts, norm_topk_prob=True, initializer_range=0.1)
    Qwen3MoeForCausalLM(sparse).save_pretrained(folder / EXPERTS)


def ids() -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randint(0, VOCABULARY, (ROWS, TOKENS))


def by_hugging_face(folder: Path) -> torch.Tensor:
    """[rows, tokens - 1]."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        found: torch.Tensor = model(ids()).logits[:, :-1].log_softmax(-1).gather(-1, ids()[:, 1:, None])[..., 0]
    return found


def by_megatron(models: list[Any]) -> torch.Tensor | None:
    """The same; None where the last stage is another process's."""
    given = ids()

    def step(batch: Iterator[torch.Tensor], model: Any) -> Any:
        tokens = next(batch)
        positions = torch.arange(TOKENS)[None].expand(ROWS, -1)
        masked = torch.ones(1, 1, TOKENS, TOKENS, dtype=torch.bool).triu(1)
        out = model(tokens, positions, masked, labels=tokens.roll(-1, dims=1))
        return out, lambda losses: (losses.sum(), {"log_probs": -losses[:, :-1]})

    with torch.no_grad():
        told = get_forward_backward_func()(
            forward_step_func=step,
            data_iterator=iter([given]),
            model=models,
            num_microbatches=1,
            seq_length=TOKENS,
            micro_batch_size=ROWS,
            forward_only=True,
        )
    return told[0]["log_probs"] if told else None


@contextmanager
def spread(layout: ParallelLayout) -> Iterator[None]:
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=layout.tensor_model_parallel_size,
        pipeline_model_parallel_size=layout.pipeline_model_parallel_size,
        expert_model_parallel_size=layout.expert_model_parallel_size,
        expert_tensor_parallel_size=layout.expert_tensor_parallel_size,
    )
    try:
        yield
    finally:
        parallel_state.destroy_model_parallel()


def measured(folder: Path, layout: ParallelLayout) -> dict[str, Any]:
    from paddock.training.grpo.megatron.megatron_bridge import MegatronBridge

    with spread(layout):
        conversion = MegatronBridge(folder, layout)
        models = conversion.models()
        conversion.load(models)
        own = by_megatron(models)
        apart = None if own is None else float((own - by_hugging_face(folder)).abs().max())
        exported = {name: value.clone() for name, value in conversion.export(models)}
        config = models[0].config
    every: list[Any] = [None] * N_PROCESSES
    dist.all_gather_object(every, apart)
    kept = load_file(folder / "model.safetensors")
    return {
        "apart": [one for one in every if one is not None],
        "names": sorted(exported) == sorted(kept),
        "equal": all(torch.equal(exported[name], value) for name, value in kept.items() if name in exported),
        "exported": len(exported),
        "balancing": [config.moe_router_load_balancing_type, config.moe_aux_loss_coeff],
    }


def refused(folder: Path, layout: ParallelLayout) -> str:
    from paddock.training.grpo.megatron.megatron_bridge import MegatronBridge

    try:
        MegatronBridge(folder, layout)
    except ConfigError as error:
        return str(error)
    return ""


def main(folder: Path, port: int, rank: int) -> None:
    torch.set_num_threads(1)
    without_transformer_engine.prepare()
    store = dist.TCPStore("127.0.0.1", port, N_PROCESSES, is_master=rank == 0)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=N_PROCESSES)
    if rank == 0:
        make(folder)
    dist.barrier()
    found: dict[str, Any] = {name: measured(folder / model, layout) for name, (model, layout) in LAYOUTS.items()}
    found["refused"] = {name: refused(folder / DENSE, layout) for name, layout in REFUSED.items()}
    found["refused"]["folder"] = refused(folder / "nowhere", ParallelLayout())
    (folder / "other").mkdir(exist_ok=True)
    (folder / "other" / "config.json").write_text('{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}')
    found["refused"]["architecture"] = refused(folder / "other", ParallelLayout())
    if rank == 0:
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
