"""Claims about independent items over worker processes: each is made once, or again where its worker was lost."""

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.collect.test_workers import until, workers

from paddock.collect.items import ItemWork, open_item_workers
from paddock.collect.worker_spread import WorkerSpread
from paddock.collect.workers import WorkerLostError
from paddock.errors import BugError, ConfigError, InfraError, PaddockError, RowError

ROOT = Path(__file__).parents[2]
OPENS = "tests.collect.item_functions:doubling"


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ItemWork:
    monkeypatch.syspath_prepend(ROOT)
    return ItemWork(OPENS, {"log": str(tmp_path / "log")})


def spread(n_workers: int, **fields: Any) -> WorkerSpread:
    return WorkerSpread(workers=n_workers, restart_wait_s=0.05, **fields)


@pytest.mark.slow
async def test_items_are_made_by_all_workers_and_none_is_left(work: ItemWork) -> None:
    said: list[str] = []
    async with open_item_workers(work, spread(2), at_once=4) as crew:
        many = (crew.make({"n": n, "wait_s": 0.05}, b"%d" % n, on_progress=said.append) for n in range(12))
        made = await asyncio.gather(*many)
        assert [one.result["n"] for one in made] == [2 * n for n in range(12)]
        assert [one.body for one in made] == [b"%d%d" % (n, n) for n in range(12)]
        assert {one.result["pid"] for one in made} == {process.pid for process in workers()}
    assert sorted(said) == sorted(f"doubling {n}" for n in range(12))
    assert workers() == []


@pytest.mark.slow
async def test_an_error_is_its_item_s_alone_and_keeps_its_owner(work: ItemWork) -> None:
    async with open_item_workers(work, spread(1), at_once=4) as crew:
        results = await asyncio.gather(*(crew.make({"n": n}) for n in (-1, 13, 14, 4)), return_exceptions=True)
    assert isinstance(results[0], RowError) and results[0].kind == "negative"
    assert isinstance(results[1], InfraError) and results[1].message == "[Errno 2] no such luck"
    assert isinstance(results[2], BugError)
    assert not isinstance(results[3], BaseException) and results[3].result["n"] == 8


@pytest.mark.slow
async def test_a_killed_worker_costs_the_items_that_it_had(work: ItemWork, tmp_path: Path) -> None:
    async with open_item_workers(work, spread(2), at_once=4) as crew:
        tasks = [asyncio.ensure_future(crew.make({"n": n, "wait_s": 0.2})) for n in range(12)]
        await until(lambda: len(begun(tmp_path)) >= 4)
        victim = workers()[0]
        os.kill(victim.pid, signal.SIGKILL)
        assert [(await task).result["n"] for task in tasks] == [2 * n for n in range(12)]
    again = [n for n, times in Counter(begun(tmp_path)).items() if times > 1]
    assert len(again) <= 2
    assert set(begun(tmp_path)) == set(range(12))


@pytest.mark.slow
async def test_an_item_that_kills_its_workers_fails_alone(work: ItemWork, tmp_path: Path) -> None:
    async with open_item_workers(work, spread(2, attempts=2), at_once=2) as crew:
        tasks = [asyncio.ensure_future(crew.make({"n": n, "deadly": n == 3})) for n in range(8)]
        results = await asyncio.gather(*tasks, return_exceptions=True)
    assert begun(tmp_path).count(3) == 2
    (lost,) = [result for result in results if isinstance(result, BaseException)]
    assert isinstance(lost, WorkerLostError)
    assert lost.message == "2 workers were lost with it; the last was killed by SIGKILL"


@pytest.mark.slow
async def test_no_worker_left_ends_every_item(work: ItemWork) -> None:
    async with open_item_workers(work, spread(1, attempts=9, max_restarts=1), at_once=1) as crew:
        tasks = [asyncio.ensure_future(crew.make({"n": n, "deadly": True})) for n in range(3)]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        with pytest.raises(PaddockError, match="no worker is left"):
            await crew.make({"n": 1})
    assert {getattr(result, "kind", None) for result in results} == {"workers_lost"}


@pytest.mark.slow
async def test_what_is_wrong_with_the_work_is_said_as_it_opens(work: ItemWork) -> None:
    wrong = work._replace(given={**work.given, "wrong": True})
    with pytest.raises(ConfigError, match="it can not be opened"):
        async with open_item_workers(wrong, spread(2), at_once=2):
            pass
    assert workers() == []


@pytest.mark.slow
async def test_a_cancelled_block_ends_items_in_flight(work: ItemWork, tmp_path: Path) -> None:
    async def wait_long() -> None:
        async with open_item_workers(work, spread(2), at_once=2) as crew:
            await crew.make({"n": 1, "wait_s": 300})

    task = asyncio.create_task(wait_long())
    await until(lambda: begun(tmp_path))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert workers() == []


def test_more_workers_than_items_at_once_are_not_started() -> None:
    assert shares(WorkerSpread(workers=5), 3, None) == [1, 1, 1]
    assert shares(WorkerSpread(workers=2), 5, 9) == [3, 2]
    assert shares(WorkerSpread(workers=4), None, 3) == [1, 1, 1]
    assert shares(WorkerSpread(), 2, None) == [2]


def test_a_cluster_has_as_many_workers_as_items_at_once_and_each_may_have_all() -> None:
    assert shares(WorkerSpread(cluster="auto"), 3, 9) == [3, 3, 3]
    assert shares(WorkerSpread(cluster="auto"), None, 3) == [1, 1, 1]
    assert shares(WorkerSpread(cluster="auto", workers=2), 8, None) == [8, 8]


def shares(spread: WorkerSpread, at_once: int | None, n_items: int | None) -> list[int]:
    most = spread.most(at_once, n_items)
    return [spread.slots(nth, at_once, most) for nth in range(most)]


def begun(folder: Path) -> list[int]:
    log = folder / "log"
    return [int(line) for line in log.read_text().splitlines()] if log.exists() else []
