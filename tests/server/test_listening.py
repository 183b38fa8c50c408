"""Claims about serving an app on a socket: how requests in flight end, and what an app's own error becomes."""

import asyncio
import logging

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from paddock.server.listening import HttpServer
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


async def silent(scope: Scope, receive: Receive, send: Send) -> None:
    await asyncio.Event().wait()


async def half(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"half", "more_body": True})
    await asyncio.Event().wait()


async def broken(scope: Scope, receive: Receive, send: Send) -> None:
    raise ZeroDivisionError("of the app's own")


async def test_a_request_that_was_not_answered_is_told_to_try_elsewhere() -> None:
    async with httpx.AsyncClient() as client:
        async with Serving(silent) as serving:
            call = asyncio.create_task(client.post(serving.url))
            await asyncio.sleep(0.1)
        reply = await call
    assert reply.status_code == 503
    assert reply.json()["error"]["kind"] == "stopping"
    assert reply.json()["error"]["retryable"] is True


async def test_a_half_sent_answer_is_cut_off_and_never_passes_for_a_whole_one() -> None:
    async with httpx.AsyncClient() as client:
        async with Serving(half) as serving:
            call = asyncio.create_task(client.get(serving.url))
            await asyncio.sleep(0.1)
        with pytest.raises(httpx.RemoteProtocolError):
            await call


async def test_idle_connections_do_not_hold_up_the_end() -> None:
    loop = asyncio.get_running_loop()
    async with Serving(broken) as serving:
        _, idle = await asyncio.open_connection("127.0.0.1", int(serving.url.rpartition(":")[2]))
        _, started = await asyncio.open_connection("127.0.0.1", int(serving.url.rpartition(":")[2]))
        started.write(b"POST / HTTP/1.1\r\nhost: x\r\n")
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
