"""`python -m tests.training.grpo.measure_ranks FOLDER CHANGES`: a vLLM of two ranks on two nodes, in a line of JSON.

Runs as a driver of a Ray of two nodes, on the first; `test_cluster_ranks.py` says what it has to be. FOLDER: seen by
both, with a `model` in it. CHANGES: of `launch`, as JSON.
"""

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import httpx
import ray
import torch
from transformers import AutoModelForCausalLM

from paddock.config import load
from paddock.http.access import bearer
from paddock.server.vllm.weights.sender import vllm_sender
from paddock.server.vllm.weights.settings import WeightsSettings
from paddock.training.grpo.config import ClusterConfig
from paddock.training.grpo.placement import RoleNeed
from paddock.training.grpo.processes import RoleProcesses, open_processes
from paddock.training.grpo.remote import RemoteEngines, start_engines

PROMPTS = [list(range(20 + nth, 220 + nth)) for nth in range(4)]
TOKENS = 60
NOISE = 0.02
START_S = 1200.0
CALLS = 3
"""That are being answered when a rank is killed."""
LONG_TOKENS = 700
ANSWERS_S = 2.0
"""Seconds in which they have begun to be sampled, and in which none is at its end."""


def config(folder: Path, changes: Mapping[str, Any]) -> Any:
    launch = {"device": "cpu", "dtype": "float32", "enforce_eager": True, "kv_cache_gib": 1, "max_model_len": 1024}
    own = {"weight_transfer": "gloo", "folder": str(folder / "logs"), "start_timeout_s": START_S, **changes}
    # One attempt: what a lost rank does to a call shows.
    times = {"start_timeout_s": START_S, "health_timeout_s": 60, "attempts": 1}
    block = {"model": str(folder / "model"), "launch": {**launch, **own}, **times}
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

    def all_distances(self, answers: Sequence[Any]) -> list[float]:
        """Of the answers to all prompts, token by token."""
        return list(chain(*(self.distances(*pair) for pair in zip(PROMPTS, answers, strict=True))))


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


async def state_of(engines: RemoteEngines) -> Any:
    """What the model server says of its only replica."""
    async with httpx.AsyncClient(timeout=300, trust_env=False) as client:
        answer = await client.get(f"{engines.address.url}/replicas", headers=bearer(engines.address.token))
    (state,) = answer.json()["replicas"]
    return state


async def long_call(engines: RemoteEngines) -> Any:
    """A call of the model server: how it ended."""
    body = {"input": "Count.", "max_output_tokens": LONG_TOKENS, "temperature": 1.0}
    async with httpx.AsyncClient(timeout=600, trust_env=False) as client:
        url = f"{engines.address.url}/v1/responses"
        answer = await client.post(url, json=body, headers=bearer(engines.address.token))
    return [answer.status_code, answer.json().get("error")]


async def lose_a_rank(engines: RemoteEngines) -> dict[str, Any]:
    """Kill the second rank under calls: how these ended, and what the replica was when it was down; it runs again when
    this returns."""
    calls = [asyncio.create_task(long_call(engines)) for _ in range(CALLS)]
    await asyncio.sleep(ANSWERS_S)
    running = [not call.done() for call in calls]
    actors = ray.util.list_named_actors(all_namespaces=True)
    last = max((actor for actor in actors if actor["name"].startswith("vllm_Worker")), key=lambda actor: actor["name"])
    ray.kill(ray.get_actor(last["name"], namespace=last["namespace"]))
    while (down := await state_of(engines))["state"] == "ready":
        await asyncio.sleep(0.5)
    ended = await asyncio.gather(*calls)
    while (await state_of(engines))["state"] != "ready":
        await asyncio.sleep(0.5)
    return {"running": running, "calls": ended, "down": [down["state"], down["why"]]}


async def measure(processes: RoleProcesses, folder: Path, changes: Mapping[str, Any]) -> dict[str, Any]:
    needs = [RoleNeed("policy", 0), RoleNeed("engines", 1, stages=2), RoleNeed("rollouts", 0)]
    placement = await processes.place(needs)
    (place,) = placement.engines
    engines = await start_engines(processes, place, config(folder, changes), "policy_model")
    (replica,) = await engines.replicas()
    state = await state_of(engines)
    model = ScoringModel(folder / "model")
    answers = await sampled(state["url"])
    first = model.all_distances(answers)
    model.change()
    sender = vllm_sender(WeightsSettings(), transport="gloo", device=torch.device("cpu"), address=place.node.address)
    weights = dict(model.model.named_parameters())
    sent = await asyncio.to_thread(sender.send, 7, weights.items, [replica], clear_cache=True)
    stale = model.all_distances(answers)
    later = model.all_distances(await sampled(state["url"]))
    sender.close()
    lost = await lose_a_rank(engines)
    (restarted,) = await engines.replicas()
    again = ScoringModel(folder / "model").all_distances(await sampled((await state_of(engines))["url"]))
    return {
        "nodes": [node.name for node in place.ranks],
        "workers": state["world_size"],
        "sent": [sent.version, dict(sent.failed)],
        "first": first,
        "stale": stale,
        "later": later,
        "lost": lost,
        "starts": [replica.n_starts, restarted.n_starts],
        "again": again,
    }


def main() -> None:
    folder, changes = Path(sys.argv[1]), json.loads(sys.argv[2])
    os.environ["HF_HUB_OFFLINE"] = "1"
    torch.set_num_threads(1)
    with open_processes(folder / "roles", ClusterConfig(address="auto", wait_s=2)) as processes:

        async def run() -> dict[str, Any]:
            try:
                return await measure(processes, folder, changes)
            finally:
                await processes.end()

        found = asyncio.run(run())
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
