"""What is kept of a stream is its head and its tail, exactly; and reading it costs no more than its size."""

import asyncio
import os
import time

from hypothesis import given
from hypothesis import strategies as st

from paddock.sandbox.capture import HeadTailBuffer, OutputReader
from paddock.sandbox.records import Output

KEEP = 1 << 10


def kept_of(chunks: list[bytes], head_bytes: int, tail_bytes: int) -> Output:
    kept = HeadTailBuffer(head_bytes, tail_bytes)
    for chunk in chunks:
        kept.add(chunk)
    return kept.output()


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(0, 60), st.integers(0, 60))
def test_head_and_tail_are_those_of_the_whole(chunks: list[bytes], head_bytes: int, tail_bytes: int) -> None:
    whole = b"".join(chunks)
    head, rest = whole[:head_bytes], whole[head_bytes:]
    tail = rest[max(0, len(rest) - tail_bytes) :]
    expected = Output(head=head, tail=tail, dropped_bytes=len(rest) - len(tail))
    assert kept_of(chunks, head_bytes, tail_bytes) == expected


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(0, 60), st.integers(0, 60))
def test_it_does_not_matter_how_a_stream_is_cut(chunks: list[bytes], head_bytes: int, tail_bytes: int) -> None:
    assert kept_of(chunks, head_bytes, tail_bytes) == kept_of([b"".join(chunks)], head_bytes, tail_bytes)


def test_what_was_kept_is_said_with_what_was_not() -> None:
    assert bytes(Output(head=b"whole")) == b"whole"
    assert bytes(Output(head=b"ab", tail=b"yz", dropped_bytes=7)) == b"ab\n[... 7 bytes left out ...]\nyz"
    assert Output(head=b"ab", tail=b"yz").whole


def test_no_more_is_held_than_is_kept_and_a_chunk() -> None:
    kept = HeadTailBuffer(KEEP, KEEP)
    for _ in range(1000):
        kept.add(bytes(100))
    assert sum(map(len, kept._tail)) <= KEEP + 100


def test_time_grows_with_the_size_alone() -> None:
    def seconds(count: int) -> float:
        started = time.process_time()
        kept = HeadTailBuffer(KEEP, 1 << 20)
        for _ in range(count):
            kept.add(b"x" * 100)
        assert kept.output().head
        return time.process_time() - started

    small, large = min(seconds(20_000) for _ in range(3)), min(seconds(200_000) for _ in range(2))
    assert large < 30 * small, f"ten times as much took {large / small:.0f} times as long"


async def test_a_reader_reads_until_the_writers_have_gone() -> None:
    read, write = os.pipe()
    kept = HeadTailBuffer(1 << 20, 0)
    reader = OutputReader(read, kept)
    await asyncio.to_thread(os.write, write, b"x" * 60_000)
    os.close(write)
    await asyncio.wait_for(reader.ended.wait(), 60)
    assert len(kept.output().head) == 60_000
    reader.close()


async def test_a_reader_that_is_closed_lets_go_of_its_descriptor() -> None:
    read, write = os.pipe()
    kept = HeadTailBuffer(10, 10)
    reader = OutputReader(read, kept)
    os.write(write, b"there")
    reader.drain()
    reader.close()
    reader.close()
    os.close(write)
    assert kept.output().head == b"there"
    assert reader.ended.is_set()
