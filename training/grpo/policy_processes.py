"""Several processes that hold one policy together, as one.

Law     every method is called on all ranks at once; rank 0's answer is the answer. The first error is raised when
        it comes: the others wait for the rank that raised it, and have to be ended.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from paddock.training.core.records import Batch
from paddock.training.grpo.roles import Policy, ReplicaInfo, SendResult, TrainResult

T = TypeVar("T")


class PolicyProcesses:
    """`roles.Policy`."""

    def __init__(self, ranks: Sequence[Policy]) -> None:
        self._ranks = ranks

    async def train(self, batch: Batch) -> TrainResult:
        return await _first(one.train(batch) for one in self._ranks)

    async def send(self, version: int, replicas: list[ReplicaInfo], *, clear_cache: bool) -> SendResult:
        return await _first(one.send(version, replicas, clear_cache=clear_cache) for one in self._ranks)

    async def save(self, folder: Path) -> None:
        await _first(one.save(folder) for one in self._ranks)

    async def load(self, folder: Path) -> None:
        await _first(one.load(folder) for one in self._ranks)

    async def export(self, folder: Path) -> None:
        await _first(one.export(folder) for one in self._ranks)

    async def stop(self) -> None:
        await _first(one.stop() for one in self._ranks)


async def _first(calls: Iterable[Awaitable[T]]) -> T:
    found: list[T] = await asyncio.gather(*calls)
    return found[0]
