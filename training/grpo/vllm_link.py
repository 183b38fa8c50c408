"""The one module that imports vLLM: a connection of its `WeightTransferTrainerFactory`.

Source  vLLM 0.32, `distributed/weight_transfer`; `gloo` is registered by the plugin of `vllm.general_plugins` that is
        installed beside it, and reads the same three fields as vLLM's own `nccl`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import httpx
import torch
from vllm.distributed.weight_transfer import HTTPVLLMWeightSyncClient, WeightTransferTrainerFactory
from vllm.distributed.weight_transfer.base import ParamMeta, TrainerInitInfo, WeightSource
from vllm.plugins import load_general_plugins

from paddock.http.access import bearer
from paddock.ports import free_port
from paddock.training.grpo.roles import ReplicaInfo
from paddock.training.grpo.weight_sender import TRANSFER_TIMEOUT_S, Backend, TransferLink, WeightsSource


@dataclass
class GlooRendezvous(TrainerInitInfo):  # type: ignore[misc]
    """Where the trainer waits for the engine's workers."""

    backend: ClassVar[str] = "gloo"
    master_address: str
    master_port: int
    """0: any free one."""
    world_size: int
    """1 and the number of that vLLM's workers."""


class _Client(HTTPVLLMWeightSyncClient):  # type: ignore[misc]
    """vLLM's client, which brings no token."""

    def __init__(self, replica: ReplicaInfo) -> None:
        super().__init__(replica.url, timeout=TRANSFER_TIMEOUT_S)
        self._headers = bearer(replica.token)

    def _post(self, path: str, json: dict[str, Any] | None = None) -> None:
        url = f"{self.base_url}/{path}"
        body = json or {}
        httpx.post(url, json=body, headers=self._headers, timeout=self.timeout, trust_env=False).raise_for_status()


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


def connect_vllm(
    replica: ReplicaInfo,
    weights: WeightsSource,
    *,
    backend: Backend,
    device: torch.device,
    address: str,
    n_workers: int,
) -> TransferLink:
    load_general_plugins()
    meeting: Any
    if backend == "gloo":
        meeting, device = GlooRendezvous(address, 0, 1 + n_workers, rank=0), torch.device("cpu")
    else:
        from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo

        meeting = NCCLTrainerInitInfo(address, free_port(address), 1 + n_workers, rank=0)
    client = _Client(replica)
    link: TransferLink = WeightTransferTrainerFactory.trainer_init(
        meeting, client=client, source=TensorSource(weights, device)
    )
    return link
