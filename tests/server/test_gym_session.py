"""A server elsewhere that keeps a session in a cookie: what is sent, and what comes of a server that misbehaves."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from aiohttp import web

from paddock.errors import InfraError, RowError
from paddock.http import CALL_TOOL, END_SESSION, SEED, VERIFY_SESSION, Call, Peer, SessionCall, VerifyRequest, read_row
from paddock.resources_servers.external import ExternalServer
from paddock.resources_servers.external.server import ExternalConfig
from paddock.testing.transports import Transport, over
from paddock.types import Row


def row(*names: Any) -> Row:
    return read_row({"responses_create_params": {"input": "x", "tools": [{"name": name} for name in names]}})


ENDLESS_BYTES = 1 << 30
MAX_REPLY_MIB = 2
SLACK_BYTES = 64 << 20
"""What sockets and pipes of both ends may hold, and more."""


class CookieCounter:
    """Counts in the cookie itself: each answer sets another one."""

    def __init__(self, seed_cookies: tuple[str, ...]) -> None:
        self.seed_cookies = seed_cookies
        self.failing_verdicts = 0
        """How many more verdicts fail, each after it has dropped the state."""
        self.is_endless = False
        """Whether verdicts have no end."""
        self.n_sent = 0
        """Bytes of endless answers."""
        self.requests: list[tuple[str, str | None]] = []

    async def flood(self, request: web.Request) -> web.StreamResponse:
        reply = web.StreamResponse()
        reply.content_type = "application/json"
        await reply.prepare(request)
        with suppress(ConnectionError):
            while self.n_sent < ENDLESS_BYTES:
                await reply.write(b" " * (1 << 16))
                self.n_sent += 1 << 16
        return reply

    async def answer(self, request: web.Request) -> web.StreamResponse:
        cookie = request.headers.get("cookie")
        self.requests.append((request.path, cookie))
        match request.path:
            case "/seed_session":
                reply = web.json_response({})
                for text in self.seed_cookies:
                    reply.headers.add("set-cookie", text)
                return reply
            case "/add":
                count = int(str(cookie).partition("=")[2]) + 1
                return web.Response(text=f"now {count}", headers={"set-cookie": f"count={count}; Path=/"})
            case "/flood":
                return await self.flood(request)
            case "/verify" if self.is_endless:
                return await self.flood(request)
            case "/verify" if self.failing_verdicts:
                self.failing_verdicts -= 1
                return web.Response(status=500, text="broken", headers={"set-cookie": "count=0; Path=/"})
            case "/verify":
                return web.json_response({"reward": float(cookie == "count=2")})
            case "/refuse":
                return web.Response(status=422, text="no such count")
        return web.Response(status=500, text="broken")


@asynccontextmanager
async def gym(*seed_cookies: str, transport: Transport = "direct") -> AsyncIterator[tuple[Peer, CookieCounter]]:
    counter = CookieCounter(seed_cookies)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", counter.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with over(
            transport, ExternalServer(ExternalConfig(base_url=url, max_reply_mib=MAX_REPLY_MIB), name="gym", peers={})
        ) as at:
            yield at["gym"], counter
    finally:
        await runner.cleanup()


async def call(peer: Peer, session: str, name: str, arguments: str = "{}", call_id: str = "1") -> Any:
    request = SessionCall(name=name, arguments=arguments, call_id=call_id)
    return await peer.call(CALL_TOOL, request, Call().within(5), session=session)


async def test_each_call_brings_the_cookie_that_the_one_before_set() -> None:
    one = row("add", "refuse", "burn")
    async with gym("count=0; Path=/; HttpOnly") as (peer, counter):
        session = str((await peer.call(SEED, one, Call())).session_id)
        other = str((await peer.call(SEED, one, Call())).session_id)
        assert (await call(peer, session, "add", call_id="1")).text == "now 1"
        assert (await call(peer, session, "add", call_id="1")).text == "now 1"
        assert (await call(peer, session, "add", call_id="2")).text == "now 2"
        assert (await call(peer, other, "add")).text == "now 1"
        request = VerifyRequest(row=one, response={"output": []})
        assert (await peer.call(VERIFY_SESSION, request, Call(), session=session)).reward == 1.0
        assert (await peer.call(VERIFY_SESSION, request, Call(), session=other)).reward == 0.0
        asked = [path for path, _ in counter.requests]
        for name, arguments, problem in [("verify", "{}", "unknown_tool"), ("add", "[", "bad_json")]:
            assert (await call(peer, session, name, arguments, call_id=name + arguments)).problem == problem
        assert [path for path, _ in counter.requests] == asked
        refused = await call(peer, session, "refuse", call_id="4")
        assert (refused.text, refused.problem) == ("no such count", "bad_arguments")
        with pytest.raises(InfraError, match="burn: 500: broken"):
            await call(peer, session, "burn", call_id="5")
        for _ in range(2):
            await peer.call(END_SESSION, {}, Call(), session=session)
        with pytest.raises(InfraError, match="not here any more"):
            await peer.call(VERIFY_SESSION, request, Call(), session=session)


@pytest.mark.parametrize("transport", ["direct", "http"])
async def test_a_verdict_that_failed_is_not_asked_for_again(transport: Transport) -> None:
    """The state of its session may be gone: the second would be of another one, and no failure."""
    one = row("add")
    async with gym("count=2", transport=transport) as (peer, counter):
        session = str((await peer.call(SEED, one, Call())).session_id)
        counter.failing_verdicts = 1
        request = VerifyRequest(row=one, response={"output": []})
        with pytest.raises(InfraError, match="500"):
            await peer.call(VERIFY_SESSION, request, Call(), session=session)
        assert [path for path, _ in counter.requests].count("/verify") == 1


async def test_an_answer_without_an_end_is_no_verdict_and_no_result() -> None:
    one = row("flood")
    async with gym("count=2") as (peer, counter):
        session = str((await peer.call(SEED, one, Call())).session_id)
        with pytest.raises(InfraError) as of_tool:
            await call(peer, session, "flood")
        counter.is_endless = True
        request = VerifyRequest(row=one, response={"output": []})
        with pytest.raises(InfraError) as of_verdict:
            await peer.call(VERIFY_SESSION, request, Call().within(30), session=session)
        assert [one.value.kind for one in (of_tool, of_verdict)] == ["reply_too_large"] * 2
        assert counter.n_sent < 2 * (MAX_REPLY_MIB << 20) + SLACK_BYTES


@pytest.mark.parametrize("cookie", ["", ";;;", "a,b=1", "=1", "path=/", "\u00e9=1"])
async def test_a_cookie_that_is_none_is_none(cookie: str) -> None:
    async with gym(cookie) as (peer, _):
        session = await peer.call(SEED, row("add"), Call())
        assert session.session_id is None or cookie == "\u00e9=1"


@pytest.mark.parametrize("name", ["verify", "seed_session", "a/../verify", "verify?x=1", "..", "", None, "x" * 200])
async def test_a_row_whose_tool_is_another_route_is_refused(name: Any) -> None:
    async with gym("count=0") as (peer, _):
        with pytest.raises(RowError, match=r"tools\.1\.name"):
            await peer.call(SEED, row("add", name), Call())
