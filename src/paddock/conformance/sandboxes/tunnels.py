"""Tunnels: a port of the sandbox's loopback whose other end is outside; the one way out."""

import asyncio

from paddock.conformance.behaviours import Behaviour, expect
from paddock.conformance.sandboxes.fixture import SandboxTarget, create_sandbox, error_of, provider_of, sandbox_fixture
from paddock.sandbox import TunnelConnection, TunnelListener

ASK = """
import socket, sys
link = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 3)
link.sendall(sys.stdin.buffer.read())
link.shutdown(socket.SHUT_WR)
while data := link.recv(65536):
    sys.stdout.buffer.write(data)
"""


async def _echo(listener: TunnelListener) -> None:
    """Answers each connection with what it said, twice."""

    async def answer(connection: TunnelConnection) -> None:
        data = b""
        while chunk := await connection.read():
            data += chunk
        await connection.write(data * 2)
        await connection.close()

    async with asyncio.TaskGroup() as group:
        async for connection in listener.connections():
            group.create_task(answer(connection))


async def tunnels_reach_out(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        await sandbox.needs("python3")
        listener = await sandbox.provider.tunnel(sandbox.id, port=8123)
        expect(listener.port == 8123, f"port {listener.port} instead of 8123")
        serving = asyncio.ensure_future(_echo(listener))
        texts = [b"", b"one", bytes(range(256)) * 4000]
        results = await asyncio.gather(
            *(sandbox.python(ASK, "8123", stdin=text, timeout_s=30, head_bytes=4 << 20) for text in texts * 3)
        )
        for text, result in zip(texts * 3, results, strict=True):
            expect(
                result.ok and bytes(result.stdout) == text * 2, f"{len(text)} bytes: {bytes(result.stderr)[-300:]!r}"
            )
        await listener.close()
        await asyncio.wait_for(serving, 5)


async def closed_tunnels_are_closed(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        await sandbox.needs("python3")
        listener = await sandbox.provider.tunnel(sandbox.id, port=0)
        port = listener.port
        expect(port > 0, "a free port was asked for, and none was given")
        await listener.close()
        await listener.close()
        result = await sandbox.python(ASK, str(port), timeout_s=20)
        expect(
            not result.ok and b"refused" in bytes(result.stderr), f"a closed tunnel: {bytes(result.stderr)[-200:]!r}"
        )
        again = await sandbox.provider.tunnel(sandbox.id, port=port)
        expect(again.port == port, "its port can't be used again")
        await again.close()


async def tunnels_are_one_sandboxes_own(target: SandboxTarget) -> None:
    async with provider_of(target) as provider:
        sandbox, other = await create_sandbox(provider, target), await create_sandbox(provider, target)
        listener = await provider.tunnel(sandbox.id, port=8123)
        result = await other.python(ASK, "8123", timeout_s=20)
        expect(not result.ok, "another sandbox's tunnel was reached")
        same = await provider.tunnel(other.id, port=8123)
        error = await error_of(provider.tunnel(sandbox.id, port=8123))
        expect(error is not None, "two tunnels have one port")
        await same.close()
        await listener.close()


SUITE = [
    Behaviour("a tunnel carries bytes both ways, many at once", tunnels_reach_out),
    Behaviour("a closed tunnel is closed, and its port is free", closed_tunnels_are_closed),
    Behaviour("a tunnel is in reach of its own sandbox alone", tunnels_are_one_sandboxes_own),
]
