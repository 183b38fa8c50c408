"""Claims about serving an app on a socket: how requests in flight end, and what an app's own error becomes."""

import asyncio
import logging

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from paddock.server.http_server import HttpServer
from paddock.server.sockets import Address, bind


class Serving:
    """An app on a port."""

    def __init__(self, app: ASGIApp) -> None:
        bound = bind("app", Address("127.0.0.1", 0))
        self.url = bound.url
        self.server = HttpServer(app, bound.sock)

    async def __aenter__(self) -> "Serving":
        await self.server.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.server.stop()


class Unending:
    """An app that never ends an answer; `begun` is set when it has sent what it sends, if anything."""

    def __init__(self, *, sends: bool) -> None:
        self.begun = asyncio.Event()
        self._sends = sends

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._sends:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"half", "more_body": True})
        self.begun.set()
        await asyncio.Event().wait()


async def broken(scope: Scope, receive: Receive, send: Send) -> None:
    raise ZeroDivisionError("of the app's own")


async def test_a_request_that_was_not_answered_is_told_to_try_elsewhere() -> None:
    app = Unending(sends=False)
    async with httpx.AsyncClient() as client:
        async with Serving(app) as serving:
            call = asyncio.create_task(client.post(serving.url))
            await app.begun.wait()
        reply = await call
    assert reply.status_code == 503
    assert reply.json()["error"]["kind"] == "stopping"
    assert reply.json()["error"]["retryable"] is True


async def test_a_half_sent_answer_is_cut_off_and_never_passes_for_a_whole_one() -> None:
    app = Unending(sends=True)
    async with httpx.AsyncClient() as client:
        async with Serving(app) as serving:
            call = asyncio.create_task(client.get(serving.url))
            await app.begun.wait()
        with pytest.raises(httpx.RemoteProtocolError):
            await call


HEAD = b"HTTP/1.1 200 OK\r\na: b\r\n\r\n"


async def test_answers_of_any_form_arrive_whole_one_after_the_other() -> None:
    """Of a body that looks like a head, too."""
    bodies = [b"", b"text", HEAD, b"x" * 1_000_000]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body = bodies[int(scope["path"][1:]) % len(bodies)]
        stream = int(scope["path"][1:]) >= len(bodies)
        length = [] if stream else [(b"content-length", b"%d" % (2 * len(body)))]
        await send({"type": "http.response.start", "status": 200, "headers": length})
        if stream:
            await asyncio.sleep(0.01)
        for _ in range(2):
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async with Serving(app) as serving, httpx.AsyncClient() as client:
        for nth in (*range(2 * len(bodies)), *range(2 * len(bodies))):
            reply = await client.get(f"{serving.url}/{nth}")
            assert reply.content == 2 * bodies[nth % len(bodies)]
            assert "server" not in reply.headers


async def test_idle_connections_do_not_hold_up_the_end() -> None:
    loop = asyncio.get_running_loop()
    async with Serving(broken) as serving:
        _, idle = await asyncio.open_connection("127.0.0.1", int(serving.url.rpartition(":")[2]))
        _, started = await asyncio.open_connection("127.0.0.1", int(serving.url.rpartition(":")[2]))
        started.write(b"POST / HTTP/1.1\r\nhost: localhost\r\n")
        await started.drain()
        began = loop.time()
    assert loop.time() - began < 20
    for writer in (idle, started):
        writer.close()


async def test_what_an_app_raises_is_logged_and_is_a_bug_to_the_caller(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    async with httpx.AsyncClient() as client, Serving(broken) as serving:
        reply = await client.get(f"{serving.url}/x")
    assert reply.status_code == 500
    assert reply.json()["error"]["owner"] == "us"
    assert [record.getMessage() for record in caplog.records] == ["GET /x"]
