"""The node's end of tunnels: each connection that a sandbox makes is a stream over the one link of its tunnel.

Law     nothing listens on the network for a tunnel: its client opens the link. A tunnel outlives its link: while there
        is none, new connections wait for the next, and those that were carried over the lost one are reset.
"""

import asyncio
from contextlib import suppress

from starlette.websockets import WebSocket, WebSocketDisconnect

from paddock.sandbox import TunnelConnection, TunnelListener
from paddock.sandbox.remote.frames import OPEN, Frame, LinkStream, unpack


class NodeTunnel:
    """A listener in a sandbox, and its streams."""

    def __init__(self, listener: TunnelListener) -> None:
        self.port = listener.port
        self._listener = listener
        self._link: WebSocket | None = None
        self._linked = asyncio.Event()
        self._streams: dict[int, LinkStream] = {}
        self._carriers: set[asyncio.Task[None]] = set()
        self._count = 0
        self._accepting = asyncio.ensure_future(self._accept())

    async def serve(self, link: WebSocket) -> None:
        """Carry streams over a link until it ends; an earlier one is cut."""
        await link.accept()
        await self._unlink()
        self._link = link
        self._linked.set()
        try:
            while True:
                frame = unpack(await link.receive_bytes())
                if (stream := self._streams.get(frame.stream)) is not None:
                    stream.take(frame)
        except (WebSocketDisconnect, ValueError, KeyError, RuntimeError):
            pass  # it has gone, or what it sends is no tunnel's
        finally:
            if self._link is link:
                await self._unlink()

    async def close_listener(self) -> None:
        """Accept no more; streams that live go on."""
        self._accepting.cancel()
        await self._listener.close()

    async def end(self) -> None:
        """Close everything."""
        await self.close_listener()
        await self._unlink()
        for task in self._carriers:
            task.cancel()
        if self._carriers:
            await asyncio.wait(self._carriers)

    async def _unlink(self) -> None:
        """Reset the streams of the link, and let it go."""
        link, self._link = self._link, None
        self._linked.clear()
        for stream in self._streams.values():
            stream.reset()
        self._streams.clear()
        if link is not None:
            with suppress(RuntimeError, OSError, WebSocketDisconnect):  # it has gone already
                await link.close()

    async def _accept(self) -> None:
        async for connection in self._listener.connections():
            task = asyncio.ensure_future(self._carry(connection))
            self._carriers.add(task)
            task.add_done_callback(self._carriers.discard)

    async def _carry(self, connection: TunnelConnection) -> None:
        """One connection, to its end."""
        try:
            await self._linked.wait()
            link = self._link
            assert link is not None  # it is linked
            self._count += 1
            stream = LinkStream(self._count, lambda message: self._send(link, message))
            self._streams[stream.number] = stream
            try:
                await self._send(link, Frame(OPEN, stream.number).pack())
                await _pump(connection, stream)
            finally:
                self._streams.pop(stream.number, None)
                await stream.close()
        finally:
            await connection.close()

    async def _send(self, link: WebSocket, message: bytes) -> None:
        """What is for a lost link is dropped: its streams are reset."""
        if self._link is link:
            with suppress(RuntimeError, OSError, WebSocketDisconnect):
                await link.send_bytes(message)


async def _pump(connection: TunnelConnection, stream: LinkStream) -> None:
    """Carry bytes both ways until the client closes, or the sandbox can't be written to."""
    outward = asyncio.ensure_future(_outward(connection, stream))
    try:
        with suppress(OSError):
            while data := await stream.read():
                await connection.write(data)
    finally:
        outward.cancel()
        await asyncio.wait([outward])


async def _outward(connection: TunnelConnection, stream: LinkStream) -> None:
    try:
        while data := await connection.read():
            await stream.write(data)
        await stream.finish()
    except OSError:
        await stream.close()
