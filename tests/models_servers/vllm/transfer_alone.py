"""`python transfer_alone.py`: both sides of the transfer in one process, without a vLLM between them, as JSON.

Runs in the environment that has vLLM. Each case says what it ended in, how long it took, and what the receiver's model
was given.
"""

import json
import sys
import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import torch
from vllm.distributed.weight_transfer.base import ParamMeta, TrainerInitInfo, WeightSource

from paddock.models_servers.vllm.transfer.receiver import TransferReceiver
from paddock.models_servers.vllm.transfer.sender import GlooSender

TENSORS = {
    "one": torch.arange(6, dtype=torch.float32).reshape(2, 3).t(),
    "none": torch.empty(0, 4),
    "half": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
    "scalar": torch.tensor(7, dtype=torch.int64),
}


@dataclass
class LoneInit(TrainerInitInfo):  # type: ignore[misc]
    backend: ClassVar[str] = "gloo"
    master_address: str = "127.0.0.1"
    master_port: int = 0
    world_size: int = 2


class LoneWeights(WeightSource):  # type: ignore[misc]
    def __init__(self, fault: str) -> None:
        self._fault = fault

    def metadata(self) -> list[ParamMeta]:
        return [ParamMeta(name, tensor.dtype, tuple(tensor.shape)) for name, tensor in TENSORS.items()]

    def __iter__(self) -> Any:
        for name, tensor in TENSORS.items():
            if self._fault == "source" and name == "half":
                raise ValueError("the source broke")
            if not (self._fault == "short" and name == "scalar"):
                yield name, tensor.double() if self._fault == "type" and name == "one" else tensor


class Side:
    """The receiver, as vLLM's routes drive it."""

    def __init__(self, fault: str) -> None:
        self.given: dict[str, list[Any]] = {}
        self.ended = ""
        self._fault = fault
        parallel = SimpleNamespace(rank=0, world_size=1, world_size_across_dp=1, data_parallel_index=0)
        config = SimpleNamespace(parallel_config=parallel, model_config=None)
        model = SimpleNamespace(load_weights=self._load)
        self._receiver = TransferReceiver(None, config, torch.device("cpu"), model)

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        if self._fault == "refuses":
            raise ConnectionError("refused")
        self._receiver.init_transfer_engine(self._receiver.parse_init_info(init_info))

    def start_weight_update(self) -> None:
        """Nothing is reloaded here: there is no model."""

    def update_weights(self, update_info: dict[str, Any]) -> None:
        if self._fault == "update refused":
            raise ConnectionError("refused")
        try:
            self._receiver.update_weights(update_info)
        except BaseException as error:
            self.ended = type(error).__name__
            raise
        self.ended = "returned"

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        if weight_version is not None:
            self.given["version"] = [weight_version]

    def _load(self, weights: list[tuple[str, torch.Tensor]]) -> None:
        for name, tensor in weights:
            if self._fault == "unknown name" and name == "one":
                raise KeyError(name)
            self.given[name] = [str(tensor.dtype), list(tensor.shape), tensor.double().tolist()]


def try_update(fault: str) -> dict[str, Any]:
    side = Side(fault)
    started_at = time.monotonic()
    error = ""
    try:
        sender = GlooSender.trainer_init(LoneInit(rank=0), client=side, source=LoneWeights(fault))
        sender.send_weights("7")
        if fault == "again":
            side.given.clear()
            sender.send_weights("8")
        sender.shutdown()
    except Exception as found:
        error = f"{type(found).__name__}: {found}"
    while fault == "source" and not side.ended and time.monotonic() < started_at + 60:
        time.sleep(0.01)
    return {"error": error, "took_s": time.monotonic() - started_at, "given": side.given, "receiver": side.ended}


def main() -> None:
    sys.stdout.write(json.dumps({fault: try_update(fault) for fault in sys.argv[1:]}) + "\n")


if __name__ == "__main__":
    main()
