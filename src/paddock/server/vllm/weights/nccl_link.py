"""The one module of this room that imports vLLM: a connection over NCCL, of its `WeightTransferTrainerFactory`.

Source  vLLM 0.32, `distributed/weight_transfer`.
"""

from collections.abc import Iterator

import torch
from vllm.distributed.weight_transfer import WeightTransferTrainerFactory
from vllm.distributed.weight_transfer.base import ParamMeta, WeightSource
from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo

from paddock.ports import free_port
from paddock.server.vllm.weights.control import ReplicaControl
from paddock.server.vllm.weights.replicas import ReplicaInfo, WeightsSource
from paddock.server.vllm.weights.sender import TransferLink


class TensorSource(WeightSource):  # type: ignore[misc]
    """The trainer's weights, as they are when they are sent."""

    def __init__(self, weights: WeightsSource, device: torch.device) -> None:
        self._weights = weights
        self._device = device

    def metadata(self) -> list[ParamMeta]:
        return [ParamMeta(name, value.dtype, tuple(value.shape)) for name, value in self._weights().items()]

    def __iter__(self) -> Iterator[tuple[str, torch.Tensor]]:
        for name, value in self._weights().items():
            yield name, value.to(self._device)


def connect_nccl(
    replica: ReplicaInfo, weights: WeightsSource, *, device: torch.device, address: str, n_workers: int
) -> TransferLink:
    meeting = NCCLTrainerInitInfo(address, free_port(address), 1 + n_workers, rank=0)
    link: TransferLink = WeightTransferTrainerFactory.trainer_init(
        meeting, client=ReplicaControl(replica.url, replica.token), source=TensorSource(weights, device)
    )
    return link
