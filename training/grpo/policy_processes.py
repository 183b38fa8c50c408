"""One process that holds a policy, or several that hold it together, behind the interface of one.

Law     every method is called on all ranks at once; rank 0's answer is the answer. The first error is raised when
        it comes: the others wait for the rank that raised it, and have to be ended.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from paddock.server.vllm.weights.replicas import ReplicaInfo, SendResult
from paddock.training.core.records import Batch
from paddock.training.grpo.roles import ScoringPolicy, TokenNll, TrainResult

T = TypeVar("T")


class PolicyProcesses:
    """The role `roles.ScoringPolicy`, called on all ranks."""

    def __init__(self, ranks: Sequence[ScoringPolicy], share: Callable[[Batch], Awaitable[Any]]) -> None:
        """`share` gives what ranks take in place of a batch: it is sent once, however many they are."""
        self._ranks = ranks
        self._share = share

    async def train(self, batch: Batch) -> TrainResult:
        shared = await self._share(batch._replace(groups=[]))
        return await _first(rank.train(shared) for rank in self._ranks)

    async def token_nll(self, batch: Batch) -> TokenNll:
        shared = await self._share(batch._replace(groups=[]))
        return await _first(rank.token_nll(shared) for rank in self._ranks)

    async def send(self, version: int, replicas: list[ReplicaInfo], *, clear_cache: bool) -> SendResult:
        return await _first(rank.send(version, replicas, clear_cache=clear_cache) for rank in self._ranks)

    async def save(self, folder: Path, *, background: bool = False) -> None:
        await _first(rank.save(folder, background=background) for rank in self._ranks)

    async def finish_save(self) -> None:
        await _first(rank.finish_save() for rank in self._ranks)

    async def load(self, folder: Path) -> None:
        await _first(rank.load(folder) for rank in self._ranks)

    async def export(self, folder: Path) -> None:
        await _first(rank.export(folder) for rank in self._ranks)

    async def stop(self) -> None:
        await _first(rank.stop() for rank in self._ranks)


async def _first(calls: Iterable[Awaitable[T]]) -> T:
    results: list[T] = await asyncio.gather(*calls)
    return results[0]
