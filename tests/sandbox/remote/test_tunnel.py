"""Tunnels of a node: many streams over one link, none of which holds up another or grows without bound."""

import asyncio
import uuid
from collections.abc import Callable
from contextlib import suppress

import pytest
from tests.sandbox.remote.conftest import LossyProxy, NodeFixture

from paddock.sandbox import ExecRequest, Provider, SandboxSpec, TunnelConnection
from paddock.sandbox.remote.client import RemoteProvider
from paddock.sandbox.remote.frames import DATA, END, WINDOW_BYTES, Frame, LinkStream, unpack

ClientOf = Callable[..., RemoteProvider]
SEND = """
import socket, sys
link = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5)
link.settimeout(30)
sent = 0
try:
    for _ in range(int(sys.argv[2])):
        sent += link.send(b"x" * 65536)
        if sent % (1 << 20) < 65536:
            open("/tmp/sent", "w").write(str(sent))
    link.shutdown(socket.SHUT_WR)
    print(link.recv(100).decode(), flush=True)
except OSError as error:
    print(type(error).__name__, flush=True)
"""


async def created(provider: Provider, image: str) -> str:
    return (await provider.create(SandboxSpec(image=image), request_id=uuid.uuid4().hex)).sandbox_id


def python(provider: Provider, sandbox: str, program: str, *words: str) -> "asyncio.Task[bytes]":
    async def run() -> bytes:
        request = ExecRequest(argv=["python3", "-c", program, *words], timeout_s=60, merge_stderr=True)
        return bytes((await provider.exec(sandbox, request, request_id=uuid.uuid4().hex)).stdout).strip()

    return asyncio.ensure_future(run())


async def drain(connection: TunnelConnection) -> int:
    total = 0
    while data := await connection.read():
        total += len(data)
    return total


@pytest.mark.slow
@pytest.mark.sandbox
async def test_a_slow_reader_holds_up_its_own_stream_alone(node: NodeFixture, client_of: ClientOf, image: str) -> None:
    client = client_of(node.url)
    sandbox = await created(client, image)
    listener = await client.tunnel(sandbox, port=8123)
    slow = python(client, sandbox, SEND, "8123", "800")
    arrivals = listener.connections()
    first = await anext(arrivals)
    await asyncio.sleep(1)
    # What the sandbox could send is what sockets and windows hold, not the 50 MB that it would.
    assert int(await client.read(sandbox, "/tmp/sent")) < 20 << 20
    quick = python(client, sandbox, SEND, "8123", "16")
    second = await anext(arrivals)
    assert await asyncio.wait_for(drain(second), 20) == 16 * 65536
    await second.write(b"done")
    await second.close()
    assert await quick == b"done"
    assert not slow.done()
    assert await asyncio.wait_for(drain(first), 60) == 800 * 65536
    await first.write(b"all")
    await first.close()
    assert await slow == b"all"
    await listener.close()


@pytest.mark.slow
@pytest.mark.sandbox
async def test_a_broken_link_resets_its_streams_and_is_opened_again(
    node: NodeFixture, proxy: tuple[str, LossyProxy], client_of: ClientOf, image: str
) -> None:
    url, lossy = proxy
    client = client_of(url)
    sandbox = await created(client, image)
    listener = await client.tunnel(sandbox, port=8123)
    arrivals = listener.connections()
    running = python(client, sandbox, SEND, "8123", "800")
    connection = await anext(arrivals)
    await connection.read()
    lossy.cut()
    with pytest.raises(ConnectionResetError):
        await drain(connection)
    with pytest.raises(ConnectionResetError):
        await connection.write(b"too late")
    assert await asyncio.wait_for(running, 30) in (b"ConnectionResetError", b"BrokenPipeError")
    again = python(client, sandbox, SEND, "8123", "1")
    connection = await asyncio.wait_for(anext(arrivals), 20)
    assert await drain(connection) == 65536
    await connection.write(b"hello")
    await connection.close()
    assert await again == b"hello"


@pytest.mark.sandbox
async def test_connections_end_with_their_sandbox(node: NodeFixture, client_of: ClientOf, image: str) -> None:
    client = client_of(node.url)
    sandbox = await created(client, image)
    listener = await client.tunnel(sandbox, port=0)
    running = python(client, sandbox, SEND, str(listener.port), "800")
    arrivals = listener.connections()
    connection = await anext(arrivals)
    await client.destroy(sandbox)
    with suppress(ConnectionResetError):  # or its end: what the killed program's kernel says
        await asyncio.wait_for(drain(connection), 10)
    with pytest.raises(ConnectionResetError):
        await connection.write(b"too late")
    assert [one async for one in arrivals] == []
    await asyncio.wait([running])
    assert running.exception() is not None


async def test_a_stream_takes_no_more_than_its_window() -> None:
    async def send(message: bytes) -> None:
        """Nobody listens."""

    stream = LinkStream(1, send)
    stream.take(Frame(DATA, 1, b"x" * WINDOW_BYTES))
    with pytest.raises(ValueError, match="window"):
        stream.take(Frame(DATA, 1, b"x"))
    assert len(await stream.read(WINDOW_BYTES)) == WINDOW_BYTES
    stream.take(Frame(DATA, 1, b"y"))
    stream.take(Frame(END, 1))
    assert [await stream.read(), await stream.read()] == [b"y", b""]


async def test_a_writer_waits_for_its_reader() -> None:
    sent: list[Frame] = []

    async def send(message: bytes) -> None:
        sent.append(unpack(message))

    here, there = LinkStream(1, send), LinkStream(1, send)
    writing = asyncio.ensure_future(here.write(b"z" * (WINDOW_BYTES + 1)))
    await asyncio.sleep(0)
    assert not writing.done()
    assert sum(len(frame.data) for frame in sent) == WINDOW_BYTES
    for frame in sent:
        there.take(frame)
    sent.clear()
    for _ in range(4):
        await there.read()
    for frame in sent:
        here.take(frame)
    await asyncio.wait_for(writing, 5)


@pytest.mark.parametrize("message", [b"", b"\x09\0\0\0\1", b"\x01\0"])
def test_what_is_no_frame_is_refused(message: bytes) -> None:
    with pytest.raises(ValueError, match="no frame"):
        unpack(message)
