"""`python -m tests.training.grpo.measure_ranks FOLDER`: a vLLM of two stages on two nodes, in a line of JSON.

Runs as a driver of a Ray of two nodes, on the first; `test_cluster_ranks.py` says what it has to be. FOLDER: seen by
both, with a `model` in it.
"""

import asyncio
import json
import os
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import httpx
import torch
from transformers import AutoModelForCausalLM

from paddock.config import load
from paddock.http.access import bearer
from paddock.training.grpo.config import ClusterConfig
from paddock.training.grpo.placement import RoleNeed
from paddock.training.grpo.processes import RoleProcesses, open_processes
from paddock.training.grpo.remote import start_engines
from paddock.training.grpo.weight_sender import vllm_sender

PROMPTS = [list(range(20 + nth, 220 + nth)) for nth in range(4)]
TOKENS = 60
NOISE = 0.02
START_S = 1200.0


def config(folder: Path) -> Any:
    launch = {"device": "cpu", "dtype": "float32", "enforce_eager": True, "kv_cache_gib": 1, "max_model_len": 1024}
    own = {
        "weight_transfer": "gloo",
        "folder": str(folder / "logs"),
        "start_timeout_s": START_S,
        "pipeline_parallel_size": 2,
    }
    block = {"model": str(folder / "model"), "launch": {**launch, **own}, "start_timeout_s": START_S}
    return load([], [], extra={"policy_model": {"models_servers": {"vllm": block}}})


class ScoringModel:
    """The same model in one process, by transformers."""

    def __init__(self, folder: Path) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def change(self) -> None:
        """Other weights, in every tensor."""
        chance = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for value in self.model.parameters():
                value.add_(NOISE * torch.randn(value.shape, generator=chance))

    def distances(self, prompt: list[int], answer: Any) -> list[float]:
        ids = answer["ids"]
        with torch.no_grad():
            logits = self.model(torch.tensor([prompt + ids])).logits[0]
        found = logits.log_softmax(-1)[len(prompt) - 1 : -1][torch.arange(len(ids)), torch.tensor(ids)]
        apart: list[float] = (found - torch.tensor(answer["log_probs"])).abs().tolist()
        return apart


async def sampled(url: str) -> list[Any]:
    """Answers of the vLLM itself."""
    params = {"max_tokens": TOKENS, "temperature": 1.0, "ignore_eos": True, "logprobs": 0}
    async with httpx.AsyncClient(timeout=300, trust_env=False) as client:
        asked = [{"token_ids": prompt, "sampling_params": params} for prompt in PROMPTS]
        answers = await asyncio.gather(*(client.post(f"{url}/inference/v1/generate", json=body) for body in asked))
    choices = [answer.raise_for_status().json()["choices"][0] for answer in answers]
    return [
        {"ids": one["token_ids"], "log_probs": [token["logprob"] for token in one["logprobs"]["content"]]}
        for one in choices
    ]


async def measure(processes: RoleProcesses, folder: Path) -> dict[str, Any]:
    needs = [RoleNeed("policy", 0), RoleNeed("engines", 1, stages=2), RoleNeed("rollouts", 0)]
    placement = await processes.place(needs)
    (place,) = placement.engines
    engines = await start_engines(processes, place, config(folder), "policy_model")
    (replica,) = await engines.replicas()
    async with httpx.AsyncClient(timeout=300, trust_env=False) as client:
        answer = await client.get(f"{engines.address.url}/replicas", headers=bearer(engines.address.token))
    (state,) = answer.json()["replicas"]
    model = ScoringModel(folder / "model")
    answers = await sampled(state["url"])
    first = [model.distances(*pair) for pair in zip(PROMPTS, answers, strict=True)]
    model.change()
    sender = vllm_sender(backend="gloo", device=torch.device("cpu"), address=place.node.address)
    weights = dict(model.model.named_parameters())
    sent = await asyncio.to_thread(sender.send, 7, weights, [replica], clear_cache=True)
    stale = [model.distances(*pair) for pair in zip(PROMPTS, answers, strict=True)]
    later = [model.distances(*pair) for pair in zip(PROMPTS, await sampled(state["url"]), strict=True)]
    sender.close()
    return {
        "nodes": [node.name for node in place.ranks],
        "workers": state["world_size"],
        "sent": [sent.version, dict(sent.failed)],
        "first": list(chain(*first)),
        "stale": list(chain(*stale)),
        "later": list(chain(*later)),
    }


def main() -> None:
    folder = Path(sys.argv[1])
    os.environ["HF_HUB_OFFLINE"] = "1"
    torch.set_num_threads(1)
    with open_processes(folder / "roles", ClusterConfig(address="auto", wait_s=2)) as processes:

        async def run() -> dict[str, Any]:
            try:
                return await measure(processes, folder)
            finally:
                await processes.end()

        found = asyncio.run(run())
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
