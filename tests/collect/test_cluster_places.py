"""Claims about workers on a cluster whose nodes come and go: as many as have room, and never too much in flight.

Here a worker is a process of this machine that is used as one of a cluster; `test_ray_workers` has real nodes.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.collect.test_run import Peaks
from tests.collect.test_workers import BY_ROW, begun, policy, until, verdicts, workers

from paddock.collect import CollectionResult, Plan, worker_nodes
from paddock.collect.jobs import WorkerSetup
from paddock.collect.plan import GroupReader
from paddock.collect.ray_worker import NO_PLACE
from paddock.collect.run import open_run
from paddock.collect.worker_process import OpenLink, ProcessLink
from paddock.collect.workers import Crew, LocalWorker
from paddock.errors import InfraError

MakeCase = Callable[..., Plan]
RunPlan = Callable[..., Coroutine[Any, Any, CollectionResult]]
ROOT = Path(__file__).parents[2]
GATED = "tests.collect.worker_servers:GatedModel"
__all__ = ["begun"]


class Nodes:
    """A cluster that is this machine, with room for some workers."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.asked: list[dict[str, Any]] = []
        self.lost: list[str] = []
        """Kinds with which starts fail before one works."""
        self.may_open: dict[str, asyncio.Event] = {}
        """Workers whose starts wait for an event."""
        self.broken: set[str] = set()
        """Workers that never start."""

    @contextmanager
    def connect(self, address: str, **options: Any) -> Iterator[tuple[str, OpenLink]]:
        self.asked.append({"address": address, **options})
        yield "127.0.0.1", self.open

    async def open(self, name: str, setup: WorkerSetup) -> ProcessLink:
        wait_s = self.asked[-1]["place_wait_s"]
        if self.lost:
            raise InfraError("its node died", kind=self.lost.pop(0), retryable=False)
        try:
            async with asyncio.timeout(wait_s):
                while len(workers()) >= self.room:
                    await asyncio.sleep(0.05)
        except TimeoutError as error:
            raise InfraError(f"no CPU within {wait_s:g} s", kind=NO_PLACE) from error
        if name in self.broken:
            raise InfraError("its node has no such folder", kind="os_error")
        if name in self.may_open:
            await self.may_open[name].wait()
        return await ProcessLink.open(name, setup)

    def count(self, label: str | None) -> int:
        return self.room


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Nodes:
    nodes = Nodes(1)
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.setattr(worker_nodes, "connect", nodes.connect)
    monkeypatch.setattr(worker_nodes, "count_places", nodes.count)
    return nodes


@pytest.mark.slow
async def test_nodes_that_join_are_used_and_those_that_go_are_missed(
    nodes: Nodes, make_case: MakeCase, run_plan: RunPlan, read_lines: Any, begun: Any
) -> None:
    case = {"repeats": 2, "concurrency": 4, "top": {**policy(BY_ROW, delay_s=0.3), "serve": {"restart_wait_s": 0}}}
    cluster = {"cluster": "auto", "cluster_label": "zone=a", "cluster_look_s": 0.1}
    task = asyncio.create_task(run_plan(make_case(30, **cluster, **case), "cluster"))
    try:
        await until(lambda: len(workers()) == 1)
        nodes.room = 2
        both: list[psutil.Process] = await until(lambda: len(found := workers()) == 2 and found)
        nodes.room = 1
        both[0].kill()
        collected = await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert (collected.how, collected.n_verdicts) == ("finished", 60)
    assert workers() == []
    assert nodes.asked == [{"address": "auto", "label": "zone=a", "place_wait_s": 120.0}]
    rollouts, _, _ = verdicts(read_lines, "cluster")
    assert len(rollouts) == 60


def in_flight(path: Path) -> list[int]:
    """How many each process has in flight that has had a question, by the times that its model says."""
    counts = Counter[int]()
    for line in path.read_text().splitlines() if path.exists() else ():
        pid, change = line.split()
        counts[int(pid)] += int(change)
    return sorted(counts.values())


