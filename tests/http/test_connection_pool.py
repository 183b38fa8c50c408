"""Requests over kept connections, against a server that answers bytes by a script."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

import pytest

from paddock.http.connection_pool import ConnectionPool, PooledAnswer

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nword"
CLOSING = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nword"
CHUNKED = b"HTTP/1.1 404 No\r\ntransfer-encoding: chunked\r\n\r\n2\r\nwo\r\n2\r\nrd\r\n0\r\n\r\n"
WORD = PooledAnswer(200, b"word")


class ByteServer:
    """Answers the requests that come, over all connections, with one entry of its script each. None: with nothing."""

    def __init__(self, script: list[bytes | None]) -> None:
        self.script = script
        self.requests: list[bytes] = []
        self.connections = 0
        self.ends_after = False
        """A connection is closed once it has answered."""
        self._serving: set[asyncio.Task[None]] = set()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.add(asyncio.ensure_future(self._serve(reader, writer)))

    async def close(self) -> None:
        if self._serving:
            await asyncio.wait(self._serving)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(asyncio.IncompleteReadError, OSError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lengths = [line for line in head.split(b"\r\n") if line.startswith(b"content-length: ")]
                body = await reader.readexactly(int(lengths[0].split()[1])) if lengths else b""
                self.requests.append(head + body)
                answer = self.script.pop(0)
                if answer is None:
                    await reader.read()
                    break
                writer.write(answer)
                if self.ends_after:
                    break
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


class PoolFixture(NamedTuple):
    server: ByteServer
    pool: ConnectionPool


@asynccontextmanager
async def served(*script: bytes | None, silence_timeout_s: float = 30.0) -> AsyncIterator[PoolFixture]:
    server = ByteServer(list(script))
    listener = await asyncio.start_server(server.accept, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    url, headers = f"http://127.0.0.1:{port}/below", {"authorization": "Bearer a"}
    pool = ConnectionPool(url, headers, connect_timeout_s=5, silence_timeout_s=silence_timeout_s)
    try:
        yield PoolFixture(server, pool)
    finally:
        pool.close()
        listener.close()
        await server.close()


async def get(pool: ConnectionPool, *, timeout_s: float | None = None) -> PooledAnswer:
    return await pool.send("GET", "/a?b=c", {}, None, timeout_s=timeout_s)


async def test_requests_in_turn_go_over_one_connection_and_those_at_once_over_one_each() -> None:
    async with served(OK, b"HTTP/1.1 103 Hints\r\nlink: x\r\n\r\n" + CHUNKED, OK, OK, OK) as (server, pool):
        assert await pool.send("POST", "/a%2Fb", {"x-a": "1"}, b"body") == WORD
        assert await get(pool) == (404, b"word")
        assert server.connections == 1
        head, _, body = server.requests[0].partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        assert lines[0] == b"POST /below/a%2Fb HTTP/1.1"
        assert {b"x-a: 1", b"authorization: Bearer a", b"content-length: 4"} < set(lines[1:])
        assert sum(line.startswith(b"host: 127.0.0.1:") for line in lines) == 1
        assert body == b"body"
        await asyncio.gather(get(pool), get(pool), get(pool))
        assert server.connections == 3


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(OK[:-1], id="body"),
        pytest.param(OK[:20], id="head"),
        pytest.param(b"", id="nothing"),
        pytest.param(CHUNKED[:-5], id="chunks"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\nword", id="no length"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n", id="no HTTP"),
    ],
)
async def test_what_is_no_whole_answer_fails_and_the_next_request_has_a_new_connection(answer: bytes) -> None:
    async with served(answer, OK) as (server, pool):
        server.ends_after = True
        with pytest.raises(ConnectionError):
            await get(pool)
        assert await get(pool) == WORD
        assert server.connections == 2


async def test_a_connection_that_its_server_will_close_is_not_used_again() -> None:
    async with served(CLOSING, OK) as (server, pool):
        assert await get(pool) == WORD
        assert await get(pool) == WORD
        assert server.connections == 2


async def test_one_that_was_closed_while_idle_is_not_used_again() -> None:
    async with served(OK, OK) as (server, pool):
        server.ends_after = True
        assert await get(pool) == WORD
        await asyncio.sleep(0.1)
        assert await get(pool) == WORD
        assert server.connections == 2


async def test_an_answer_that_nobody_asked_for_is_nobodys() -> None:
    async with served(OK + CHUNKED, OK) as (server, pool):
        assert await get(pool) == WORD
        await asyncio.sleep(0.1)
        assert await get(pool) == WORD
        assert server.connections == 2


async def test_a_cancelled_request_takes_its_connection_with_it() -> None:
    async with served(None, OK) as (server, pool):
        asking = asyncio.ensure_future(get(pool))
        while not server.requests:
            await asyncio.sleep(0.01)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await get(pool) == WORD
        assert server.connections == 2


async def test_a_silent_server_is_given_up_by_either_limit() -> None:
    async with served(None, None, OK, silence_timeout_s=0.1) as (_, pool):
        with pytest.raises(TimeoutError, match=r"nothing came for 0\.1 s"):
            await get(pool)
        with pytest.raises(TimeoutError):
            await get(pool, timeout_s=0.5)
        assert await get(pool) == WORD


async def test_an_answer_that_comes_before_the_body_has_gone_ends_its_connection() -> None:
    writers: list[asyncio.StreamWriter] = []

    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        writer.write(OK)

    listener = await asyncio.start_server(refuse, "127.0.0.1", 0, limit=1 << 10)
    port = listener.sockets[0].getsockname()[1]
    pool = ConnectionPool(f"http://127.0.0.1:{port}", {}, connect_timeout_s=5, silence_timeout_s=30)
    for _ in range(2):
        assert await pool.send("PUT", "/", {}, bytes(1 << 24)) == WORD
    assert len(writers) == 2
    pool.close()
    listener.close()
    for writer in writers:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


async def test_who_cant_be_reached_is_named() -> None:
    listener = await asyncio.start_server(ByteServer([]).accept, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    listener.close()
    await listener.wait_closed()
    pool = ConnectionPool(f"http://127.0.0.1:{port}", {}, connect_timeout_s=5, silence_timeout_s=30)
    with pytest.raises(ConnectionError, match=f"can't connect to 127.0.0.1:{port}: "):
        await get(pool)


@pytest.mark.parametrize(("path", "headers"), [("/a\r\nx: y", {}), ("/a", {"id": "1\nx: y"}), ("/a", {"id\r": "1"})])
async def test_a_line_break_never_reaches_the_server(path: str, headers: dict[str, str]) -> None:
    async with served(OK) as (server, pool):
        with pytest.raises(ValueError, match="line break"):
            await pool.send("GET", path, headers, None)
        assert await pool.send("GET", "/a", {}, None) == WORD
        assert server.connections == len(server.requests) == 1
