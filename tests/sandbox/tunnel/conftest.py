"""A tunnel whose listener is a plain socket on this machine's loopback."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from paddock.sandbox.socket_listener import SocketListener
from paddock.sandbox.tunnel import ModelRequest, Tunnel, TunnelSettings, UpstreamAnswer

Open = Callable[..., Awaitable[Tunnel]]


class Scripted:
    """An upstream that answers what it is told, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[ModelRequest] = []
        self.status = 200
        self.headers = {"content-type": "text/event-stream"}
        self.parts: list[bytes] = [b"data: 1\n\n", b"data: 2\n\n"]
        self.go: asyncio.Event | None = None
        """Awaited before each part but the first."""
        self.fails_before: Exception | None = None
        self.fails_after: Exception | None = None
        self.running = 0

    @asynccontextmanager
    async def __call__(self, request: ModelRequest) -> AsyncIterator[UpstreamAnswer]:
        self.asked.append(request)
        self.running += 1
        try:
            if self.fails_before:
                raise self.fails_before
            yield UpstreamAnswer(self.status, self.headers, self._body())
        finally:
            self.running -= 1

    async def _body(self) -> AsyncIterator[bytes]:
        for number, part in enumerate(self.parts):
            if number and self.go is not None:
                await self.go.wait()
                self.go.clear()
            yield part
        if self.fails_after:
            raise self.fails_after


@pytest.fixture
def upstream() -> Scripted:
    return Scripted()


@pytest.fixture
async def open_tunnel(upstream: Scripted) -> AsyncIterator[Open]:
    opened: list[Tunnel] = []

    async def make(behind: Any = None, settings: TunnelSettings | None = None, **more: Any) -> Tunnel:
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setblocking(False)
        tunnel = Tunnel(SocketListener(listening), behind or upstream, settings, **more)
        await tunnel.__aenter__()
        opened.append(tunnel)
        return tunnel

    yield make
    for tunnel in opened:
        await tunnel.close()
