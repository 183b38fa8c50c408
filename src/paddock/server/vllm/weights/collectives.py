"""Broadcasts from rank 0, the trainer, to the workers of all engines: over gloo, NCCL, or by memory that all share.

Shared  each bucket is in the trainer's memory, which its notice names (`shared_memory`): each worker copies it from
        there, and says so; then the trainer fills it again.
Law     a broadcast is begun, and asked whether it is through: nobody waits in a call that can't be ended. `abort` ends
        what was begun, on this rank alone; over gloo the others' fail with it, over NCCL each has to abort its own.
        A communicator of NCCL is made in a call that waits for all ranks, and can't be ended.
Source  vLLM 0.32, `distributed/device_communicators/pynccl.py`: its communicator, whose `destroy` is ncclCommAbort.
Errors  RuntimeError: a peer that died, or did not come.
"""

import os
import select
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal, NamedTuple, Protocol

import torch
import torch.distributed as dist

from paddock.server.vllm.weights.shared_memory import CPU, SharedBuffer, as_notice, make_shared, read_shared

Transport = Literal["gloo", "nccl", "memory", "cuda_ipc"]
"""`memory`: the CPU's, of one machine. `cuda_ipc`: that of one GPU."""
SHARED: tuple[Transport, ...] = ("memory", "cuda_ipc")
IsThrough = Callable[[], bool]
"""Whether a broadcast is through; raises where it broke."""


class Collective(Protocol):
    """One rank's end of the group."""

    device: torch.device
    """Where what is sent or received has to be."""

    def buffer(self, turn: int, n_bytes: int) -> torch.Tensor:
        """Memory for what the trainer sends next but one, in `turn` 0 or 1: uint8. That of the turn before, which is
        through, is not used any more."""
        ...

    def free(self) -> None:
        """Give the buffers back; nothing is on its way."""
        ...

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


class OwnBuffers:
    """Two buffers in memory of this process alone."""

    device: torch.device

    def __init__(self) -> None:
        self._buffers: dict[int, torch.Tensor] = {}

    def buffer(self, turn: int, n_bytes: int) -> torch.Tensor:
        held = self._buffers.get(turn)
        if held is None or len(held) < n_bytes:
            del held
            self._buffers.pop(turn, None)
            self._buffers[turn] = torch.empty(n_bytes, dtype=torch.uint8, device=self.device)
        return self._buffers[turn]

    def free(self) -> None:
        self._buffers.clear()


class GlooCollective(OwnBuffers):
    """Made when all ranks have come."""

    def __init__(self, store: Any, place: CollectivePlace) -> None:
        super().__init__()
        options = dist.ProcessGroupGloo._Options()
        options._devices = [dist.ProcessGroupGloo.create_device(hostname=place.address)]
        options._timeout = timedelta(seconds=place.timeout_s)
        self.device = CPU
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


class NcclCollective(OwnBuffers):
    """Made when all ranks have come."""

    def __init__(self, store: Any, place: CollectivePlace) -> None:
        super().__init__()
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


class SharedCollective:
    """Each rank's own; nobody waits for others. A worker that dies breaks what is on its way."""

    def __init__(self, store: Any, place: CollectivePlace, device: torch.device) -> None:
        self.device = device
        self._store = store
        self._place = place
        self._buffers: dict[int, SharedBuffer] = {}
        self._workers: dict[int, int] = {}
        """The trainer's descriptors of their processes, by rank; readable when they have ended."""
        self._number = 0
        if place.rank:
            store.set(f"pid/{place.rank}", str(os.getpid()))

    def buffer(self, turn: int, n_bytes: int) -> torch.Tensor:
        held = self._buffers.get(turn)
        if held is None or len(held.data) < n_bytes:
            if held is not None:
                self._buffers.pop(turn).close()
            held = self._buffers[turn] = make_shared(n_bytes, self.device)
        return held.data

    def free(self) -> None:
        while self._buffers:
            self._buffers.popitem()[1].close()

    def broadcast(self, data: torch.Tensor) -> IsThrough:
        """`data`: the trainer's is the beginning of a buffer."""
        number, self._number = self._number, self._number + 1
        if self._place.rank:
            return lambda: self._read(number, data)
        (notice,) = (held.notice for held in self._buffers.values() if held.data.data_ptr() == data.data_ptr())
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()  # it is filled
        self._find_workers()
        self._store.set(f"shared/{number}", as_notice(notice))
        return lambda: self._all_read([f"read/{number}/{rank}" for rank in self._workers])

    def _find_workers(self) -> None:
        for rank in range(1 + len(self._workers), self._place.world_size):
            self._workers[rank] = os.pidfd_open(int(self._store.get(f"pid/{rank}")))

    def _all_read(self, keys: list[str]) -> bool:
        if self._store.check(keys):
            return True
        if ended := select.select(self._workers.values(), (), (), 0)[0]:
            ranks = [rank for rank, worker in self._workers.items() if worker in ended]
            raise RuntimeError(f"the processes of the workers {ranks} have ended")
        return False

    def _read(self, number: int, data: torch.Tensor) -> bool:
        key = f"shared/{number}"
        if not self._store.check([key]):
            return False
        read_shared(self._store.get(key), data)
        self._store.set(f"read/{number}/{self._place.rank}", "")
        return True

    def abort(self) -> None:
        """What was begun ends by itself: whoever reads is to leave before the memory is freed."""
        while self._workers:
            os.close(self._workers.popitem()[1])


def make_collective(transport: Transport, store: Any, place: CollectivePlace) -> Collective:
    """This rank's end; over gloo and NCCL it waits for the others."""
    if transport in SHARED:
        return SharedCollective(store, place, CPU if transport == "memory" else place.device)
    return GlooCollective(store, place) if transport == "gloo" else NcclCollective(store, place)
