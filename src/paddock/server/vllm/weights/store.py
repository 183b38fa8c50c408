"""Where a trainer and the workers of the engines meet: a store on the trainer's address, and what is written there.

Law     everything listens on the trainer's address alone, 127.0.0.1 unless another is said: torch's store would
        listen on every address of the machine.
Keys    `arrived/NUMBER/RANK`: a worker is about to receive, 0 for the group, with what keeps it from sharing memory,
        then one per update. `complete`: all workers have arrived, and how they are sent weights. `bucket/NUMBER/NTH`:
        what comes next, before it comes. `ended`: the trainer has given the group up. `left/RANK`: a worker has left a
        broken group, and is alive.
Errors  what torch raises: DistNetworkError, DistStoreError.
"""

import socket
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import torch.distributed as dist

COMPLETE, ENDED = "complete", "ended"
FIRST_POLL_S, LONGEST_POLL_S = 0.0002, 0.01


def open_store(address: str, port: int, timeout_s: float) -> tuple[Any, int]:
    """The trainer's store and its port. `port` 0: any free one."""
    listener = socket.create_server((address, port))
    port = listener.getsockname()[1]
    # The store closes what it is given.
    store = dist.TCPStore(
        address,
        port,
        is_master=True,
        timeout=timedelta(seconds=timeout_s),
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )
    return store, port


def join_store(address: str, port: int, timeout_s: float) -> Any:
    """Connect a worker to the trainer's store."""
    timeout = timedelta(seconds=timeout_s)
    return dist.TCPStore(address, port, is_master=False, timeout=timeout, wait_for_workers=False)


def address_towards(address: str, port: int) -> str:
    """This machine's address on the way to another's; loopback towards loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((address, port))  # nothing is sent
        own_address: str = probe.getsockname()[0]
    return own_address


def arrival_keys(number: int, ranks: Iterable[int]) -> list[str]:
    return [f"arrived/{number}/{rank}" for rank in ranks]


def bucket_key(number: int, nth: int) -> str:
    return f"bucket/{number}/{nth}"


def left_keys(ranks: Iterable[int]) -> list[str]:
    return [f"left/{rank}" for rank in ranks]


def poll(done: Callable[[], bool], check: Callable[[], None]) -> None:
    """Wait until `done`; `check` raises when it is to end before."""
    wait_s = FIRST_POLL_S
    while not done():
        check()
        time.sleep(wait_s)
        wait_s = min(2 * wait_s, LONGEST_POLL_S)
