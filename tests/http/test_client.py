"""Claims about the HTTP client: every way a peer can fail has an owner, an end, and no second call where it may not."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import orjson
import pytest

from paddock.errors import InfraError, PaddockError, RowError
from paddock.http import RUN, SEED, Call, HttpPeer, RetryPolicy
from paddock.http.transport import make_client
from paddock.types import Row, Session

ROW = Row(responses_create_params={"input": "hi"})
QUICK = RetryPolicy(attempts=3, first_wait_s=0.01)
Answer = Callable[[asyncio.StreamWriter, int], Awaitable[None]]


class RawServer:
    """A raw server that answers as told, and remembers the request ids it saw."""

    def __init__(self, answer: Answer) -> None:
        self.request_ids: list[str] = []
        self._answer = answer
        self._open: set[asyncio.StreamWriter] = set()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
                await reader.readexactly(int(fields.get("content-length", 0)))
                self.request_ids.append(fields["x-request-id"])
                await self._answer(writer, len(self.request_ids))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            self._open.discard(writer)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[HttpPeer]:
        server = await asyncio.start_server(self, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        client = make_client()
        try:
            yield HttpPeer("peer", client, f"http://127.0.0.1:{port}", retry=QUICK)
        finally:
            await client.aclose()
            server.close()
            for writer in list(self._open):
                writer.transport.abort()


def reply(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body)


def always(data: bytes, *, then_close: bool = False) -> Answer:
    async def answer(writer: asyncio.StreamWriter, _nth: int) -> None:
        writer.write(data)
        await writer.drain()
        if then_close:
            writer.close()

    return answer


async def hang(_writer: asyncio.StreamWriter, _nth: int) -> None:
    await asyncio.sleep(30)


async def drip(writer: asyncio.StreamWriter, _nth: int) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10000\r\n\r\n")
    for _ in range(1000):
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("answer", "kind", "calls"),
    [
        (always(b"", then_close=True), "connection", 3),
        (always(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{", then_close=True), "connection", 3),
        (always(b"SSH-2.0\r\n\r\n", then_close=True), "connection", 3),
        (always(reply(200, b"{not json")), "reply_unreadable", 3),
        (always(reply(200, b"[]")), "reply_unreadable", 3),
        (always(reply(503, b"busy")), "peer_status", 3),
        (always(reply(429, b"{}")), "peer_status", 3),
        (hang, "timeout", 1),
        (drip, "timeout", 1),
    ],
)
async def test_a_failing_peer_is_an_infrastructure_failure_after_a_counted_number_of_tries(
    answer: Answer, kind: str, calls: int
) -> None:
    peer = RawServer(answer)
    async with peer.serving() as client:
        with pytest.raises(InfraError) as caught:
            await client.call(SEED, ROW, Call().within(0.5))
    assert (caught.value.kind, len(peer.request_ids)) == (kind, calls)
    assert len(set(peer.request_ids)) == 1


async def test_nobody_listening_is_a_connection_failure() -> None:
    client = make_client()
    with pytest.raises(InfraError) as caught:
        await HttpPeer("peer", client, "http://127.0.0.1:1", retry=QUICK).call(SEED, ROW, Call())
    await client.aclose()
    assert caught.value.kind == "connection"


async def test_a_call_that_may_not_be_replayed_is_sent_once() -> None:
    peer = RawServer(always(b"", then_close=True))
    async with peer.serving() as client:
        with pytest.raises(InfraError):
            await client.call(RUN, ROW, Call())
    assert len(peer.request_ids) == 1


async def test_an_error_of_the_peers_own_keeps_its_owner_and_is_not_tried_again() -> None:
    body = orjson.dumps(RowError("expected_action: missing", kind="expected_action_missing").to_wire())
    peer = RawServer(always(reply(422, body)))
    async with peer.serving() as client:
        with pytest.raises(PaddockError) as caught:
            await client.call(SEED, ROW, Call())
    assert (type(caught.value), caught.value.kind) == (RowError, "expected_action_missing")
    assert len(peer.request_ids) == 1


async def test_a_peer_that_recovers_is_answered_for() -> None:
    async def answer(writer: asyncio.StreamWriter, nth: int) -> None:
        writer.write(reply(500, b"{}") if nth < 3 else reply(200, b'{"workdir": "/w"}'))
        await writer.drain()

    peer = RawServer(answer)
    async with peer.serving() as client:
        assert await client.call(SEED, ROW, Call()) == Session(workdir="/w")
    assert len(peer.request_ids) == 3


async def test_a_client_keeps_no_cookies() -> None:
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).lower())
        writer.write(b"HTTP/1.1 204 No Content\r\nSet-Cookie: machine=a; Path=/\r\nConnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        client = make_client()
        for _ in range(2):
            await client.get(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        await client.aclose()
    assert len(heads) == 2
    assert not any(b"machine=a" in head for head in heads)
