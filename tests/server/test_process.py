"""Claims about a server's process that dies while it is spoken to: that is said, whenever it happens."""

import asyncio
import socket

import pytest

from paddock.errors import InfraError
from paddock.server.handover import Handover
from paddock.server.process import ServerProcess
from paddock.server.settings import RequestLimits

pytestmark = pytest.mark.cli
CONFIG = "cue: {resources_servers: {paddock.testing.servers:CueServer: {}}}\n"


def start_process(listener: socket.socket) -> ServerProcess:
    handover = Handover(
        name="cue",
        config=CONFIG,
        listen_fd=listener.fileno(),
        peers={},
        path=[],
        requests=RequestLimits(),
        start_timeout_s=60.0,
        stop_timeout_s=2.0,
    )
    return ServerProcess(handover)


@pytest.mark.slow
async def test_one_that_died_before_it_is_told_to_go_is_said_to_have_been_killed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = start_process(listener)
        await process.prepare()
        process.kill()
        await process.exit_code()
        with pytest.raises(InfraError, match="was killed by SIGKILL while starting"):
            await process.go()
        await process.stop(1.0)


async def test_so_is_one_that_dies_while_it_is_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = start_process(listener)
        waiting = asyncio.ensure_future(process.prepare())
        await asyncio.sleep(0)
        process.kill()
        with pytest.raises(InfraError, match="was killed by SIGKILL while starting"):
            await waiting
        await process.stop(1.0)
