"""One model over several processes: FSDP2, over gloo between CPUs and NCCL between GPUs.

Law     every process makes the same calls in the same order, with the same arguments. Each holds a part of every
        weight, gradient and optimiser state; a layer is whole only while it is computed. FSDP averages gradients over
        processes: a loss that is normalised over all of them has to be multiplied by their number.
Ranks   processes meet at rank 0, which listens on `master_address` alone.
Errors  what torch raises: a process that does not come within `TIMEOUT_S`, or dies.
"""

import os
import socket
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import psutil
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.distributed.tensor import DTensor

from paddock.errors import ConfigError
from paddock.training.grpo.lora import adapters, merged
from paddock.training.grpo.policy_config import TorchConfig
from paddock.training.grpo.policy_settings import RankInfo

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
TIMEOUT_S = 1800.0
"""A process waits for the others as long as a step of theirs may be longer."""


class ShardGroup:
    """The processes that shard a policy, as one of them sees them; there may be one alone."""

    def __init__(
        self, rank_info: RankInfo, device: torch.device, home: torch.device | None = None, *, offload: bool = False
    ) -> None:
        """`home`: where a model is made; None: on the device that computes. `offload`: on the CPU, where the optimizer
        works too, and each layer is on the device while it is computed."""
        self.rank_info = rank_info
        self.device = device
        self.home = torch.device("cpu") if offload else home or device
        self._offload = offload
        self.writing_group: Any = None
        """Of all processes, for writing in the background; None: there is one."""
        self._mesh: Any = None

    @property
    def first(self) -> bool:
        return self.rank_info.rank == 0

    @property
    def sharded(self) -> bool:
        """Whether FSDP holds the model, which it does of one process for its offloading alone."""
        return self.rank_info.world_size > 1 or self._offload

    def join(self) -> None:
        """Wait for the other processes."""
        if self.sharded:
            meet(self.rank_info, self.device)
            self.writing_group = dist.new_group(backend="gloo")
            self._mesh = init_device_mesh(self.device.type, (self.rank_info.world_size,))

    def shard(self, module: Any, model: Any, dtype: torch.dtype) -> Any:
        """The module, which has the model in it, on this process's device; the model's layers are sharded one by one.
        `dtype`: of the computation."""
        if not self.sharded:
            return module.to(self.home)
        precision = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
        pinned = self.device.type == "cuda"
        policy = CPUOffloadPolicy(pin_memory=pinned) if self._offload else OffloadPolicy()
        layers = set(getattr(model, "_no_split_modules", None) or ())
        for part in list(model.modules()):
            if type(part).__name__ in layers:
                fully_shard(part, mesh=self._mesh, mp_policy=precision, offload_policy=policy)
        return fully_shard(module, mesh=self._mesh, mp_policy=precision, offload_policy=policy)

    def share(self, own: Any) -> list[Any]:
        """The values of all processes, in order of ranks; every process has to call it."""
        if not self.sharded:
            return [own]
        values: list[Any] = [None] * self.rank_info.world_size
        dist.all_gather_object(values, own)
        return values

    def leave(self) -> None:
        if dist.is_initialized():
            dist.destroy_process_group()


def meet(rank_info: RankInfo, device: torch.device) -> None:
    """Make torch's process group of all ranks; waits for the others."""
    if (interface := _interface(rank_info.address)) is not None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)  # else that of the machine's name
    timeout = timedelta(seconds=TIMEOUT_S)
    # Objects go over gloo in either case.
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    store = _store(rank_info, timeout)
    dist.init_process_group(backend, store=store, rank=rank_info.rank, world_size=rank_info.world_size, timeout=timeout)


def _interface(address: str) -> str | None:
    """The name of the network interface with that address; None: none has it."""
    found = (name for name, known in psutil.net_if_addrs().items() if any(one.address == address for one in known))
    return next(found, None)


def _store(rank_info: RankInfo, timeout: timedelta) -> Any:
    address, port = rank_info.master_address, rank_info.master_port
    if rank_info.world_size == 1:
        return dist.HashStore()
    if rank_info.rank:
        return dist.TCPStore(address, port, is_master=False, timeout=timeout)
    listening = socket.create_server((address, port))  # torch's own listens on every address
    return dist.TCPStore(
        address, port, is_master=True, timeout=timeout, wait_for_workers=False, master_listen_fd=listening.detach()
    )


def device_of(config: TorchConfig, rank_info: RankInfo) -> torch.device:
    """The device of a process; of several visible GPUs the one of its rank."""
    has_gpus = torch.cuda.is_available()
    if config.device == "cuda" and not has_gpus:
        raise ConfigError("policy.torch_cfg.device is cuda, and torch finds none: set it to auto or cpu", kind="device")
    if config.device == "cpu" or not has_gpus:
        return torch.device("cpu")
    return torch.device("cuda", rank_info.rank % torch.cuda.device_count())


def whole(value: torch.Tensor) -> torch.Tensor:
    """The whole tensor of one that may be sharded; every process has to call it."""
    value = value.detach()
    return value.full_tensor() if isinstance(value, DTensor) else value


def stored_parameters(model: Any) -> dict[str, torch.nn.Parameter]:
    """The parameters that a checkpoint has: all, or adapters alone."""
    layers = adapters(model)
    own = {f"{name}.{part}" for name in layers for part in ("lora_a", "lora_b")}
    return {name: value for name, value in model.named_parameters() if not layers or name in own}


def whole_parameters(
    parameters: Mapping[str, torch.Tensor], shard_group: ShardGroup, dtype: torch.dtype
) -> Iterator[tuple[str, torch.Tensor]]:
    """Name and whole tensor of each parameter; with several processes in memory of the CPU, and for rank 0 alone."""
    for name, value in parameters.items():
        weight = whole(value)
        if not shard_group.sharded:
            yield name, weight.to(dtype)
        elif shard_group.first:
            yield name, weight.to("cpu", dtype)


def whole_weights(model: Any, shard_group: ShardGroup, dtype: torch.dtype) -> Iterator[tuple[str, torch.Tensor]]:
    """The same of the model's weights, under their names and with the adapters in them, as `dtype` computes."""
    parameters, layers = dict(model.named_parameters()), adapters(model)
    for name, value in parameters.items():
        layer, _, part = name.rpartition(".")
        if layer not in layers:
            yield from whole_parameters({name: value}, shard_group, dtype)
        elif part == "weight":
            a, b = (whole(parameters[f"{layer}.{own}"]).to(dtype) for own in ("lora_a", "lora_b"))
            weight = merged(whole(value).to(dtype), a, b, layers[layer].scale)
            yield from whole_parameters({name: weight}, shard_group, dtype)
        elif part == "bias":
            yield from whole_parameters({name: value}, shard_group, dtype)
