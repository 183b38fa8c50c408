"""Claims about messages between a driver and its workers, under each event loop."""

import asyncio
import socket
from collections.abc import Callable
from itertools import pairwise

import orjson
import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.collect.jobs import WorkerMessage
from paddock.collect.message_channel import MessageChannel

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


@pytest.mark.parametrize("loop_factory", LOOPS, ids=["asyncio", "uvloop"])
def test_what_is_sent_to_one_that_is_gone_is_a_connection_error(
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def send_until_refused() -> None:
        ours, theirs = socket.socketpair()
        channel = await MessageChannel.over(ours)
        theirs.close()
        assert await channel.receive() is None
        with pytest.raises(ConnectionError):
            for _ in range(10):
                await channel.send(WorkerMessage({"number": 1}, b"x" * 1000))
                await asyncio.sleep(0.01)
        with pytest.raises(ConnectionError):
            await channel.send(WorkerMessage({"number": 2}, b""))
        channel.close()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(send_until_refused())


def frame(message: WorkerMessage) -> bytes:
    head = orjson.dumps(message.head)
    return len(head).to_bytes(4, "big") + len(message.body).to_bytes(4, "big") + head + message.body


@settings(max_examples=60, deadline=None)
@given(
    bodies=st.lists(st.binary(max_size=300), min_size=1, max_size=8),
    cuts=st.lists(st.integers(min_value=0, max_value=2500), max_size=12),
    loop_factory=st.sampled_from(LOOPS),
)
def test_messages_arrive_whole_and_in_order_however_their_bytes_are_split(
    bodies: list[bytes], cuts: list[int], loop_factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    messages = [WorkerMessage({"number": number}, body) for number, body in enumerate(bodies)]
    data = b"".join(map(frame, messages))
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})

    async def receive_all() -> list[WorkerMessage]:
        ours, theirs = socket.socketpair()
        channel = await MessageChannel.over(ours)
        with theirs:
            for start, end in pairwise(edges):
                theirs.sendall(data[start:end])
                await asyncio.sleep(0)
            # The start of one more, which never comes in full.
            theirs.sendall(data[:9])
        received = []
        while (message := await channel.receive()) is not None:
            received.append(message)
        channel.close()
        return received

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert runner.run(receive_all()) == messages


@pytest.mark.parametrize("loop_factory", LOOPS, ids=["asyncio", "uvloop"])
def test_who_sends_waits_for_who_does_not_read_and_nothing_is_lost(
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    n_messages, size = 400, 100_000

    async def send_to_a_sleeper() -> None:
        ours, theirs = socket.socketpair()
        sender, reader = await MessageChannel.over(ours), await MessageChannel.over(theirs)
        n_sent = 0

        async def send_all() -> None:
            nonlocal n_sent
            for number in range(n_messages):
                await sender.send(WorkerMessage({"number": number}, bytes(size)))
                n_sent = number + 1

        sending = asyncio.create_task(send_all())
        await asyncio.sleep(0.3)
        assert n_sent * size < 4 << 20, f"{n_sent} messages were taken from a sender that nobody reads"
        numbers: list[int] = []
        while len(numbers) < n_messages:
            message = await reader.receive()
            assert message is not None
            numbers.append(message.head["number"])
            assert len(message.body) == size
        assert numbers == list(range(n_messages))
        await sending
        sender.close()
        assert await reader.receive() is None
        reader.close()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(send_to_a_sleeper())
