"""`python transfer_ranks.py MODEL RANK`: a vLLM of two workers, of which that one alone can't load a tensor, as JSON:
what the update ended in, what became of a request that was sent after it, and how long both took. With `broken` for the
rank the trainer ends an update in the middle: what workers answer after it, and what the next one comes to.

Runs in the environment that has vLLM, which lets functions be sent to workers (`VLLM_ALLOW_INSECURE_SERIALIZATION`).
"""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from vllm import LLM, SamplingParams
from vllm.config import WeightTransferConfig

from paddock.server.vllm.weights.engine_group import EngineGroup
from paddock.server.vllm.weights.settings import WeightsSettings
from paddock.server.vllm.weights.transfer import TransferTarget

N_WORKERS, TIMEOUT_S = 2, 60.0
NAME = "model.layers.1.post_attention_layernorm.weight"
PROMPT = list(range(20, 80))


class VllmHere:
    """The calls of an update (`UpdateClient`), to a vLLM that this process started."""

    def __init__(self, llm: LLM) -> None:
        self._llm = llm

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        self._llm.init_weight_transfer_engine({"init_info": init_info})

    def start_weight_update(self) -> None:
        self._llm.start_weight_update()

    def update_weights(self, update_info: dict[str, Any]) -> None:
        self._llm.update_weights({"update_info": update_info})

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        self._llm.finish_weight_update(weight_version)


def sample(llm: LLM) -> str:
    params = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
    try:
        (answer,) = llm.generate([{"prompt_token_ids": PROMPT}], params, use_tqdm=False)
    except Exception as error:
        return type(error).__name__
    return f"{len(answer.outputs[0].token_ids)} tokens"


def send(llm: LLM, model: Any) -> dict[str, Any]:
    engine = TransferTarget("vllm", VllmHere(llm), N_WORKERS)
    group = EngineGroup.connect([engine], WeightsSettings(timeout_s=TIMEOUT_S), address="127.0.0.1")
    failed = {name: type(error).__name__ for name, error in group.send(model.named_parameters(), "new").items()}
    group.close()
    return failed


def break_off(llm: LLM, model: Any) -> list[int]:
    """End an update after some tensors; what a call of all workers gives then."""

    def some() -> Iterator[tuple[str, torch.Tensor]]:
        yield from islice(model.named_parameters(), 9)
        raise OSError("the disk of the trainer")

    group = EngineGroup.connect(
        [TransferTarget("vllm", VllmHere(llm), N_WORKERS)],
        WeightsSettings(timeout_s=TIMEOUT_S, bucket_bytes=1 << 14),
        address="127.0.0.1",
    )
    with suppress(OSError):
        group.send(some(), "half")
    ranks: list[int] = llm.collective_rpc(rank_of)
    return ranks


def rank_of(worker: Any) -> int:
    rank: int = worker.rank
    return rank


def refuse(worker: Any, rank: int) -> None:
    """Have the model of the worker of that rank refuse a tensor."""
    model = worker.weight_transfer_engine.model
    load = model.load_weights

    def checked(weights: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
        for name, value in weights:
            if name == NAME:
                raise ValueError(f"no room for {name}")
            yield name, value

    if worker.rank == rank:
        model.load_weights = lambda weights: load(checked(weights))


def main() -> None:
    torch.set_num_threads(1)
    folder, rank = Path(sys.argv[1]), None if sys.argv[2] == "broken" else int(sys.argv[2])
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    limits = {"max_model_len": 256, "max_num_seqs": 4, "kv_cache_memory_bytes": 64 << 20, "enforce_eager": True}
    ranks = {"tensor_parallel_size": N_WORKERS, "distributed_executor_backend": "mp"}
    transfer = WeightTransferConfig(backend="gloo")
    llm = LLM(str(folder), dtype="float32", weight_transfer_config=transfer, **ranks, **limits)
    found: dict[str, Any] = {"first": [send(llm, model), sample(llm)]}
    if rank is None:
        found |= {"ranks": break_off(llm, model), "half": sample(llm), "again": [send(llm, model), sample(llm)]}
        sys.stdout.write(json.dumps(found) + "\n")
        return
    llm.collective_rpc(refuse, args=(rank,))
    began = time.monotonic()
    found |= {"failed": send(llm, model), "later": sample(llm), "took_s": time.monotonic() - began}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
