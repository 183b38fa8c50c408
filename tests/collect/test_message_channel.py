"""Claims about messages between a driver and its workers, under each event loop."""

import asyncio
import socket
from collections.abc import Callable

import pytest
import uvloop

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
