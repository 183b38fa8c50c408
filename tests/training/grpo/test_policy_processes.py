"""Several processes that hold one policy are called together and answer as one."""

import asyncio
from pathlib import Path

import pytest

from paddock.errors import InfraError
from paddock.server.vllm.weights.replicas import ReplicaInfo, SendResult
from paddock.training.core.records import Batch
from paddock.training.grpo.policy_processes import PolicyProcesses
from paddock.training.grpo.roles import TokenNll, TrainResult

BATCH = Batch(3, [], [], [], [])


class Rank:
    """Goes on when all have been called, as collectives do."""

    def __init__(self, nth: int, met: asyncio.Barrier, *, broken: bool = False) -> None:
        self.nth, self.met, self.broken = nth, met, broken
        self.calls: list[object] = []

    async def train(self, batch: Batch) -> TrainResult:
        await self._called("train", batch)
        return TrainResult({"rank": float(self.nth)})

    async def token_nll(self, batch: Batch) -> TokenNll:
        await self._called("token_nll", batch)
        return TokenNll(float(self.nth), 1)

    async def send(self, version: int, replicas: list[ReplicaInfo], *, clear_cache: bool) -> SendResult:
        await self._called("send", version, replicas, clear_cache)
        return SendResult(version, (str(self.nth),), 0.0, 0.0, 0.0)

    async def save(self, folder: Path, *, background: bool = False) -> None:
        await self._called("save", folder)

    async def finish_save(self) -> None:
        await self._called("saved")

    async def load(self, folder: Path) -> None:
        await self._called("load", folder)

    async def export(self, folder: Path) -> None:
        await self._called("export", folder)

    async def stop(self) -> None:
        await self._called("stop")

    async def _called(self, *what: object) -> None:
        self.calls.append(what)
        if self.broken:
            raise InfraError("its process died")
        await self.met.wait()


async def unchanged(batch: Batch) -> Batch:
    return batch


async def test_each_method_is_called_on_all_at_once_and_rank_0_answers() -> None:
    met = asyncio.Barrier(3)
    ranks = [Rank(nth, met) for nth in range(3)]
    n_shared = 0

    async def share(batch: Batch) -> Batch:
        nonlocal n_shared
        n_shared += 1
        return batch

    policy = PolicyProcesses(ranks, share)
    replicas = [ReplicaInfo("policy-0", "http://127.0.0.1:9", 0)]
    assert (await policy.train(BATCH)).metrics == {"rank": 0}
    assert await policy.token_nll(BATCH) == (0.0, 1)
    assert n_shared == 2, "a batch is shared once, not once for each rank"
    assert (await policy.send(4, replicas, clear_cache=True)).replicas == ("0",)
    for folder, told in ((Path("a"), policy.save), (Path("b"), policy.load), (Path("c"), policy.export)):
        await told(folder)
    await policy.stop()
    expected = [("train", BATCH), ("token_nll", BATCH), ("send", 4, replicas, True), ("save", Path("a"))]
    ends = [("load", Path("b")), ("export", Path("c")), ("stop",)]
    assert [one.calls for one in ranks] == [[*expected, *ends]] * 3


async def test_the_error_of_one_is_raised_though_the_others_wait_for_it() -> None:
    met = asyncio.Barrier(2)
    with pytest.raises(InfraError, match="died"):
        await PolicyProcesses([Rank(0, met), Rank(1, met, broken=True)], unchanged).train(BATCH)
