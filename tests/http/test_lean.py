"""Claims about the lean client: whatever a server sends is read whole, or is an error; nothing is left open."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import aiohttp
import httpx
import pytest
import uvloop

from paddock.http.lean import MAX_UNREAD, Bound, LeanClient, Received, Target

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server(NamedTuple):
    target: Target
    requests: list[bytes]
    """Each with its body."""
    connections: list[int]


@asynccontextmanager
async def serving(
    *answers: bytes, serve: Serve | None = None, root: str = ""
) -> AsyncIterator[tuple[Server, LeanClient]]:
    """Gives the answers in turn, over whatever connection; one that ends with nothing more ends its connection."""
    requests: list[bytes] = []
    connections: list[int] = []
    coming = iter(answers)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                requests.append(head + await reader.readexactly(length))
                if serve is not None:
                    await serve(reader, writer)
                    return
                answer = next(coming)
                writer.write(answer.removesuffix(b"<end>"))
                await writer.drain()
                if answer.endswith(b"<end>"):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    client = LeanClient()
    try:
        url = httpx.URL(f"http://127.0.0.1:{port}{root}")
        yield Server(Target.of(url, {"x-a": "b"}), requests, connections), client
    finally:
        await client.close()
        server.close()


@pytest.fixture(params=LOOPS, ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Callable[[Awaitable[None]], None]]:
    with asyncio.Runner(loop_factory=request.param) as runner:
        yield runner.run  # type: ignore[misc]


Run = Callable[[Awaitable[None]], None]
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 201 Made\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"
HINTED = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + WHOLE
OPEN_ENDED = b"HTTP/1.1 200 OK\r\n\r\nhello<end>"


def test_an_answer_of_any_form_is_read_whole_and_its_connection_used_again(run: Run) -> None:
    async def main() -> None:
        async with serving(WHOLE, CHUNKED, HINTED, WHOLE, root="/x") as (server, client):
            for status in (200, 201, 200, 200):
                received = await client.post(server.target, "/v1", b"body")
                assert (received.status, await received.read(), received.complete) == (status, b"hello", True)
            assert received.headers == {"content-type": "text/plain", "content-length": "5"}
            assert len(server.connections) == 1
            assert server.requests[0].startswith(b"POST /x/v1 HTTP/1.1\r\nhost: 127.0.0.1:")
            assert server.requests[0].endswith(b"x-a: b\r\ncontent-length: 4\r\n\r\nbody")

    run(main())


def test_an_answer_without_a_length_ends_with_its_connection(run: Run) -> None:
    async def main() -> None:
        async with serving(OPEN_ENDED, WHOLE) as (server, client):
            for _ in range(2):
                received = await client.post(server.target, "/", b"")
                assert await received.read() == b"hello"
            assert len(server.connections) == 2

    run(main())


def test_a_connection_that_its_server_closed_is_not_used_again(run: Run) -> None:
    async def main() -> None:
        async with serving(WHOLE + b"<end>", WHOLE) as (server, client):
            await (await client.post(server.target, "/", b"")).read()
            await asyncio.sleep(0.1)
            assert await (await client.post(server.target, "/", b"")).read() == b"hello"
            assert len(server.connections) == 2

    run(main())


@pytest.mark.parametrize(
    ("answer", "before"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello<end>", b"hello"),
        (CHUNKED[:-5] + b"<end>", b"hello"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nno number\r\n", b"hello"),
        (b"HTTP/1.1 200 OK\r\ncontent-le<end>", None),
        (b"<end>", None),
        (b"SSH-2.0-OpenSSH\r\n", None),
    ],
)
def test_an_answer_that_breaks_off_is_an_error_after_what_came(run: Run, answer: bytes, before: bytes | None) -> None:
    async def main() -> None:
        async with serving(answer) as (server, client):
            if before is None:
                with pytest.raises(aiohttp.ClientError):
                    await client.post(server.target, "/", b"")
                return
            received = await client.post(server.target, "/", b"")
            found = b""
            with pytest.raises(aiohttp.ClientError):
                while True:
                    found += await received.read_some()
            assert found == before
            assert not received.complete
            with pytest.raises(aiohttp.ClientError):
                await received.read()

    run(main())


def test_what_is_not_answered_by_anybody_is_an_error(run: Run) -> None:
    async def main() -> None:
        async with serving() as (server, client):
            target = server.target._replace(port=1)
            with pytest.raises(aiohttp.ClientError, match="can't connect"):
                await client.post(target, "/", b"")

    run(main())


def test_closing_an_answer_or_giving_up_waiting_for_it_closes_its_connection(run: Run) -> None:
    gone = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal gone
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhel")
        await reader.read()
        gone += 1

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal gone
        await reader.read()
        gone += 1

    async def until_gone(count: int) -> None:
        async with asyncio.timeout(20):
            while gone < count:
                await asyncio.sleep(0.01)

    async def main() -> None:
        async with serving(serve=serve) as (server, client):
            received = await client.post(server.target, "/", b"")
            assert await received.read_some() == b"hel"
            received.close()
            received.close()
            await until_gone(1)
        async with serving(serve=silent) as (server, client):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await client.post(server.target, "/", b"")
            await until_gone(2)
        async with serving(serve=serve) as (server, client):
            received = await client.post(server.target, "/", b"")
            assert await received.read_some() == b"hel"
            await client.close()
            with pytest.raises(aiohttp.ClientError):  # cut off by us: it never passes for the whole
                await received.read()

    run(main())


def test_an_exchange_ends_when_its_time_is_over_and_when_it_is_told(run: Run) -> None:
    async def silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()
        gone.append("silent")

    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhel")
        await reader.read()
        gone.append("half")

    gone: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with serving(serve=silent) as (server, client):
            with pytest.raises(TimeoutError):
                await client.post(server.target, "/", b"", bound=Bound(loop.time() + 0.05))
            bound = Bound()
            loop.call_later(0.05, bound.end, ZeroDivisionError("told"))
            loop.call_later(0.05, bound.end, KeyError("too late"))
            with pytest.raises(ZeroDivisionError, match="told"):
                await client.post(server.target, "/", b"", bound=bound)
            with pytest.raises(ZeroDivisionError, match="told"):  # it was over before
                await client.post(server.target, "/", b"", bound=bound)
        async with serving(serve=half) as (server, client):
            bound = Bound(loop.time() + 600)
            received = await client.post(server.target, "/", b"", bound=bound)
            bound.shorten(loop.time() + 0.2)
            bound.shorten(loop.time() + 60)
            await asyncio.sleep(0.3)
            assert await received.read_some() == b"hel"  # what had come is read
            with pytest.raises(TimeoutError):
                await received.read_some()
            async with asyncio.timeout(20):
                while gone.count("silent") < 2 or "half" not in gone:
                    await asyncio.sleep(0.01)

    run(main())


def test_time_that_was_lifted_ends_nothing(run: Run) -> None:
    async def main() -> None:
        async with serving(WHOLE) as (server, client):
            bound = Bound(asyncio.get_running_loop().time() + 0.1)
            received = await client.post(server.target, "/", b"", bound=bound)
            bound.lift()
            await asyncio.sleep(0.2)
            assert (bound.error, await received.read()) == (None, b"hello")

    run(main())


def test_connecting_ends_when_its_time_is_over_and_when_it_is_told(run: Run) -> None:
    async def main() -> None:
        with socket.socket() as full, contextlib.ExitStack() as waiting:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            for _ in range(4):  # nobody accepts them; the next has to wait
                sock = waiting.enter_context(socket.socket())
                sock.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    sock.connect(full.getsockname())
            target = Target.of(httpx.URL(f"http://127.0.0.1:{full.getsockname()[1]}"), {})
            client, loop = LeanClient(), asyncio.get_running_loop()
            with pytest.raises(TimeoutError):
                await client.post(target, "/", b"", bound=Bound(loop.time() + 0.05))
            bound = Bound()
            loop.call_later(0.05, bound.end, ZeroDivisionError("told"))
            with pytest.raises(ZeroDivisionError, match="told"):
                await client.post(target, "/", b"", bound=bound)
            asked = asyncio.ensure_future(client.post(target, "/", b"", bound=Bound()))
            await asyncio.sleep(0.05)
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            await client.close()

    run(main())


def test_the_end_is_told(run: Run) -> None:
    async def main() -> None:
        told: list[Received] = []
        async with serving(CHUNKED[:-5], WHOLE) as (server, client):
            received = await client.post(server.target, "/", b"")
            assert await received.read_some()
            received.on_end(lambda: told.append(received))
            assert not told
            received.close()
            async with asyncio.timeout(20):
                while not told:
                    await asyncio.sleep(0.01)

    run(main())


def test_a_slow_reader_holds_up_its_server_and_misses_nothing(run: Run) -> None:
    size = 64 * MAX_UNREAD
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        for _ in range(size // MAX_UNREAD):
            writer.write(b"x" * MAX_UNREAD)
            await writer.drain()
            sent += MAX_UNREAD

    async def main() -> None:
        async with serving(serve=serve) as (server, client):
            received = await client.post(server.target, "/", b"")
            await asyncio.sleep(0.5)
            assert sent < size
            assert len(await received.read()) == size

    run(main())


@pytest.mark.parametrize("value", ["a\r\nb: c", "é", "a\n"])
def test_a_header_that_would_be_another_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="x-key"):
        Target.of(httpx.URL("http://a"), {"x-key": value})


def test_a_target_is_what_its_url_says() -> None:
    target = Target.of(httpx.URL("https://u:p%40@[::1]/v/"), {})
    assert (target.host, target.port, target.tls, target.path) == ("::1", 443, True, b"/v")
    assert target.head == b"host: [::1]\r\nauthorization: Basic dTpwQA==\r\n"
    assert Target.of(httpx.URL("http://a:81"), {}).port == 81
