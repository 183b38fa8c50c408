"""Claims about shares: who is there first leaves those that start theirs, and nobody waits for what does not come."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.collect.shares import FirstStarts, has_room
from paddock.errors import InfraError


class OneLoad:
    """A worker with so many slots."""

    def __init__(self, slots: int = 10**6) -> None:
        self.slots = slots
        self.n_running = 0


def fill(loads: list[OneLoad], n_starting: int, at_once: int, rows: int = 10**6) -> int:
    """Give out rows until no worker has room for one; returns how many are left."""
    while rows and (free := [load for load in loads if has_room(load, loads, n_starting, at_once)]):
        free[0].n_running += 1
        rows -= 1
    return rows


present = st.lists(st.integers(1, 40).map(OneLoad), min_size=1, max_size=8)
counts = st.integers(0, 8)
at_onces = st.integers(1, 100)


@given(present, counts, at_onces)
def test_those_that_start_find_their_shares(loads: list[OneLoad], n_starting: int, at_once: int) -> None:
    fill(loads, n_starting, at_once)
    running, all_shares = sum(load.n_running for load in loads), len(loads) + n_starting
    assert running <= at_once
    assert all(load.n_running < 1 + at_once / all_shares for load in loads)
    assert at_once - running >= n_starting * (at_once // all_shares) - len(loads)


@given(counts.map(lambda n: n + 1), at_onces)
def test_workers_that_are_all_there_have_all_in_flight_in_even_shares(n_workers: int, at_once: int) -> None:
    loads = [OneLoad() for _ in range(n_workers)]
    fill(loads, 0, at_once)
    assert sum(load.n_running for load in loads) == at_once


@given(counts, at_onces, st.data())
def test_fewer_rows_than_a_share_wait_for_no_start(n_starting: int, at_once: int, data: st.DataObject) -> None:
    rows = data.draw(st.integers(0, -(-at_once // (1 + n_starting))))
    assert fill([OneLoad()], n_starting, at_once, rows) == 0


@given(present, counts, at_onces)
def test_whatever_starts_an_idle_crew_takes_a_row(loads: list[OneLoad], n_starting: int, at_once: int) -> None:
    assert all(has_room(load, loads, n_starting, at_once) for load in loads)


@pytest.fixture
def ends() -> list[int]:
    return []


@pytest.fixture
def first_starts(ends: list[int]) -> Callable[[float], FirstStarts]:
    """Counts into `ends` how many start where one has ended."""

    def make(start_s: float) -> FirstStarts:
        starts = FirstStarts(lambda: ends.append(len(starts)), start_s=start_s)
        return starts

    return make


async def there() -> str:
    return "there"


async def fails() -> str:
    raise InfraError("no such luck")


async def hangs() -> str:
    await asyncio.Future()
    raise AssertionError("nothing sets it")


async def test_a_place_has_a_share_until_its_first_start_ends(
    first_starts: Callable[[float], FirstStarts], ends: list[int]
) -> None:
    starts = first_starts(60.0)
    first, second = starts.watch(there), starts.watch(fails)
    assert len(starts) == 2
    assert await first() == "there"
    with pytest.raises(InfraError):
        await second()
    assert ends == [1, 0]
    assert await first() == "there"
    assert (len(starts), ends) == (0, [1, 0])


async def test_a_start_that_takes_long_gives_its_share_to_the_others(
    first_starts: Callable[[float], FirstStarts], ends: list[int]
) -> None:
    starts = first_starts(0.01)
    start = asyncio.ensure_future(starts.watch(hangs)())
    async with asyncio.timeout(10):
        while not ends:
            await asyncio.sleep(0.001)
    start.cancel()
    await asyncio.gather(start, return_exceptions=True)
    assert (len(starts), ends) == (0, [0])
