"""The connection between one trainer and the workers of one vLLM: a store to meet at, then a gloo group.

Law     everything listens on the trainer's address alone, 127.0.0.1 unless another is said: torch's store would
        listen on every address of the machine, and gloo on the one that the machine's name resolves to.
Shapes  rank 0 is the trainer, the others are workers. A tensor goes as its bytes, whatever its type, in one broadcast.
Units   seconds; every wait ends after `TIMEOUT_S`.
Errors  what torch raises: DistNetworkError, DistStoreError (the store); RuntimeError (a peer that died in the middle of
        a broadcast, or did not come).
"""

import socket
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

TIMEOUT_S = 120.0
_TIMEOUT = timedelta(seconds=TIMEOUT_S)


def open_store(address: str, port: int) -> tuple[Any, int]:
    """The trainer's store and its port. `port` 0: any free one."""
    listener = socket.create_server((address, port))
    port = listener.getsockname()[1]
    # The store closes what it is given.
    store = dist.TCPStore(
        address, port, is_master=True, timeout=_TIMEOUT, wait_for_workers=False, master_listen_fd=listener.detach()
    )
    return store, port


def join_store(address: str, port: int) -> Any:
    """Connect a worker to the trainer's store."""
    return dist.TCPStore(address, port, is_master=False, timeout=_TIMEOUT, wait_for_workers=False)


def make_group(store: Any, rank: int, world_size: int, address: str) -> Any:
    """Make the group; waits for all ranks. `address`: this rank's own, on which the others reach it."""
    options = dist.ProcessGroupGloo._Options()
    options._devices = [dist.ProcessGroupGloo.create_device(hostname=address)]
    options._timeout = _TIMEOUT
    return dist.ProcessGroupGloo(dist.PrefixStore("group", store), rank, world_size, options)


def address_towards(address: str, port: int) -> str:
    """This machine's address on the way to another's; loopback towards loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((address, port))  # nothing is sent
        own_address: str = probe.getsockname()[0]
    return own_address


def broadcast(group: Any, tensor: torch.Tensor) -> None:
    """Send `tensor` from rank 0, receive into it on the others. Any shape and type; on the CPU and contiguous."""
    if not tensor.numel():
        return
    options = dist.BroadcastOptions()
    options.rootRank, options.rootTensor = 0, 0
    group.broadcast([tensor.reshape(-1).view(torch.uint8)], options).wait()


def arrival_keys(number: int, ranks: Iterable[int]) -> list[str]:
    """Keys that workers set in the store when they are about to receive: 0 for the group, then one per update."""
    return [f"arrived/{number}/{rank}" for rank in ranks]
