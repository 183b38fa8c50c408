"""`python train_in_flight.py MODEL URL < commands`: a trainer that sends weights to a running vLLM, and scores answers.

Runs in the environment that has vLLM, and uses its public interface alone. A command is a line of JSON, so is each
reply; the first line says on which addresses it listens.
`send`     a version; `seed`: weights that belong to it; `query`: of `/pause`; `die`: the process dies in the middle of
           it: when some of it is `sent`, or when all of it is `loaded` and nothing is finished.
`version`  what another trainer sent, with its `seed`.
`score`    answers as ids, `prompt` tokens, log-probs and spans; the reply has the distance of each log-prob from a
           float32 forward of transformers under the weights of its span.
"""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import psutil
import requests
import torch
from transformers import AutoModelForCausalLM
from vllm.distributed.weight_transfer import HTTPVLLMWeightSyncClient, ModuleSource, WeightTransferTrainerFactory
from vllm.distributed.weight_transfer.base import TrainerInitInfo
from vllm.plugins import load_general_plugins

NOISE = 0.02
SENT = 2
"""Tensors that are sent before a trainer dies: those of one layer of vLLM are not complete then."""


@dataclass
class InFlightInit(TrainerInitInfo):  # type: ignore[misc]
    """As a trainer that knows nothing of the plugin's classes writes it."""

    backend: ClassVar[str] = "gloo"
    master_address: str
    master_port: int
    world_size: int


class InFlightWeights(ModuleSource):  # type: ignore[misc]
    die = ""

    def __iter__(self) -> Iterator[tuple[str, torch.Tensor]]:
        for nth, pair in enumerate(super().__iter__()):
            if self.die == "sent" and nth == SENT:
                os._exit(9)
            yield pair


class Client(HTTPVLLMWeightSyncClient):  # type: ignore[misc]
    die = ""

    def update_weights(self, update_info: Any) -> None:
        super().update_weights(update_info)
        if self.die == "loaded":
            os._exit(9)


class InFlightTrainer:
    def __init__(self, folder: str, url: str) -> None:
        self.url = url
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self._first = {name: value.clone() for name, value in self.model.state_dict().items()}
        self._seeds: dict[str, int | None] = {}
        self._client, self._source = Client(url), InFlightWeights(self.model)
        load_general_plugins()
        self.engine = WeightTransferTrainerFactory.trainer_init(
            InFlightInit("127.0.0.1", 0, 2, rank=0), client=self._client, source=self._source
        )

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        if "send" in command:
            self._client.die = self._source.die = command.get("die", "")
            self.send(command["send"], command["seed"], command["query"])
            return {"version": requests.get(f"{self.url}/weight_info", timeout=60).json()["weight_version"]}
        if "version" in command:
            self._seeds[command["version"]] = command["seed"]
            return {}
        return {"distances": [self.score(one) for one in command["score"]]}

    def send(self, version: str, seed: int | None, query: dict[str, str]) -> None:
        self._seeds[version] = seed
        self._load(seed)
        requests.post(f"{self.url}/pause", params=query, timeout=60).raise_for_status()
        try:
            self.engine.send_weights(weight_version=version)
        finally:
            requests.post(f"{self.url}/resume", timeout=60).raise_for_status()

    def score(self, answer: dict[str, Any]) -> list[float]:
        distances: list[float] = []
        ids, prompt = answer["ids"], answer["prompt"]
        for version, start, end in answer["spans"]:
            self._load(self._seeds[version])
            with torch.no_grad():
                logits = self.model(torch.tensor([ids[: prompt + end]])).logits[0]
            found = logits.log_softmax(-1)[prompt + start - 1 : prompt + end - 1]
            wanted = torch.tensor(ids[prompt + start : prompt + end])
            told = torch.tensor(answer["log_probs"][start:end])
            distances += (found[torch.arange(len(wanted)), wanted] - told).abs().tolist()
        return distances

    def _load(self, seed: int | None) -> None:
        """The first weights, and of a seed noise on them."""
        chance = torch.Generator().manual_seed(seed or 0)
        noise = 0.0 if seed is None else NOISE
        with torch.no_grad():
            for name, value in self.model.named_parameters():
                value.copy_(self._first[name] + noise * torch.randn(value.shape, generator=chance))


def main() -> None:
    torch.set_num_threads(1)
    trainer = InFlightTrainer(*sys.argv[1:3])
    listening = [one.laddr.ip for one in psutil.Process().net_connections("tcp") if one.status == psutil.CONN_LISTEN]
    sys.stdout.write(json.dumps({"listening": sorted(set(listening))}) + "\n")
    sys.stdout.flush()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(trainer.answer(json.loads(line))) + "\n")
        sys.stdout.flush()
    trainer.engine.shutdown()
    requests.post(f"{trainer.url}/shutdown_weight_transfer_engine", timeout=60).raise_for_status()


if __name__ == "__main__":
    main()