@pytest.mark.slow
async def test_a_worker_that_is_there_first_leaves_one_that_starts_its_share(
    nodes: Nodes, make_case: MakeCase, run_plan: RunPlan, tmp_path: Path
) -> None:
    nodes.room, nodes.may_open["worker-1"] = 2, asyncio.Event()
    asked = tmp_path / "asked"
    top = policy(GATED, asked=str(asked), may_end=str(tmp_path / "may_end"))
    plan = make_case(20, cluster="auto", workers=2, concurrency=6, top=top)
    task = asyncio.create_task(run_plan(plan))
    try:
        await until(lambda: in_flight(asked) == [3])
        nodes.may_open["worker-1"].set()
        await until(lambda: in_flight(asked) == [3, 3])
        (tmp_path / "may_end").touch()
        collected = await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert collected.n_verdicts == 20


@pytest.mark.slow
async def test_a_place_whose_first_start_fails_holds_nothing_up(
    nodes: Nodes, make_case: MakeCase, run_plan: RunPlan, tmp_path: Path
) -> None:
    nodes.room, nodes.broken = 2, {"worker-1"}
    asked = tmp_path / "asked"
    top = policy(GATED, asked=str(asked), may_end=str(tmp_path / "may_end"))
    top["serve"] = {"restart_wait_s": 300}
    task = asyncio.create_task(run_plan(make_case(8, cluster="auto", workers=2, concurrency=6, top=top)))
    try:
        await until(lambda: in_flight(asked) == [6])
        (tmp_path / "may_end").touch()
        collected = await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert collected.n_verdicts == 8


async def test_a_run_ends_when_no_worker_has_a_place(nodes: Nodes, make_case: MakeCase, run_plan: RunPlan) -> None:
    nodes.room = 0
    with pytest.raises(InfraError, match=r"no CPU within 0\.3 s"):
        await run_plan(make_case(3, cluster="auto", cluster_wait_s=0.3))


@pytest.mark.slow
async def test_a_start_on_a_node_that_has_just_died_is_made_elsewhere(
    nodes: Nodes, make_case: MakeCase, run_plan: RunPlan
) -> None:
    nodes.lost = ["ray_start", "child_died"]
    collected = await run_plan(make_case(3, cluster="auto", cluster_look_s=0.05))
    assert (collected.how, collected.n_verdicts) == ("finished", 3)
    nodes.lost = ["ray_unreachable"]
    with pytest.raises(InfraError, match="its node died"):
        await run_plan(make_case(3, cluster="auto", cluster_look_s=0.05), "another")


@pytest.mark.slow
async def test_a_run_whose_workers_lose_their_places_for_good_ends(
    nodes: Nodes, make_case: MakeCase, run_plan: RunPlan, tmp_path: Path
) -> None:
    settings = {"cluster": "auto", "cluster_wait_s": 1.0, "concurrency": 1, "cluster_look_s": 0.1, "max_attempts": 9}
    top = {**policy(BY_ROW, delay_s=300), "serve": {"restart_wait_s": 0}}
    task = asyncio.create_task(run_plan(make_case(3, top=top, **settings)))
    try:
        await until((tmp_path / "run/rollouts.jsonl").exists)
        nodes.room = 0
        workers()[0].kill()
        collected = await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert collected.how == "servers_failed"
    assert "no worker had a place" in str(collected.why)


@pytest.mark.parametrize("repeats", [1, 3])
async def test_workers_that_join_take_their_share_of_what_is_in_flight(
    repeats: int, make_case: MakeCase, tmp_path: Path
) -> None:
    plan = make_case(80, repeats=repeats, concurrency=6)
    agent, share = Peaks(), Counter[int]()

    class CountedWorker(LocalWorker):
        async def run(self, job: Any, sink: Any) -> None:
            share[id(self)] += 1
            await super().run(job, sink)

    with open_run(plan, tmp_path / "run") as run:
        groups = GroupReader(run.plan.router, run.plan.identity.run_id)
        one, two, three = (CountedWorker({"agent": agent}, groups, plan.settings, 6) for _ in range(3))

        async def later() -> AsyncIterator[LocalWorker]:
            for worker in (two, three):
                await until(lambda: sum(share.values()) > 20)
                yield worker

        collected = await run.collect(Crew([one], None, later()))
    assert collected.n_verdicts == 80 * repeats
    assert agent.peak == 6
    assert all(share[id(worker)] > 10 for worker in (one, two, three))
