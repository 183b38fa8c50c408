"""The client's end of a tunnel: connections that the sandbox makes come as streams over one WebSocket.

Law     a link that breaks resets the streams over it, as a cut cable does, and is opened anew while the lease lives.
        A closed listener accepts no more; connections that were taken from it go on.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress

import aiohttp

from paddock.sandbox.failures import SandboxError
from paddock.sandbox.remote.calls import call
from paddock.sandbox.remote.frames import CHUNK_BYTES, OPEN, LinkStream, unpack
from paddock.sandbox.remote.http import UnreachableError
from paddock.sandbox.remote.lease import NodeLease
from paddock.sandbox.remote.wire import CLOSE_TUNNEL, TUNNEL_LINK, Nothing, TunnelGrant

RELINK_WAIT_S = 0.5
"""Seconds before a link that broke is opened again."""
_log = logging.getLogger("paddock.sandbox")


class LinkConnection:
    """One connection from inside a sandbox."""

    def __init__(self, stream: LinkStream, forget: "asyncio.Event") -> None:
        self._stream = stream
        self._forget = forget

    async def read(self, max_bytes: int = CHUNK_BYTES) -> bytes:
        return await self._stream.read(max_bytes)

    async def write(self, data: bytes) -> None:
        await self._stream.write(data)

    async def close(self) -> None:
        await self._stream.finish()
        await self._stream.close()
        self._forget.set()


class LinkListener:
    """A port of a sandbox's loopback on another machine."""

    def __init__(self, lease: NodeLease, sandbox_id: str, grant: TunnelGrant) -> None:
        self.port: int = grant.port
        self._lease = lease
        self._sandbox_id = sandbox_id
        self._tunnel_id = grant.tunnel_id
        self._arrived: asyncio.Queue[LinkStream | None] = asyncio.Queue()
        self._streams: dict[int, LinkStream] = {}
        self._closed = False
        self._changed = asyncio.Event()
        """A stream has ended, or the listener was closed."""
        self._linking = asyncio.ensure_future(self._keep_link())

    async def connections(self) -> AsyncIterator[LinkConnection]:
        """Until it is closed."""
        while (stream := await self._arrived.get()) is not None:
            yield LinkConnection(stream, self._changed)

    async def close(self) -> None:
        """Idempotent; connections that nobody has taken are closed too."""
        if self._closed:
            return
        self._closed = True
        with suppress(SandboxError):  # then the lease is lost, and the tunnel with it
            await call(self._lease, CLOSE_TUNNEL, Nothing(), sandbox_id=self._sandbox_id, tunnel_id=self._tunnel_id)
        while not self._arrived.empty():
            if (stream := self._arrived.get_nowait()) is not None:
                await stream.close()
        self._arrived.put_nowait(None)
        self._changed.set()

    async def end(self) -> None:
        """Close it and all its connections: the sandbox ends."""
        if not self._closed:
            self._closed = True
            self._arrived.put_nowait(None)
        self._linking.cancel()
        await asyncio.wait([self._linking])

    async def _keep_link(self) -> None:
        path = TUNNEL_LINK.format(sandbox_id=self._sandbox_id, tunnel_id=self._tunnel_id)
        while not (self._closed or self._lease.lost.done()):
            try:
                link = await self._lease.http.link(path, self._lease.headers())
            except UnreachableError as error:
                _log.info("the link of a tunnel could not be opened: %s", error)
            else:
                try:
                    await self._carry(link)
                finally:
                    self._reset()
                    await link.close()
            if not self._closed:
                await asyncio.sleep(RELINK_WAIT_S)

    async def _carry(self, link: aiohttp.ClientWebSocketResponse) -> None:
        """Take what comes over a link, until it breaks or is of no more use."""
        receiving = asyncio.ensure_future(self._receive(link))
        try:
            while not receiving.done():
                self._changed.clear()
                self._streams = {number: stream for number, stream in self._streams.items() if not stream.closed}
                if self._closed and not self._streams:
                    return
                changed = asyncio.ensure_future(self._changed.wait())
                await asyncio.wait([receiving, changed], return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
        finally:
            receiving.cancel()
            await asyncio.wait([receiving])

    async def _receive(self, link: aiohttp.ClientWebSocketResponse) -> None:
        async def send(message: bytes) -> None:
            with suppress(OSError, aiohttp.ClientError):  # a lost link's streams are reset
                await link.send_bytes(message)

        async for message in link:
            if message.type is not aiohttp.WSMsgType.BINARY:
                continue
            try:
                frame = unpack(message.data)
                if frame.kind == OPEN:
                    self._streams[frame.stream] = LinkStream(frame.stream, send)
                    self._arrived.put_nowait(self._streams[frame.stream])
                elif (stream := self._streams.get(frame.stream)) is not None:
                    stream.take(frame)
            except ValueError as error:
                _log.warning("the link of a tunnel: %s", error)
                return

    def _reset(self) -> None:
        for stream in self._streams.values():
            stream.reset()
        self._streams.clear()
