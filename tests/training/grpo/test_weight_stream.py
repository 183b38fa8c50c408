"""Ranks that gather weights together take part in every pass, whatever becomes of the sending on rank 0."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from paddock.training.grpo.weight_stream import AGAIN, WeightStream

N_RANKS, N_TENSORS = 3, 5
TIMEOUT_S = 20.0


class RankMeeting:
    """Collectives of some ranks, each in a thread: who is alone in one gets an error."""

    def __init__(self) -> None:
        self._barrier = Barrier(N_RANKS, timeout=TIMEOUT_S)
        self._values: list[Any] = [None] * N_RANKS

    def share(self, rank: int, own: Any) -> list[Any]:
        self._values[rank] = own
        self._barrier.wait()
        values = list(self._values)
        self._barrier.wait()
        return values

    def gather(self, rank: int, passes: list[int]) -> Iterator[tuple[str, Any]]:
        for nth in range(N_TENSORS):
            self.share(rank, nth)
            if rank == 0:
                yield str(nth), nth
        passes[rank] += 1


def run(lead: Callable[[Any], Any]) -> tuple[Any, list[int]]:
    """What rank 0 makes of its stream, and how many passes each rank made."""
    meeting, passes = RankMeeting(), [0] * N_RANKS

    def stream(rank: int) -> WeightStream:
        return WeightStream(lambda: meeting.gather(rank, passes), lambda own: meeting.share(rank, own))

    def first() -> Any:
        with stream(0).leading() as source:
            return lead(source)

    with ThreadPoolExecutor(N_RANKS) as threads:
        others = [threads.submit(stream(rank).follow) for rank in range(1, N_RANKS)]
        led = threads.submit(first)
        for other in others:
            other.result(TIMEOUT_S)
        return led.result(TIMEOUT_S), passes


def test_each_weight_is_given_as_it_is_gathered() -> None:
    names, passes = run(lambda source: [name for name, _ in source()])
    assert names == [str(nth) for nth in range(N_TENSORS)]
    assert passes == [1] * N_RANKS


def test_a_sending_that_broke_is_made_again_and_no_rank_waits_for_ever() -> None:
    def twice(source: Any) -> list[str]:
        buckets = (pair for pair in source())
        next(buckets)
        buckets.close()
        return [name for name, _ in source()]

    names, passes = run(twice)
    assert len(names) == N_TENSORS
    assert passes == [2] * N_RANKS


def test_no_pass_is_made_where_there_is_nobody_to_send_to() -> None:
    assert run(lambda _: None) == (None, [0] * N_RANKS)


def test_an_error_of_the_sending_lets_the_others_go() -> None:
    def breaks(source: Any) -> None:
        next(source())
        raise RuntimeError("no engine took them")

    with pytest.raises(RuntimeError, match="no engine took them"):
        run(breaks)


def test_an_error_of_the_gathering_is_raised_before_a_collective_that_the_others_are_not_in() -> None:
    shared: list[Any] = []

    def share(own: Any) -> list[Any]:
        shared.append(own)
        return [own]

    def gather() -> Iterator[tuple[str, Any]]:
        yield "0", 0
        raise MemoryError("no room to gather")

    with pytest.raises(MemoryError), WeightStream(gather, share).leading() as source:
        list(source())
    assert shared == [AGAIN]
