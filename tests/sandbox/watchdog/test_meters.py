"""How much memory a sandbox is said to use, against what its processes were told to take."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from paddock.sandbox.watchdog import Census
from paddock.sandbox.watchdog.meters import ProcessMeter

pytestmark = pytest.mark.sandbox
MIB = 2**20


class Measured:
    """A space with a meter on it."""

    def __init__(self, space: Any, threshold_mib: int | None) -> None:
        self.census = Census()
        self.key = self.census.add(space.pid)
        threshold = None if threshold_mib is None else threshold_mib * MIB
        self.meter = ProcessMeter(space.pid, ("/dev/shm",), threshold=threshold, swap=False)

    def mib(self, now: float = 0.0) -> float:
        return self.meter.use(self.census.take()[self.key], now, cpu=False).memory_bytes / MIB


@pytest.fixture
def measured(space: Any) -> Iterator[Callable[..., Measured]]:
    made: list[Measured] = []

    def measure(threshold_mib: int | None = None) -> Measured:
        made.append(Measured(space, threshold_mib))
        return made[-1]

    yield measure
    for one in made:
        one.meter.close()
        one.census.close()


@pytest.mark.parametrize("threshold_mib", [None, 60])
def test_memory_of_a_process_counts(space: Any, measured: Callable[..., Measured], threshold_mib: int | None) -> None:
    one = measured(threshold_mib)
    before = one.mib()
    space.hold(50)
    assert before < 10
    assert 50 <= one.mib() - before < 65


def test_files_in_shared_memory_count(space: Any, measured: Callable[..., Measured]) -> None:
    one = measured()
    before = one.mib()
    space.do("head -c 30M /dev/zero > /dev/shm/file")
    space.say("written")
    assert 29 <= one.mib() - before < 33


def test_a_mapped_file_in_shared_memory_counts_once(space: Any, measured: Callable[..., Measured]) -> None:
    one = measured(40)
    code = 'import mmap, time; f = open("/dev/shm/m", "w+b"); f.truncate(30 << 20); m = mmap.mmap(f.fileno(), 0); '
    space.python(code + 'm.write(b"x" * (30 << 20)); print("mapped", flush=True); time.sleep(60)')
    space.hear("mapped")
    assert 29 <= one.mib() < 50


def test_memory_shared_without_a_file_counts_near_the_limit(space: Any, measured: Callable[..., Measured]) -> None:
    one = measured(40)
    code = 'import mmap, time; m = mmap.mmap(-1, 30 << 20); m.write(b"x" * (30 << 20)); '
    space.python(code + 'print("mapped", flush=True); time.sleep(60)')
    space.hear("mapped")
    assert 29 <= one.mib() < 50


def test_forks_that_share_their_pages_count_once_near_the_limit(space: Any, measured: Callable[..., Measured]) -> None:
    far, near = measured(100_000), measured(100)
    forks = (
        'import os, time; [os.fork() or time.sleep(60) for _ in range(12)]; print("forked", flush=True); time.sleep(60)'
    )
    space.hold(40, then=forks)
    space.hear("forked")
    assert far.mib() > 300
    assert 40 <= near.mib() < 100


def test_exact_figures_are_read_again_when_cheap_ones_grow(space: Any, measured: Callable[..., Measured]) -> None:
    one = measured(50)
    space.hold(32)
    first = one.mib(0.0)
    space.hold(32)
    assert one.mib(0.01) > first + 31


def test_cpu_seconds_of_children_that_ended_count(space: Any, measured: Callable[..., Measured]) -> None:
    one = measured()
    space.python("import time; [None for _ in iter(time.process_time, None) if _ > 0.3 and exit()]", background=False)
    space.say("done")
    assert 0.25 < one.meter.use(one.census.take()[one.key], 0.0, cpu=True).cpu_s < 5
