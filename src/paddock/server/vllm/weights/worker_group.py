"""A worker's side of a transfer: buckets come, until the trainer says that there are no more or gives the group up.

Meeting what the trainer and all workers use is the trainer's to say, when each worker has said whether it shares
        memory with it.
Memory  two buckets, kept on a CPU until the group is closed.
Law     a worker waits as long as the trainer's store answers and the trainer has not ended the group: how long a
        bucket may take is the trainer's to say. Whoever leaves a broken group writes that it is alive.
Errors  BrokenReceiveError: the group broke or was ended while weights came, or the trainer is gone. At the meeting
        RuntimeError and the store's own.
"""

from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Any, Self

import torch

from paddock.server.vllm.weights.buckets import Bucket, ReceiveMemory, bucket_size, from_header, unpack
from paddock.server.vllm.weights.collectives import (
    Collective,
    CollectivePlace,
    MakeCollective,
    make_collective,
)
from paddock.server.vllm.weights.shared_memory import ReadTrial
from paddock.server.vllm.weights.store import (
    COMPLETE,
    ENDED,
    arrival_keys,
    bucket_key,
    join_store,
    left_keys,
    poll,
)


class BrokenReceiveError(Exception):
    """The rest of an update does not come. It is in the trainer's store that this worker has left."""


class WorkerGroup:
    """Connected with one trainer."""

    def __init__(self, store: Any, rank: int, collective: Collective) -> None:
        self._store = store
        self._rank = rank
        self._collective = collective
        self._memory = ReceiveMemory(collective.device)

    @classmethod
    def join(
        cls,
        address: str,
        port: int,
        place: CollectivePlace,
        trial: ReadTrial | None = None,
        make: MakeCollective = make_collective,
    ) -> Self:
        """Connect to the trainer that listens there; waits for all ranks. `trial`: of the memory that may be shared."""
        store = join_store(address, port, place.timeout_s)
        _write(store, arrival_keys(0, (place.rank,)), "" if trial is None else trial.problem(place.device))
        try:
            poll(lambda: store.check([COMPLETE]), lambda: _raise_if_ended(store))
            collective = make(store.get(COMPLETE).decode(), store, place)
        except Exception:
            _leave(store, place.rank)
            raise
        return cls(store, place.rank, collective)

    def receive(self, number: int) -> Iterator[list[tuple[str, torch.Tensor]]]:
        """The tensors of update `number`, a bucket at a time."""
        for nth in count():
            try:
                if not nth:
                    _write(self._store, arrival_keys(number, (self._rank,)))
                data = self._receive_bucket(number, nth)
            except Exception as error:
                self.close()
                _leave(self._store, self._rank)
                raise BrokenReceiveError(str(error)) from error
            if not data:
                return
            yield data

    def close(self) -> None:
        self._collective.abort()
        self._memory = ReceiveMemory(self._collective.device)

    def _receive_bucket(self, number: int, nth: int) -> list[tuple[str, torch.Tensor]]:
        key = bucket_key(number, nth)

        def check() -> None:
            _raise_if_ended(self._store)

        poll(lambda: self._store.check([key]), check)
        forms = from_header(self._store.get(key))
        data = self._memory.empty(bucket_size(forms))
        if len(data):
            poll(self._collective.broadcast(data), check)
        return unpack(Bucket(forms, data))


def _raise_if_ended(store: Any) -> None:
    if store.check([ENDED]):
        raise RuntimeError("the trainer has ended the transfer: another engine died, or took too long")


def _leave(store: Any, rank: int) -> None:
    with suppress(Exception):  # the trainer may be gone
        _write(store, left_keys((rank,)))


def _write(store: Any, keys: list[str], text: str = "") -> None:
    for key in keys:
        store.set(key, text)
