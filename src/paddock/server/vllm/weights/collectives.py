"""Broadcasts from rank 0, the trainer, to the workers of all engines: over gloo between CPUs, over NCCL between GPUs.

Law     a broadcast is begun, and asked whether it is through: nobody waits in a call that can't be ended. `abort` ends
        what was begun, on this rank alone; over gloo the others' fail with it, over NCCL each has to abort its own.
        A communicator of NCCL is made in a call that waits for all ranks, and can't be ended.
Source  vLLM 0.32, `distributed/device_communicators/pynccl.py`: its communicator, whose `destroy` is ncclCommAbort.
Errors  RuntimeError: a peer that died, or did not come.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal, NamedTuple, Protocol

import torch
import torch.distributed as dist

Transport = Literal["gloo", "nccl"]
IsThrough = Callable[[], bool]
"""Whether a broadcast is through; raises where it broke."""


class Collective(Protocol):
    """One rank's end of the group."""

    device: torch.device
    """Where what is sent or received has to be."""

    def broadcast(self, data: torch.Tensor) -> IsThrough: ...

    def abort(self) -> None: ...


class CollectivePlace(NamedTuple):
    """A rank of the group, and where it is."""

    rank: int
    world_size: int
    address: str
    """Its own, on which the others reach it."""
    device: torch.device
    """Its GPU, for NCCL."""
    timeout_s: float


MakeCollective = Callable[[Transport, Any, CollectivePlace], Collective]
"""Makes a rank's end, by the store where all meet."""


class GlooCollective:
    """Made when all ranks have come."""

    def __init__(self, store: Any, place: CollectivePlace) -> None:
        options = dist.ProcessGroupGloo._Options()
        options._devices = [dist.ProcessGroupGloo.create_device(hostname=place.address)]
        options._timeout = timedelta(seconds=place.timeout_s)
        self.device = torch.device("cpu")
        self._group = dist.ProcessGroupGloo(dist.PrefixStore("group", store), place.rank, place.world_size, options)

    def broadcast(self, data: torch.Tensor) -> IsThrough:
        options = dist.BroadcastOptions()
        options.rootRank, options.rootTensor = 0, 0
        work = self._group.broadcast([data], options)

        def is_through() -> bool:
            if not work.is_completed():
                return False
            work.wait()  # raises what broke it
            return True

        return is_through

    def abort(self) -> None:
        self._group.abort()


class NcclCollective:
    """Made when all ranks have come."""

    def __init__(self, store: Any, place: CollectivePlace) -> None:
        from vllm.distributed.device_communicators.pynccl import PyNcclCommunicator
        from vllm.distributed.device_communicators.pynccl_wrapper import NCCLLibrary

        if place.rank == 0:
            store.set("nccl_id", bytes(NCCLLibrary().ncclGetUniqueId().internal).hex())
        unique_id = bytes.fromhex(store.get("nccl_id").decode())
        self.device = place.device
        self._communicator: Any = PyNcclCommunicator.from_unique_id_bytes(
            unique_id, place.rank, place.world_size, place.device
        )
        self._stream = torch.cuda.Stream(place.device)

    def broadcast(self, data: torch.Tensor) -> IsThrough:
        self._stream.wait_stream(torch.cuda.current_stream(self.device))
        self._communicator.broadcast(data, src=0, stream=self._stream)
        event = self._stream.record_event()
        return lambda: bool(event.query())

    def abort(self) -> None:
        self._communicator.destroy()


def make_collective(transport: Transport, store: Any, place: CollectivePlace) -> Collective:
    """This rank's end; waits for the others."""
    return GlooCollective(store, place) if transport == "gloo" else NcclCollective(store, place)
