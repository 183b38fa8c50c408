"""Connections to a listening socket are taken one after the other until it is closed."""

import asyncio
import socket

import pytest

from paddock.sandbox.socket_listener import SocketListener


@pytest.fixture
def listening() -> socket.socket:
    """A listener owns it."""
    made = socket.create_server(("127.0.0.1", 0))
    made.setblocking(False)
    return made


async def test_bytes_go_both_ways_until_the_other_side_closes(listening: socket.socket) -> None:
    listener = SocketListener(listening)
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    connection = await anext(listener.connections().__aiter__())
    writer.write(b"question")
    assert await connection.read() == b"question"
    await connection.write(b"x" * 1_000_000)
    assert len(await reader.readexactly(1_000_000)) == 1_000_000
    writer.close()
    await writer.wait_closed()
    assert await connection.read() == b""
    await connection.close()
    await listener.close()


async def test_closing_ends_the_loop_and_refuses_the_next(listening: socket.socket) -> None:
    listener = SocketListener(listening)
    taken: list[object] = []

    async def serve() -> None:
        async for connection in listener.connections():
            taken.append(connection)
            await connection.close()

    serving = asyncio.ensure_future(serve())
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    assert await reader.read() == b""
    writer.close()
    await listener.close()
    await listener.close()
    await asyncio.wait_for(serving, 60)
    assert len(taken) == 1
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", listener.port)


async def test_connections_that_nobody_took_are_closed_with_it(listening: socket.socket) -> None:
    listener = SocketListener(listening)
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    await asyncio.sleep(0.05)
    await listener.close()
    assert await asyncio.wait_for(reader.read(), 60) == b""
    writer.close()
    assert [connection async for connection in listener.connections()] == []
