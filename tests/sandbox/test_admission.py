"""Claims about admission: who waits, who goes first, and what is free afterwards."""

import asyncio
import math
import os

import pytest

from paddock.errors import ConfigError
from paddock.sandbox.admission import Admission, AdmissionSettings, Capacity, machine_mib, shared_admission

ALL = Capacity(1000, 4)


class Guest:
    """One that holds its room until it is told to leave."""

    def __init__(self, admission: Admission, memory_mib: float, cores: float = 1) -> None:
        self.inside = False
        self.leave = asyncio.Event()
        self.task = asyncio.create_task(self._stay(admission, Capacity(memory_mib, cores)))

    async def _stay(self, admission: Admission, room: Capacity) -> None:
        async with admission.hold(room):
            self.inside = True
            await self.leave.wait()
        self.inside = False


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_what_fits_goes_in_and_the_rest_waits_for_room() -> None:
    admission = Admission(ALL)
    guests = [Guest(admission, 400) for _ in range(3)]
    await settled()
    assert [guest.inside for guest in guests] == [True, True, False]
    assert (admission.free, admission.waiting) == (Capacity(200, 2), 1)
    guests[0].leave.set()
    await settled()
    assert [guest.inside for guest in guests] == [False, True, True]
    for guest in guests:
        guest.leave.set()
    await asyncio.gather(*(guest.task for guest in guests))
    assert admission.free == ALL


async def test_cores_are_counted_apart_from_memory() -> None:
    admission = Admission(ALL)
    guests = [Guest(admission, 1, 2.5), Guest(admission, 1, 2)]
    await settled()
    assert [guest.inside for guest in guests] == [True, False]
    for guest in guests:
        guest.leave.set()
    await asyncio.gather(*(guest.task for guest in guests))


async def test_a_small_wish_does_not_overtake_a_large_one() -> None:
    admission = Admission(ALL)
    first, large, small = Guest(admission, 500), Guest(admission, 900), Guest(admission, 100)
    await settled()
    assert (first.inside, large.inside, small.inside) == (True, False, False)
    first.leave.set()
    await settled()
    assert (large.inside, small.inside) == (True, True)
    for guest in (large, small):
        guest.leave.set()
    await asyncio.gather(first.task, large.task, small.task)


async def test_one_that_gives_up_waiting_takes_nothing_and_lets_others_pass() -> None:
    admission = Admission(ALL)
    first, large, small = Guest(admission, 500), Guest(admission, 900), Guest(admission, 100)
    await settled()
    large.task.cancel()
    await settled()
    assert small.inside
    first.leave.set()
    small.leave.set()
    await asyncio.gather(first.task, small.task)
    assert (admission.free, admission.waiting) == (ALL, 0)


async def test_one_that_is_cancelled_as_it_is_admitted_gives_its_room_back() -> None:
    admission = Admission(ALL)
    first, second = Guest(admission, 900), Guest(admission, 900)
    await settled()
    first.leave.set()
    while admission.waiting:
        await asyncio.sleep(0)
    second.task.cancel()
    await asyncio.gather(first.task, second.task, return_exceptions=True)
    assert admission.free == ALL


async def test_fractions_of_cores_add_up() -> None:
    admission = Admission(Capacity(1000, 1))
    guests = [Guest(admission, 1, 0.1) for _ in range(10)]
    await settled()
    assert all(guest.inside for guest in guests)
    for guest in guests:
        guest.leave.set()
    await asyncio.gather(*(guest.task for guest in guests))


@pytest.mark.parametrize("demand", [Capacity(1001, 1), Capacity(1, 5)])
async def test_what_never_fits_is_said_at_once(demand: Capacity) -> None:
    admission = Admission(ALL)
    with pytest.raises(ConfigError, match=r"never fits.*1000 MiB of memory, 4 cores"):
        async with admission.hold(demand):
            pass


def test_settings_default_to_this_machine_and_count_a_sandbox_by_its_limit() -> None:
    settings = AdmissionSettings(memory_headroom_mib=100, cores_per_sandbox=0.5)
    assert settings.total() == Capacity(machine_mib() - 100, len(os.sched_getaffinity(0)), math.inf, math.inf)
    assert settings.demand(2048) == Capacity(2048, 0.5, 256, 1)
    assert settings.demand(None).memory_mib == settings.total().memory_mib
    assert AdmissionSettings(memory_per_sandbox_mib=300).demand(2048).memory_mib == 300
    bounded = AdmissionSettings(memory_mib=5000, cores=3, disk_mib=700, max_sandboxes=4)
    assert bounded.total() == Capacity(5000, 3, 700, 4)
    assert settings.resolved(900).total() == settings.total()._replace(
        memory_mib=int(machine_mib() - 100), disk_mib=900
    )


async def test_what_is_not_bounded_stays_so_however_much_is_taken() -> None:
    admission = Admission(AdmissionSettings(memory_mib=500, cores=2).total())
    async with admission.hold(admission.total):
        assert admission.free == Capacity(0, 0, math.inf, math.inf)
    assert admission.free == admission.total


async def test_room_is_taken_at_once_or_not_at_all_and_never_before_those_who_wait() -> None:
    admission = Admission(ALL)
    first, large = Guest(admission, 500), Guest(admission, 900)
    await asyncio.sleep(0)
    assert not admission.take_now(Capacity(100, 1))
    large.task.cancel()
    await asyncio.wait([large.task])
    assert admission.take_now(Capacity(100, 1))
    assert not admission.take_now(Capacity(500, 1))
    admission.give(Capacity(100, 1))
    first.leave.set()
    await first.task
    assert admission.free == ALL


async def test_servers_of_a_process_share_the_count() -> None:
    settings = AdmissionSettings(memory_mib=500)
    one, two = await shared_admission(settings), await shared_admission(AdmissionSettings(memory_mib=500))
    other = await shared_admission(AdmissionSettings(memory_mib=600))
    assert one.value is two.value is not other.value
    for lease in (one, two, other):
        await lease.release()
