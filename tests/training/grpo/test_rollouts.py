"""Claims about several rollout workers: the least busy one runs a group, and all share a validation."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import orjson

from paddock.collect import PlannedGroup
from paddock.server.vllm.weights.replicas import ReplicaInfo
from paddock.training.core.records import Group, Member
from paddock.training.grpo.journals import GroupLines
from paddock.training.grpo.roles import GroupJob
from paddock.training.grpo.rollouts import RunRollouts, RunRows, Sampler
from paddock.training.grpo.worker import FinishedGroup, FinishedValidation


class StubWorker:
    """Ends its groups when it is told to; a validation's reward is the row itself."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.released = asyncio.Event()

    async def run_group(self, work: GroupJob, row: PlannedGroup, version: int) -> FinishedGroup:
        self.started.append(work.id)
        await self.released.wait()
        return FinishedGroup(Group(work.id, work.row, work.epoch, (), 4, version), GroupLines())

    async def validate(self, rows: Sequence[PlannedGroup], step: int) -> FinishedValidation:
        lines = GroupLines()
        lines.rollouts = [orjson.dumps({"row": row}) + b"\n" for row in rows]
        members = [[Member(nth=0, outcome="completed", reward=float(cast("int", row)))] for row in rows]
        return FinishedValidation(members, lines)

    async def stop(self) -> None:
        """Nothing is held."""


class StubEngines:
    def __init__(self, name: str) -> None:
        self._name = name

    async def replicas(self) -> list[ReplicaInfo]:
        return [ReplicaInfo(self._name, f"http://{self._name}", 1)]

    async def stop(self) -> None:
        """Nothing is held."""


class NumberedRows:
    """Rows that are their own numbers."""

    def group(self, work: GroupJob) -> int:
        return work.row

    def validation(self, step: int) -> list[int]:
        return [0, 0, 1, 0, 1]


def rollouts_of(folder: Path, workers: Sequence[StubWorker]) -> RunRollouts:
    samplers = [Sampler(worker, StubEngines(f"engines-{nth}")) for nth, worker in enumerate(workers)]
    return RunRollouts(samplers, cast("RunRows", cast("Any", NumberedRows())), folder)


async def test_a_group_runs_where_the_fewest_run(tmp_path: Path) -> None:
    first, second = workers = StubWorker(), StubWorker()
    rollouts = rollouts_of(tmp_path, workers)

    def start(number: int) -> "asyncio.Task[Group]":
        return asyncio.create_task(rollouts.run_group(GroupJob(number, number, 0), 0))

    tasks = [start(number) for number in range(3)]
    await asyncio.sleep(0)
    assert (first.started, second.started) == ([0, 2], [1])
    assert rollouts.n_running == [2, 1]
    first.released.set()
    await asyncio.gather(tasks[0], tasks[2])
    first.released.clear()
    tasks += [start(number) for number in (3, 4, 5)]
    await asyncio.sleep(0)
    assert (first.started, second.started) == ([0, 2, 3, 4], [1, 5])
    for worker in workers:
        worker.released.set()
    await asyncio.gather(*tasks)
    assert rollouts.n_running == [0, 0]
    await rollouts.stop()
    told = [orjson.loads(line)["id"] for line in (tmp_path / "groups.jsonl").read_bytes().splitlines()]
    assert sorted(told) == list(range(6))


async def test_all_share_a_validation_and_all_engines_are_known(tmp_path: Path) -> None:
    rollouts = rollouts_of(tmp_path, [StubWorker(), StubWorker()])
    result = await rollouts.validate(3)
    assert (result.n_rollouts, result.metrics["accuracy"]) == (5, 2 / 5)
    assert [replica.name for replica in await rollouts.replicas()] == ["engines-0", "engines-1"]
    await rollouts.stop()
    rows = [orjson.loads(line)["row"] for line in (tmp_path / "validation.jsonl").read_bytes().splitlines()]
    assert sorted(rows) == [0, 0, 0, 1, 1]
