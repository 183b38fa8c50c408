"""A socket that listens on a sandbox's loopback and accepts here: the keeper makes it and passes it to us."""

import asyncio
import socket
from collections.abc import AsyncIterator


class SocketConnection:
    """One connection from inside."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._loop = asyncio.get_running_loop()

    async def read(self, max_bytes: int = 65536) -> bytes:
        """The next bytes; empty: the other side has closed."""
        return await self._loop.sock_recv(self._socket, max_bytes)

    async def write(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._socket, data)

    async def close(self) -> None:
        self._socket.close()


class SocketListener:
    """Accepts connections of a listening socket, which it owns."""

    def __init__(self, listener: socket.socket) -> None:
        self._socket = listener
        self._loop = asyncio.get_running_loop()
        self._arrived: asyncio.Queue[SocketConnection | None] = asyncio.Queue()
        self._loop.add_reader(listener, self._accept)
        self.port: int = listener.getsockname()[1]

    async def connections(self) -> AsyncIterator[SocketConnection]:
        """Until it is closed."""
        while (connection := await self._arrived.get()) is not None:
            yield connection

    async def close(self) -> None:
        """Idempotent; connections that nobody has taken are closed too."""
        if self._socket.fileno() < 0:
            return
        self._loop.remove_reader(self._socket)
        self._socket.close()
        while not self._arrived.empty():
            connection = self._arrived.get_nowait()
            if connection is not None:
                await connection.close()
        self._arrived.put_nowait(None)

    def _accept(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except OSError:
            return  # the other side has gone again
        connection.setblocking(False)
        self._arrived.put_nowait(SocketConnection(connection))


def loopback_listener() -> SocketListener:
    """One on this machine's own loopback, on a port that was free."""
    listener = socket.socket()
    try:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        listener.setblocking(False)
        return SocketListener(listener)
    except BaseException:
        listener.close()
        raise
